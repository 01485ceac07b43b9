#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad)
{
	gg_give(t, IN(0), OP("Div", dy, OP("Sqrt", OP("Sub", OP("Mul", IN(0), IN(0)), NUM(dy, 1)), 0)));
}

GG_UNARY(Acosh, "inverse hyperbolic cosine of x", GG_FLOATS, acosh(x), 0, .grad = grad);
