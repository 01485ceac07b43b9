#include "reduce.h"
#include "grad.h"

GG_GRAD(grad)
{
	gg_value *each = OP("Div", gg_put_count(t, OUT), gg_put_count(t, IN(0)));
	gg_give(t, IN(0), gg_grad_spread(t, n, OP("Mul", dy, each)));
}

/* The mean of integers is cut to an integer; of no integers it is 0. */
GG_REDUCTION(ReduceMean, "mean over axes", GG_REDUCE_TYPES, false, 0, a + x, a / (double)n, 0, a + x,
             n ? a / n : 0, .grad = grad);
