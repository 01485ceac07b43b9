#include "pointwise.h"

GG_UNARY(Log, "natural logarithm of x", GG_FLOATS, log(x), 0);
