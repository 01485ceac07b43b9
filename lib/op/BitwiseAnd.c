#include "pointwise.h"

GG_BITS(BitwiseAnd, "bits of x and y, broadcast", GG_INTS, x &y);
