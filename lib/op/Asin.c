#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad)
{
	gg_give(t, IN(0), OP("Div", dy, OP("Sqrt", OP("Sub", NUM(dy, 1), OP("Mul", IN(0), IN(0))), 0)));
}

GG_UNARY(Asin, "inverse sine of x", GG_FLOATS, asin(x), 0, .grad = grad);
