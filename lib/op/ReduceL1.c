#include "reduce.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), OP("Mul", gg_grad_spread(t, n, dy), OP("Sign", IN(0), 0))); }

GG_REDUCTION(ReduceL1, "sum of absolute values over axes", GG_REDUCE_TYPES, false, 0, a + fabs(x), a, 0,
             a + (x < 0 ? -x : x), a, .grad = grad);
