#include "pointwise.h"
#include "grad.h"

GG_UNARY(Ceil, "x rounded up", GG_FLOATS, ceil(x), 0, .grad = gg_grad_zero);
