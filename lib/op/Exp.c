#include "pointwise.h"

GG_UNARY(Exp, "e to the power of x", GG_FLOATS, exp(x), 0);
