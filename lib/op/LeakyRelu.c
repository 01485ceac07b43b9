#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad)
{
	gg_value *low = OP("Mul", dy, NUM(dy, gg_get_float(n, "alpha")));
	gg_give(t, IN(0), gg_put_where(t, OP("Greater", IN(0), NUM(dy, 0)), dy, low));
}

GG_UNARY_ATTR(LeakyRelu, "x, or alpha * x below 0", GG_ATTRS({"alpha", GG_ATTR_FLOAT, false, "0.01"}),
              x < 0 ? a * x : x, .grad = grad);
