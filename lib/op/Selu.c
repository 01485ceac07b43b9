#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad)
{
	double gamma = gg_get_float(n, "gamma"), alpha = gg_get_float(n, "alpha");
	gg_value *below = OP("Less", IN(0), NUM(dy, 0)), *low = OP("Add", OUT, NUM(dy, gamma * alpha));
	gg_give(t, IN(0), OP("Mul", dy, gg_put_where(t, below, low, NUM(dy, gamma))));
}

GG_UNARY_ATTR(Selu, "gamma * x, or gamma * alpha * (exp(x) - 1) below 0",
              GG_ATTRS({"alpha", GG_ATTR_FLOAT, false, "1.67326319217681884765625"},
                       {"gamma", GG_ATTR_FLOAT, false, "1.05070102214813232421875"}),
              x < 0 ? b * (a * expm1(x)) : b * x, .grad = grad);
