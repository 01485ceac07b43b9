#include "pointwise.h"

GG_UNARY(Cosh, "hyperbolic cosine of x", GG_FLOATS, cosh(x), 0);
