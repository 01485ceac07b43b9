#include "pointwise.h"

GG_UNARY(Cos, "cosine of x", GG_FLOATS, cos(x), 0);
