#include "pointwise.h"

GG_UNARY(Atanh, "inverse hyperbolic tangent of x", GG_FLOATS, atanh(x), 0);
