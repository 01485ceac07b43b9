#include "pointwise.h"

/* Both branches keep exp from overflowing. */
GG_UNARY(Softplus, "log(exp(x) + 1)", GG_FLOATS, x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)), 0);
