/* CumSum and CumProd: running sums and products along an axis, in double (i64 for integers). */
#ifndef GG_OP_CUMULATE_H
#define GG_OP_CUMULATE_H

#include "move.h"

static bool infer(gg_infer *f)
{
	int n, axis;
	f->out[0].dtype = f->in[0].dtype;
	f->out[0].shape = f->in[0].shape;
	if (f->in[0].shape.rank < 0 || gg_shape_count(&f->in[1].shape) > 1)
		return true;
	const int64_t *v = gg_want_ints(f, 1, &n);
	return !v || n != 1 || gg_axis(f, "axis", v[0], f->in[0].shape.rank, &axis);
}

static double join(double a, double x, bool product) { return product ? a * x : a + x; }
static int64_t join_int(int64_t a, int64_t x, bool product)
{
	return (int64_t)(product ? (uint64_t)a * (uint64_t)x : (uint64_t)a + (uint64_t)x);
}

/* One line of n elements from `at` on, `step` apart; the step is negative in reverse. */
static void line(const gg_tensor *x, gg_tensor *y, int64_t at, int64_t step, int64_t n, bool product,
                 bool before)
{
	bool floats = gg_dtype_class(x->dtype) == 'F';
	double a = product;
	int64_t b = product;
	for (int64_t k = 0; k < n; k++, at += step) {
		double next = floats ? join(a, gg_get_f64(x, at), product) : 0;
		int64_t inext = floats ? 0 : join_int(b, gg_get_i64(x, at), product);
		if (floats)
			gg_set_f64(y, at, before ? a : next);
		else
			gg_set_i64(y, at, before ? b : inext);
		a = next;
		b = inext;
	}
}

static bool cumulate(gg_eval *e, bool product)
{
	const gg_tensor *x = &e->in[0];
	int64_t axis = gg_eval_int(e, 1, 0);
	bool before = gg_get_int(e->n, "exclusive"), reverse = gg_get_int(e->n, "reverse");
	if (axis < -x->shape.rank || axis >= x->shape.rank)
		return gg_fail(e, "axis %lld is out of range for rank %d", (long long)axis, x->shape.rank);
	int at = gg_eval_axis(axis, x->shape.rank);
	int64_t n = x->shape.dim[at], inner = gg_span(&x->shape, at + 1, x->shape.rank);
	int64_t outer = gg_span(&x->shape, 0, at);
	for (int64_t o = 0; o < outer; o++)
		for (int64_t i = 0; i < inner && n > 0; i++) {
			int64_t first = o * n * inner + i;
			line(x, &e->out[0], reverse ? first + (n - 1) * inner : first,
			     reverse ? -inner : inner, n, product, before);
		}
	return true;
}

#define GG_CUMULATE(NAME, DOC, PRODUCT, ...) \
	static bool eval_##NAME(gg_eval *e) { return cumulate(e, PRODUCT); } \
	const gg_op gg_op_##NAME = {.name = #NAME, \
	                            .doc = DOC, \
	                            .min_in = 2, \
	                            .max_in = 2, \
	                            .min_out = 1, \
	                            .max_out = 1, \
	                            .attrs = (const gg_attr_spec[]){{"exclusive", GG_ATTR_INT, false, "0"}, \
	                                                            {"reverse", GG_ATTR_INT, false, "0"}, \
	                                                            {0}}, \
	                            .in = {{GG_FLOATS | GG_INTS, 'T'}, {GG_INDICES}}, \
	                            .out = {{GG_FLOATS | GG_INTS, 'T'}}, \
	                            .infer = infer, \
	                            .eval = eval_##NAME, \
	                            __VA_ARGS__}

#endif
