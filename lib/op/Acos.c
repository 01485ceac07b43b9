#include "pointwise.h"

GG_UNARY(Acos, "inverse cosine of x", GG_FLOATS, acos(x), 0);
