#include "pointwise.h"

GG_COMPARE(Less, "x < y, broadcast", 0, x < y);
