#include "pointwise.h"
#include "grad.h"

static bool dims(gg_dim x, gg_dim y, gg_dim *out)
{
	*out = gg_dim_sub(x, y);
	return true;
}

GG_GRAD(grad)
{
	gg_give_like(t, n, IN(0), dy);
	if (gg_grad_wanted(IN(1)))
		gg_give_like(t, n, IN(1), OP("Neg", dy, 0));
}

GG_ARITH(Sub, "x - y, broadcast", GG_NUMBERS, 0, x - y, (int64_t)((uint64_t)x - (uint64_t)y), x - y, dims,
         .grad = grad);
