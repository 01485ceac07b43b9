#include "pointwise.h"

GG_UNARY_ATTR(HardSigmoid, "max(0, min(1, alpha * x + beta))",
              GG_ATTRS({"alpha", GG_ATTR_FLOAT, false, "0.2"}, {"beta", GG_ATTR_FLOAT, false, "0.5"}),
              a *x + b < 0    ? 0
              : a * x + b > 1 ? 1
                              : a * x + b);
