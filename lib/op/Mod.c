#include "pointwise.h"
#include "grad.h"

/* Anything modulo the integer 0 gives 0. The sign is y's, or with fmod x's. */
static double mod_f(double x, double y, const double *attr)
{
	double r = fmod(x, y);
	if (attr[0] != 0 || r != r)
		return r;
	if (r == 0)
		return copysign(0, y);
	return (r < 0) != (y < 0) ? r + y : r;
}

static int64_t mod_i(int64_t x, int64_t y, const double *attr)
{
	int64_t r = y == 0 || y == -1 ? 0 : x % y;
	return attr[0] == 0 && r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static int64_t mod_u(int64_t x, int64_t y, const double *attr)
{
	return y == 0 ? 0 : (int64_t)((uint64_t)x % (uint64_t)y);
}

static bool eval(gg_eval *e)
{
	double attr[GG_EXPR_ATTRS];
	gg_expr_attrs(e->n, attr);
	return gg_map2(e, mod_f, e->in[0].dtype == GG_U64 ? mod_u : mod_i, attr);
}

static bool dims(gg_dim x, gg_dim y, gg_dim *out)
{
	if (y == 0 || !gg_dim_natural(x) || !gg_dim_natural(y))
		return false;
	*out = gg_dim_sub(x, gg_dim_mul(gg_dim_div(x, y), y));
	return true;
}

static bool infer(gg_infer *f) { return gg_infer_arith(f, dims); }

/* x - y trunc(x / y), or with floor: y moves the result by what is cut off */
GG_GRAD(grad)
{
	gg_give_like(t, n, IN(0), dy);
	if (gg_grad_wanted(IN(1))) {
		gg_value *whole = OP("Round", OP("Div", OP("Sub", IN(0), OUT), IN(1)), 0);
		gg_give_like(t, n, IN(1), OP("Neg", OP("Mul", dy, whole), 0));
	}
}

const gg_op gg_op_Mod = {GG_POINTWISE_OP(Mod, "rest of x / y, broadcast", 2, 0),
                         .attrs = GG_ATTRS({"fmod", GG_ATTR_INT, false, "0"}),
                         .in = {{GG_NUMBERS, 'T'}, {GG_NUMBERS, 'T'}},
                         .out = {{GG_NUMBERS, 'T'}},
                         .infer = infer,
                         .eval = eval,
                         .grad = grad};
