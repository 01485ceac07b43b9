#include "pointwise.h"

GG_UNARY_ATTR(Gelu, "x times the normal distribution function of x",
              GG_ATTRS({"approximate", GG_ATTR_STRING, false, "\"none\""}),
              a != 0 ? 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)))
                     : 0.5 * x * erfc(-0.70710678118654752440 * x));
