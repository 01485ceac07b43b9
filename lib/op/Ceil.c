#include "pointwise.h"

GG_UNARY(Ceil, "x rounded up", GG_FLOATS, ceil(x), 0);
