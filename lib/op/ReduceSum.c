#include "reduce.h"

GG_REDUCTION(ReduceSum, "sum over axes", GG_REDUCE_TYPES, false, 0, a + x, a, 0, GG_WRAP_ADD(a, x), a);
