#include "reduce.h"

/* The mean of integers is cut to an integer; of no integers it is 0. */
GG_REDUCTION(ReduceMean, "mean over axes", GG_REDUCE_TYPES, false, 0, a + x, a / (double)n, 0,
             GG_WRAP_ADD(a, x), n ? a / n : 0);
