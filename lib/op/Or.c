#include "pointwise.h"

GG_BITS(Or, "x or y, broadcast", GG_DT(GG_BOOL), x | y);
