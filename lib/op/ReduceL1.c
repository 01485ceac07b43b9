#include "reduce.h"

GG_REDUCTION(ReduceL1, "sum of absolute values over axes", GG_REDUCE_TYPES, false, 0, a + fabs(x), a, 0,
             GG_WRAP_ADD(a, x < 0 ? (int64_t)(0 - (uint64_t)x) : x), a);
