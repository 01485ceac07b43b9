#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad)
{
	gg_give(t, IN(0), OP("Div", dy, OP("Sqrt", OP("Add", OP("Mul", IN(0), IN(0)), NUM(dy, 1)), 0)));
}

GG_UNARY(Asinh, "inverse hyperbolic sine of x", GG_FLOATS, asinh(x), 0, .grad = grad);
