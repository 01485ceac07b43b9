#include "pointwise.h"

GG_UNARY(Mish, "x * tanh(softplus(x))", GG_FLOATS, x *tanh(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x))), 0);
