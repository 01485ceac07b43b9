#include "pointwise.h"
#include "grad.h"

/* alpha between the ends */
GG_GRAD(grad)
{
	gg_value *low = OP("Greater", OUT, NUM(dy, 0)), *high = OP("Less", OUT, NUM(dy, 1));
	gg_value *inside = OP("And", low, high);
	gg_give(t, IN(0), gg_grad_masked(t, inside, OP("Mul", dy, NUM(dy, gg_get_float(n, "alpha"))), true));
}

GG_UNARY_ATTR(HardSigmoid, "max(0, min(1, alpha * x + beta))",
              GG_ATTRS({"alpha", GG_ATTR_FLOAT, false, "0.2"}, {"beta", GG_ATTR_FLOAT, false, "0.5"}),
              a *x + b < 0    ? 0
              : a * x + b > 1 ? 1
                              : a * x + b,
              .grad = grad);
