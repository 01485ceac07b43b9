#include "pointwise.h"

GG_UNARY(Sqrt, "square root of x", GG_FLOATS, sqrt(x), 0);
