#include "pointwise.h"

GG_UNARY_ATTR(Selu, "gamma * x, or gamma * alpha * (exp(x) - 1) below 0",
              GG_ATTRS({"alpha", GG_ATTR_FLOAT, false, "1.67326319217681884765625"},
                       {"gamma", GG_ATTR_FLOAT, false, "1.05070102214813232421875"}),
              x < 0 ? b * (a * expm1(x)) : b * x);
