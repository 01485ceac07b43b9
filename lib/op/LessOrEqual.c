#include "pointwise.h"

GG_COMPARE(LessOrEqual, "x <= y, broadcast", 0, x <= y);
