#include "pointwise.h"

GG_BITS(BitwiseXor, "bits of x xor y, broadcast", GG_INTS, x ^ y);
