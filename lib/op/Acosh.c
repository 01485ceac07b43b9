#include "pointwise.h"

GG_UNARY(Acosh, "inverse hyperbolic cosine of x", GG_FLOATS, acosh(x), 0);
