#include "reduce.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), gg_grad_spread(t, n, dy)); }

GG_REDUCTION(ReduceSum, "sum over axes", GG_REDUCE_TYPES, false, 0, a + x, a, 0, a + x, a, .grad = grad);
