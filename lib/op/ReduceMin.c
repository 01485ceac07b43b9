#include "reduce.h"
#include "grad.h"

/* A NaN stays. The least of nothing is the largest there is. */
GG_REDUCTION(ReduceMin, "smallest over axes", GG_REDUCE_TYPES | GG_DT(GG_U8) | GG_DT(GG_I8) | GG_DT(GG_BOOL),
             true, INFINITY, isnan(a) || a < x ? a : x, a, 1, a < x ? a : x, a,
             .grad = gg_grad_reduced_equal);
