#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad)
{
	gg_value *below = OP("Less", IN(0), NUM(dy, 0));
	gg_give(t, IN(0),
	        gg_put_where(t, below, OP("Mul", dy, OP("Add", OUT, NUM(dy, gg_get_float(n, "alpha")))), dy));
}

GG_UNARY_ATTR(Elu, "x, or alpha * (exp(x) - 1) below 0", GG_ATTRS({"alpha", GG_ATTR_FLOAT, false, "1"}),
              x < 0 ? a * expm1(x) : x, .grad = grad);
