#include "pointwise.h"
#include "grad.h"

static bool dims(gg_dim x, gg_dim y, gg_dim *out)
{
	*out = gg_dim_add(x, y);
	return true;
}

GG_ARITH(Add, "x + y, broadcast", GG_NUMBERS, GG_COMMUTES, x + y, (int64_t)((uint64_t)x + (uint64_t)y), x + y,
         dims, .grad = gg_grad_sum);
