#include "pointwise.h"

GG_UNARY(Reciprocal, "1 / x", GG_FLOATS, 1 / x, 0);
