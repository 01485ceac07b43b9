#include "pointwise.h"

GG_UNARY_ATTR(LeakyRelu, "x, or alpha * x below 0", GG_ATTRS({"alpha", GG_ATTR_FLOAT, false, "0.01"}),
              x < 0 ? a * x : x);
