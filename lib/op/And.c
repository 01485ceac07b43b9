#include "pointwise.h"

GG_BITS(And, "x and y, broadcast", GG_DT(GG_BOOL), x &y);
