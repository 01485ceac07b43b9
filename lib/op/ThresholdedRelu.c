#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad)
{
	gg_value *kept = OP("Greater", IN(0), NUM(dy, gg_get_float(n, "alpha")));
	gg_give(t, IN(0), gg_grad_masked(t, kept, dy, true));
}

GG_UNARY_ATTR(ThresholdedRelu, "x where above alpha, else 0", GG_ATTRS({"alpha", GG_ATTR_FLOAT, false, "1"}),
              x > a ? x : 0, .grad = grad);
