#include "pointwise.h"
#include "grad.h"

/* t + x (1 - t^2) sigmoid(x), t = tanh(softplus(x)) */
GG_GRAD(grad)
{
	gg_value *x = IN(0), *h = OP("Tanh", OP("Softplus", x, 0), 0);
	gg_value *bend = OP("Mul", OP("Sub", NUM(x, 1), OP("Mul", h, h)), OP("Sigmoid", x, 0));
	gg_give(t, x, OP("Mul", dy, OP("Add", h, OP("Mul", x, bend))));
}

GG_UNARY(Mish, "x * tanh(softplus(x))", GG_FLOATS, x *tanh(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x))), 0,
         .grad = grad);
