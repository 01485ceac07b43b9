#include "pointwise.h"

GG_UNARY_ATTR(ThresholdedRelu, "x where above alpha, else 0", GG_ATTRS({"alpha", GG_ATTR_FLOAT, false, "1"}),
              x > a ? x : 0);
