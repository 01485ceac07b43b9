#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad)
{
	gg_value *x = IN(0), *one = NUM(x, 1), *ax = OP("Mul", x, NUM(x, gg_get_float(n, "alpha")));
	gg_value *s = OP("Sigmoid", ax, 0);
	gg_value *slope = OP("Mul", s, OP("Add", one, OP("Mul", ax, OP("Sub", one, s))));
	gg_give(t, x, OP("Mul", dy, slope));
}

GG_UNARY_ATTR(Swish, "x * sigmoid(alpha * x)", GG_ATTRS({"alpha", GG_ATTR_FLOAT, false, "1"}),
              x / (1 + exp(-a * x)), .grad = grad);
