#include "pointwise.h"

GG_UNARY(Erf, "error function of x", GG_FLOATS, erf(x), 0);
