#include "move.h"
#include "grad.h"
#include <math.h>

/* max(ceil((limit - start) / delta), 0); -1: too many, or not a number. */
static int64_t count_ints(int64_t start, int64_t limit, int64_t delta)
{
	int64_t span;
	if (__builtin_sub_overflow(limit, start, &span) || delta == INT64_MIN)
		return -1;
	if (span == 0 || (span < 0) != (delta < 0))
		return 0;
	uint64_t a = span < 0 ? -(uint64_t)span : (uint64_t)span,
	         b = delta < 0 ? -(uint64_t)delta : (uint64_t)delta;
	return (int64_t)((a - 1) / b + 1);
}

static bool count(gg_infer *f, const gg_tensor *start, const gg_tensor *limit, const gg_tensor *delta,
                  int64_t *out)
{
	if (gg_get_f64(delta, 0) == 0)
		return gg_fail(f, "delta is 0");
	if (gg_dtype_class(delta->dtype) != 'F') {
		*out = count_ints(gg_get_i64(start, 0), gg_get_i64(limit, 0), gg_get_i64(delta, 0));
	} else {
		double n = ceil((gg_get_f64(limit, 0) - gg_get_f64(start, 0)) / gg_get_f64(delta, 0));
		*out = n <= 0 ? 0 : n < 0x1p53 ? (int64_t)n : -1;
	}
	return *out >= 0 || gg_fail(f, "from %g to %g by %g is not a finite range", gg_get_f64(start, 0),
	                            gg_get_f64(limit, 0), gg_get_f64(delta, 0));
}

/* Bounds that are symbols: the number of steps as an expression. */
static void infer_symbols(gg_infer *f)
{
	int n[3] = {0};
	const gg_dim *v[3];
	for (int i = 0; i < 3; i++)
		if (!(v[i] = gg_want_dims(f, i, &n[i])) || n[i] != 1)
			return;
	gg_dim start = v[0][0], limit = v[1][0], delta = v[2][0];
	if (!gg_dim_known(delta) || delta == 0)
		return;
	gg_dim span = gg_dim_sub(limit, start);
	if (start != 0 || gg_dim_number(limit) || !gg_dim_is_symbol(limit))
		span = gg_dim_max(0, span);
	f->out[0].shape.dim[0] = gg_dim_ceildiv(span, delta);
}

static bool infer(gg_infer *f)
{
	const gg_tensor *v[3];
	int64_t n = 0;
	bool known = true;
	f->out[0].dtype = f->in[0].dtype;
	gg_unknown_dims(f, 0, 1);
	for (int i = 0; i < 3; i++) {
		if (gg_shape_known(&f->in[i].shape) && gg_shape_count(&f->in[i].shape) != 1)
			return gg_fail(f, "input %d has shape %s, expected a scalar", i,
			               gg_str(f, &f->in[i].shape));
		known &= (v[i] = gg_want(f, i)) != NULL;
	}
	if (!known) {
		infer_symbols(f);
		return true;
	}
	if (!count(f, v[0], v[1], v[2], &n))
		return false;
	f->out[0].shape.dim[0] = n;
	if (n <= GG_MAX_CONTENT && GG_DT(f->in[0].dtype) & GG_INDICES) {
		gg_dim *c = gg_alloc_n(f->a, (size_t)n + 1, sizeof *c);
		for (int64_t i = 0; i < n; i++)
			c[i] = gg_get_i64(v[0], 0) + i * gg_get_i64(v[2], 0);
		f->out[0].content = c;
	}
	return true;
}

static bool eval(gg_eval *e)
{
	gg_tensor *y = &e->out[0];
	bool floats = gg_dtype_class(y->dtype) == 'F';
	double start = gg_get_f64(&e->in[0], 0), delta = gg_get_f64(&e->in[2], 0);
	uint64_t istart = (uint64_t)gg_get_i64(&e->in[0], 0), idelta = (uint64_t)gg_get_i64(&e->in[2], 0);
	int64_t n = gg_count(y);
	for (int64_t i = 0; i < n; i++) {
		if (floats)
			gg_set_f64(y, i, start + (double)i * delta);
		else
			gg_set_i64(y, i, (int64_t)(istart + (uint64_t)i * idelta));
	}
	return true;
}

/* start + i delta; the limit moves nothing. */
GG_GRAD(grad)
{
	if (gg_grad_wanted(IN(0)))
		gg_give(t, IN(0), gg_put_reshape(t, gg_put_all(t, "ReduceSum", dy), IN(0)));
	if (gg_grad_wanted(IN(2))) {
		gg_value *i = OP("Div", OP("Sub", OUT, IN(0)), IN(2));
		gg_give(t, IN(2), gg_put_reshape(t, gg_put_all(t, "ReduceSum", OP("Mul", dy, i)), IN(2)));
	}
}

const gg_op gg_op_Range = {.name = "Range",
                           .doc = "start, start + delta, ... below limit",
                           .min_in = 3,
                           .max_in = 3,
                           .min_out = 1,
                           .max_out = 1,
                           .attrs = (const gg_attr_spec[]){{"stash_type", GG_ATTR_INT, false, "1"}, {0}},
                           .in = {{GG_NUMBERS, 'T'}, {GG_NUMBERS, 'T'}, {GG_NUMBERS, 'T'}},
                           .out = {{GG_NUMBERS, 'T'}},
                           .infer = infer,
                           .eval = eval,
                           .grad = grad};
