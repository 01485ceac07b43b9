#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), OP("Mul", dy, OP("Sigmoid", IN(0), 0))); }

/* Both branches keep exp from overflowing. */
GG_UNARY(Softplus, "log(exp(x) + 1)", GG_FLOATS, x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)), 0, .grad = grad);
