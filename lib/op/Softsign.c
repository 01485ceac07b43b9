#include "pointwise.h"

GG_UNARY(Softsign, "x / (1 + |x|)", GG_FLOATS, x / (1 + fabs(x)), 0);
