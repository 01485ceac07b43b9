#include "pointwise.h"

GG_COMPARE(GreaterOrEqual, "x >= y, broadcast", 0, x >= y);
