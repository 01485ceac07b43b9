#include "pointwise.h"

static double f(double x, double y, const double *attr) { return x == y; }
static int64_t i(int64_t x, int64_t y, const double *attr) { return x == y; }

/* Strings are interned: equal strings are equal pointers. */
static bool eval(gg_eval *e)
{
	if (e->in[0].dtype == GG_STRING) {
		gg_tensor pair[2] = {e->in[0], e->in[1]};
		gg_eval sub = *e;
		pair[0].dtype = pair[1].dtype = GG_I64;
		sub.in = pair;
		return gg_map2_test(&sub, 0, i);
	}
	return gg_map2_test(e, f, i);
}

/* A size is never a negative number: Where(Equal(shape, -1), ...) of exporters stays known. */
static bool dims(gg_dim x, gg_dim y, gg_dim *out)
{
	*out = x == y;
	if (x == y || (gg_dim_number(x) && gg_dim_number(y)))
		return true;
	return (gg_dim_natural(x) && gg_dim_number(y) && y < 0) ||
	       (gg_dim_natural(y) && gg_dim_number(x) && x < 0);
}

static bool infer(gg_infer *f) { return gg_infer_arith(f, dims); }

#define TYPES (GG_NUMBERS | GG_DT(GG_BOOL) | GG_DT(GG_STRING))
const gg_op gg_op_Equal = {GG_POINTWISE_OP(Equal, "whether x equals y, broadcast", 2, GG_COMMUTES),
                           .in = {{TYPES, 'T'}, {TYPES, 'T'}},
                           .out = {{GG_DT(GG_BOOL)}},
                           .infer = infer,
                           .eval = eval,
                           .expr = "x == y"};
