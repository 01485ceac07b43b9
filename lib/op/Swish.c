#include "pointwise.h"
#include "grad.h"

GG_UNARY_ATTR(Swish, "x * sigmoid(alpha * x)", GG_ATTRS({"alpha", GG_ATTR_FLOAT, false, "1"}),
              x / (1 + exp(-a * x)), .grad = gg_grad_swish);
