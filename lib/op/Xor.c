#include "pointwise.h"

GG_BITS(Xor, "whether x and y differ, broadcast", GG_DT(GG_BOOL), x ^ y);
