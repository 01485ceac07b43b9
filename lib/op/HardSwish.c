#include "pointwise.h"

GG_UNARY(HardSwish, "x * max(0, min(1, x / 6 + 1 / 2))", GG_FLOATS, x *(x<-3 ? 0 : x> 3 ? 1 : x / 6 + 0.5),
         0);
