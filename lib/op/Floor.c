#include "pointwise.h"
#include "grad.h"

GG_UNARY(Floor, "x rounded down", GG_FLOATS, floor(x), 0, .grad = gg_grad_zero);
