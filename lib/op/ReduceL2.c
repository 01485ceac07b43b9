#include "reduce.h"
#include "grad.h"

/* x / norm, 0 where the norm is */
GG_GRAD(grad)
{
	gg_value *none = OP("Equal", OUT, NUM(dy, 0)),
	         *g = gg_grad_masked(t, none, OP("Div", dy, OUT), false);
	gg_give(t, IN(0), OP("Mul", gg_grad_spread(t, n, g), IN(0)));
}

GG_REDUCTION(ReduceL2, "root of the sum of squares over axes", GG_REDUCE_TYPES, false, 0, a + x * x, sqrt(a),
             0, a + GG_WRAP_MUL(x, x), (int64_t)sqrt((double)(uint64_t)a), .grad = grad);
