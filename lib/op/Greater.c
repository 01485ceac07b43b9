#include "pointwise.h"

GG_COMPARE(Greater, "x > y, broadcast", 0, x > y);
