#include "reduce.h"
#include "grad.h"

/* A NaN stays. The largest of nothing is the least there is. */
GG_REDUCTION(ReduceMax, "largest over axes", GG_REDUCE_TYPES | GG_DT(GG_U8) | GG_DT(GG_I8) | GG_DT(GG_BOOL),
             true, -INFINITY, isnan(a) || a > x ? a : x, a, -1, a > x ? a : x, a,
             .grad = gg_grad_reduced_equal);
