#include "pointwise.h"

GG_UNARY(Sin, "sine of x", GG_FLOATS, sin(x), 0);
