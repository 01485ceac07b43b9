#include "pointwise.h"

static bool dims(gg_dim x, gg_dim y, gg_dim *out)
{
	*out = gg_dim_mul(x, y);
	return true;
}

GG_ARITH(Mul, "x * y, broadcast", GG_NUMBERS, GG_COMMUTES, x *y, (int64_t)((uint64_t)x *(uint64_t)y), x *y,
         dims);
