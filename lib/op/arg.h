/* ArgMax and ArgMin: where along an axis the best element is. The first NaN wins; with
 * select_last_index, the last. */
#ifndef GG_OP_ARG_H
#define GG_OP_ARG_H

#include "move.h"
#include "order.h"

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape;
	gg_shape *out = &f->out[0].shape;
	bool keep = gg_get_int(f->n, "keepdims");
	int axis;
	f->out[0].dtype = GG_I64;
	if (s->rank < 0)
		return true;
	if (!gg_axis(f, "axis", gg_get_int(f->n, "axis"), s->rank, &axis))
		return false;
	out->rank = 0;
	for (int i = 0; i < s->rank; i++)
		if (i != axis || keep)
			out->dim[out->rank++] = i == axis ? 1 : s->dim[i];
	return true;
}

/* > 0: element b is better than a. NaN is best either way. */
static int compare(const gg_tensor *x, int64_t a, int64_t b, int sign)
{
	bool nan = gg_dtype_class(x->dtype) == 'F' && (isnan(gg_get_f64(x, a)) || isnan(gg_get_f64(x, b)));
	return gg_order(x, b, x, a) * (nan ? 1 : sign);
}

static bool arg(gg_eval *e, int sign)
{
	const gg_tensor *x = &e->in[0];
	int axis = gg_eval_axis(gg_get_int(e->n, "axis"), x->shape.rank);
	int64_t n = x->shape.dim[axis], at = 0;
	int64_t outer = gg_span(&x->shape, 0, axis), inner = gg_span(&x->shape, axis + 1, x->shape.rank);
	bool last = gg_get_int(e->n, "select_last_index");
	if (n == 0 && outer * inner > 0)
		return gg_fail(e, "axis %d of the input is empty", axis);
	for (int64_t o = 0; o < outer; o++)
		for (int64_t i = 0; i < inner; i++) {
			int64_t base = o * n * inner + i, best = 0;
			for (int64_t k = 1; k < n; k++) {
				int c = compare(x, base + best * inner, base + k * inner, sign);
				best = c > 0 || (c == 0 && last) ? k : best;
			}
			gg_set_i64(&e->out[0], at++, best);
		}
	return true;
}

#define GG_ARG(NAME, DOC, SIGN) \
	static bool eval_##NAME(gg_eval *e) { return arg(e, SIGN); } \
	const gg_op gg_op_##NAME = { \
	    .name = #NAME, \
	    .doc = DOC, \
	    .min_in = 1, \
	    .max_in = 1, \
	    .min_out = 1, \
	    .max_out = 1, \
	    .attrs = (const gg_attr_spec[]){{"axis", GG_ATTR_INT, false, "0"}, \
	                                    {"keepdims", GG_ATTR_INT, false, "1"}, \
	                                    {"select_last_index", GG_ATTR_INT, false, "0"}, \
	                                    {0}}, \
	    .in = {{GG_NUMBERS}}, \
	    .out = {{GG_DT(GG_I64)}}, \
	    .infer = infer, \
	    .eval = eval_##NAME}

#endif
