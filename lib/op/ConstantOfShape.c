#include "move.h"

/* The element: a float zero unless `value` says otherwise. */
static const gg_tensor *element(const gg_node *n)
{
	static float zero;
	static const gg_tensor none = {.dtype = GG_F32, .shape = {.rank = 0}, .data = &zero};
	const gg_attr *a = gg_find_attr(n, "value");
	return a ? a->tensor : &none;
}

static bool infer(gg_infer *f)
{
	const gg_tensor *value = element(f->n);
	const gg_shape *s = &f->in[0].shape;
	int n;
	f->out[0].dtype = value->dtype;
	if (gg_count(value) != 1)
		return gg_fail(f, "value has %lld elements, expected 1", (long long)gg_count(value));
	if (s->rank >= 0 && s->rank != 1)
		return gg_fail(f, "the shape has rank %d, expected 1", s->rank);
	const gg_dim *dim = gg_want_dims(f, 0, &n);
	if (!dim && (s->rank < 0 || !gg_dim_known(s->dim[0])))
		return true;
	if (!dim)
		n = (int)(s->dim[0] > GG_MAX_RANK ? GG_MAX_RANK + 1 : s->dim[0]);
	if (n > GG_MAX_RANK)
		return gg_unsupported(f, "the shape has %d dims, at most %d are supported", n, GG_MAX_RANK);
	if (!dim) {
		gg_unknown_dims(f, 0, n);
		return true;
	}
	for (int i = 0; i < n; i++)
		if (dim[i] < 0 && gg_dim_number(dim[i]))
			return gg_fail(f, "the shape has the dim %lld", (long long)dim[i]);
	f->out[0].shape = gg_shape_of(n, dim);
	gg_move_content(f, 0);
	return true;
}

static bool eval(gg_eval *e)
{
	const gg_tensor *value = element(e->n);
	int64_t wide = 0;
	const void *src = value->data;
	if (gg_dtype_size(value->dtype) != gg_dtype_size(e->out[0].dtype)) { /* contents are i64 */
		wide = gg_get_i64(value, 0);
		src = &wide;
	}
	gg_move_fill(gg_dtype_size(e->out[0].dtype), e->out[0].data, src, gg_count(&e->out[0]));
	return true;
}

const gg_op gg_op_ConstantOfShape = {.name = "ConstantOfShape",
                                     .doc = "one value in the shape given",
                                     .min_in = 1,
                                     .max_in = 1,
                                     .min_out = 1,
                                     .max_out = 1,
                                     .attrs = (const gg_attr_spec[]){{"value", GG_ATTR_TENSOR}, {0}},
                                     .flags = GG_MOVES,
                                     .in = {{GG_DT(GG_I64)}},
                                     .out = {{GG_ANY}},
                                     .infer = infer,
                                     .eval = eval};
