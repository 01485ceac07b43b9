#include "pointwise.h"

GG_UNARY(Tan, "tangent of x", GG_FLOATS, tan(x), 0);
