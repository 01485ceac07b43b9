#include "reduce.h"

GG_REDUCTION(ReduceLogSum, "log of the sum over axes", GG_FLOATS, false, 0, a + x, log(a), 0,
             GG_WRAP_ADD(a, x), a);
