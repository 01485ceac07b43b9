#include "pointwise.h"

/* NaN stays NaN. */
GG_UNARY(Relu, "max(x, 0)", GG_FLOATS | GG_SIGNED, x < 0 ? 0 : x, x < 0 ? 0 : x);
