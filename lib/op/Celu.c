#include "pointwise.h"

GG_UNARY_ATTR(Celu, "x, or alpha * (exp(x / alpha) - 1) below 0",
              GG_ATTRS({"alpha", GG_ATTR_FLOAT, false, "1"}), x < 0 ? a * expm1(x / a) : x);
