#include "pointwise.h"

GG_UNARY(Neg, "-x", GG_FLOATS | GG_SIGNED, -x, (int64_t)(0 - (uint64_t)x));
