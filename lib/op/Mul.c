#include "pointwise.h"
#include "grad.h"

static bool dims(gg_dim x, gg_dim y, gg_dim *out)
{
	*out = gg_dim_mul(x, y);
	return true;
}

GG_GRAD(grad)
{
	for (int i = 0; i < 2; i++)
		if (gg_grad_wanted(IN(i)))
			gg_give_like(t, n, IN(i), OP("Mul", dy, IN(1 - i)));
}

GG_ARITH(Mul, "x * y, broadcast", GG_NUMBERS, GG_COMMUTES, x *y, (int64_t)((uint64_t)x *(uint64_t)y), x *y,
         dims, .grad = grad);
