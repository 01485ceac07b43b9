#include "reduce.h"
#include "grad.h"

GG_GRAD(grad)
{
	gg_value *g = gg_grad_spread(t, n, OP("Mul", dy, NUM(dy, 2)));
	gg_give(t, IN(0), OP("Mul", g, IN(0)));
}

GG_REDUCTION(ReduceSumSquare, "sum of squares over axes", GG_REDUCE_TYPES, false, 0, a + x * x, a, 0,
             a + GG_WRAP_MUL(x, x), a, .grad = grad);
