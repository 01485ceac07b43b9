#include "pointwise.h"

GG_UNARY(Atan, "inverse tangent of x", GG_FLOATS, atan(x), 0);
