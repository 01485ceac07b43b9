#include "reduce.h"

GG_REDUCTION(ReduceSumSquare, "sum of squares over axes", GG_REDUCE_TYPES, false, 0, a + x * x, a, 0,
             GG_WRAP_ADD(a, GG_WRAP_MUL(x, x)), a);
