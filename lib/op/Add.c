#include "pointwise.h"

GG_BINARY(Add, "x + y, broadcast", GG_NUMBERS, GG_COMMUTES, x + y, (int64_t)((uint64_t)x + (uint64_t)y));
