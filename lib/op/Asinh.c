#include "pointwise.h"

GG_UNARY(Asinh, "inverse hyperbolic sine of x", GG_FLOATS, asinh(x), 0);
