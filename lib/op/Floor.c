#include "pointwise.h"

GG_UNARY(Floor, "x rounded down", GG_FLOATS, floor(x), 0);
