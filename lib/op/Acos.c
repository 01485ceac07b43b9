#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad)
{
	gg_give(t, IN(0),
	        OP("Neg", OP("Div", dy, OP("Sqrt", OP("Sub", NUM(dy, 1), OP("Mul", IN(0), IN(0))), 0)), 0));
}

GG_UNARY(Acos, "inverse cosine of x", GG_FLOATS, acos(x), 0, .grad = grad);
