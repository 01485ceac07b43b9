#include "pointwise.h"

GG_UNARY(Asin, "inverse sine of x", GG_FLOATS, asin(x), 0);
