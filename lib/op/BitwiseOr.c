#include "pointwise.h"

GG_BITS(BitwiseOr, "bits of x or y, broadcast", GG_INTS, x | y);
