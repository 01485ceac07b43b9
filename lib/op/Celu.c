#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad)
{
	gg_value *below = OP("Less", IN(0), NUM(dy, 0));
	gg_give(t, IN(0),
	        gg_put_where(t, below,
	                     OP("Mul", dy, OP("Exp", OP("Div", IN(0), NUM(dy, gg_get_float(n, "alpha"))), 0)),
	                     dy));
}

GG_UNARY_ATTR(Celu, "x, or alpha * (exp(x / alpha) - 1) below 0",
              GG_ATTRS({"alpha", GG_ATTR_FLOAT, false, "1"}), x < 0 ? a * expm1(x / a) : x, .grad = grad);
