#include "pointwise.h"

GG_UNARY(Sinh, "hyperbolic sine of x", GG_FLOATS, sinh(x), 0);
