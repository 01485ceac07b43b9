#include "reduce.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), gg_grad_spread(t, n, OP("Div", dy, OP("Exp", OUT, 0)))); }

GG_REDUCTION(ReduceLogSum, "log of the sum over axes", GG_FLOATS, false, 0, a + x, log(a), 0, a + x, a,
             .grad = grad);
