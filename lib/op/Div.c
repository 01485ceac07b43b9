#include "pointwise.h"
#include "grad.h"

/* Integers truncate toward zero, which is what gg_dim_div does where nothing is negative. */
static bool dims(gg_dim x, gg_dim y, gg_dim *out)
{
	if (y == 0 || !gg_dim_natural(y))
		return false;
	if (gg_dim_number(x) && gg_dim_number(y))
		*out = x / y;
	else
		*out = gg_dim_div(x, y);
	return gg_dim_natural(x) || gg_dim_number(*out);
}

static inline int64_t divide(int64_t x, int64_t y)
{
	return y == 0 ? 0 : y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}

GG_GRAD(grad)
{
	gg_value *g = OP("Div", dy, IN(1));
	gg_give_like(t, n, IN(0), g);
	if (gg_grad_wanted(IN(1)))
		gg_give_like(t, n, IN(1), OP("Neg", OP("Mul", g, OUT), 0));
}

/* An integer divided by 0 gives 0. */
GG_ARITH(Div, "x / y, broadcast; integers toward zero", GG_NUMBERS, 0, x / y, divide(x, y), y ? x / y : 0,
         dims, .grad = grad);
