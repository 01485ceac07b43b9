#include "opkit.h"
#include "grad.h"
#include <math.h>

/* Min(max, Max(x, min)): max wins where the limits cross, NaN stays. In the expression for
 * generators an absent y is -inf and an absent z is +inf. */
#define CLIP(x, lo, hi) (((x) < (lo) ? (lo) : (x)) > (hi) ? (hi) : (x) < (lo) ? (lo) : (x))
static double f(double x, const double *at) { return CLIP(x, at[0], at[1]); }

static bool present(const gg_eval *e, int i) { return i < e->nin && e->in[i].dtype; }

static bool clip_ints(gg_eval *e)
{
	const gg_tensor *x = &e->in[0];
	int64_t n = gg_count(x), lo = present(e, 1) ? gg_get_i64(&e->in[1], 0) : 0;
	int64_t hi = present(e, 2) ? gg_get_i64(&e->in[2], 0) : 0;
	/* u64 is ordered as i64 with its top bit turned. */
	uint64_t flip = x->dtype == GG_U64 ? (uint64_t)1 << 63 : 0;
	lo = present(e, 1) ? (int64_t)((uint64_t)lo ^ flip) : INT64_MIN;
	hi = present(e, 2) ? (int64_t)((uint64_t)hi ^ flip) : INT64_MAX;
	for (int64_t k = 0; k < n; k++) {
		int64_t v = (int64_t)((uint64_t)gg_get_i64(x, k) ^ flip);
		gg_set_i64(&e->out[0], k, (int64_t)((uint64_t)CLIP(v, lo, hi) ^ flip));
	}
	return true;
}

static bool eval(gg_eval *e)
{
	if (gg_dtype_class(e->in[0].dtype) != 'F')
		return clip_ints(e);
	double at[2] = {-INFINITY, INFINITY};
	for (int i = 0; i < 2; i++) {
		if (!present(e, i + 1))
			continue;
		at[i] = gg_get_f64(&e->in[i + 1], 0);
	}
	if (at[0] != at[0] || at[1] != at[1]) { /* a limit of NaN makes all NaN, as Min and Max do */
		gg_fill_value(&e->out[0], NAN);
		return true;
	}
	return gg_map1(e, f, 0, at);
}

static bool infer(gg_infer *f)
{
	static const char *const name[] = {"", "min", "max"};
	for (int i = 1; i < f->nin; i++) {
		const gg_shape *s = &f->in[i].shape;
		if (!f->in[i].dtype || s->rank < 0)
			continue;
		if (s->rank > 1 || (s->rank == 1 && gg_dim_known(s->dim[0]) && s->dim[0] != 1))
			return gg_fail(f, "input '%s' (%s) has shape %s, expected a scalar", name[i],
			               gg_in(f->n, i)->name, gg_str(f, s));
	}
	return gg_infer_same(f);
}

/* 1 between the limits and on them; what they cut off is theirs. */
GG_GRAD(grad)
{
	gg_value *x = IN(0);
	if (gg_grad_wanted(x))
		gg_give(t, x, gg_grad_masked(t, OP("Equal", OUT, x), dy, true));
	for (int i = 1; i < 3; i++) {
		gg_value *cut = gg_grad_wanted(IN(i)) ? OP(i == 1 ? "Less" : "Greater", x, IN(i)) : 0;
		if (cut)
			gg_give_like(t, n, IN(i), gg_grad_masked(t, cut, dy, true));
	}
}

const gg_op gg_op_Clip = {.name = "Clip",
                          .doc = "x kept between min and max",
                          .min_in = 1,
                          .max_in = 3,
                          .min_out = 1,
                          .max_out = 1,
                          .flags = GG_POINTWISE | GG_INPLACE,
                          .in = {{GG_NUMBERS, 'T'}, {GG_NUMBERS, 'T'}, {GG_NUMBERS, 'T'}},
                          .out = {{GG_NUMBERS, 'T'}},
                          .infer = infer,
                          .eval = eval,
                          .grad = grad,
                          .expr = "(x < y ? y : x) > z ? z : x < y ? y : x"};
