#include "move.h"
#include "grad.h"
#include <string.h>

static bool infer(gg_infer *f)
{
	const gg_attr *a = gg_find_attr(f->n, "axis");
	const gg_shape *s = &f->in[0].shape;
	int axis;
	f->out[0].dtype = f->in[0].dtype;
	if (!a) {
		gg_unknown_dims(f, 0, 1);
		return true;
	}
	if (s->rank < 0)
		return true;
	if (!gg_axis(f, "axis", a->i, s->rank, &axis))
		return false;
	f->out[0].shape = *s;
	f->out[0].shape.dim[axis] = gg_unknown_dim(f, 0, axis);
	return true;
}

static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0], *c = &e->in[1];
	const gg_attr *a = gg_find_attr(e->n, "axis");
	gg_shape s = a ? x->shape : gg_shape_of(1, &(gg_dim){gg_count(x)});
	int axis = a ? gg_eval_axis(a->i, s.rank) : 0;
	int64_t d = s.dim[axis], count = gg_count(c), n = 0;
	int64_t outer = gg_span(&s, 0, axis), inner = gg_span(&s, axis + 1, s.rank);
	const uint8_t *keep = c->data;
	size_t row = (size_t)inner * gg_dtype_size(x->dtype);
	count = count < d ? count : d;
	for (int64_t i = 0; i < count; i++)
		n += keep[i] != 0;
	s.dim[axis] = n;
	char *y = gg_eval_alloc(e, 0, s.rank, s.dim);
	if (gg_count(&e->out[0]) == 0)
		return true;
	if (!y)
		return false;
	for (int64_t o = 0; o < outer; o++)
		for (int64_t i = 0; i < count; i++) {
			if (!keep[i])
				continue;
			memcpy(y, (const char *)x->data + (size_t)(o * d + i) * row, row);
			y += row;
		}
	return true;
}

/* Back to where the condition is true. */
GG_GRAD(grad)
{
	static const int64_t whole[] = {-1}, first[] = {0};
	bool flat = !gg_find_attr(n, "axis");
	int64_t axis = 0;
	gg_value *x = flat ? OP("Reshape", IN(0), gg_put_ints(t, 1, whole)) : IN(0);
	gg_value *where = OP("Squeeze", OP("NonZero", IN(1), 0), gg_put_ints(t, 1, first));
	if (!x || !where || (!flat && !gg_grad_axis(t, n, x, &axis)))
		return;
	gg_value *g = gg_grad_rows(t, x, where, axis, dy);
	gg_give(t, IN(0), g ? gg_put_reshape(t, g, IN(0)) : 0);
}

const gg_op gg_op_Compress = {.name = "Compress",
                              .doc = "the slices along axis, or the elements, where condition is true",
                              .min_in = 2,
                              .max_in = 2,
                              .min_out = 1,
                              .max_out = 1,
                              .attrs = (const gg_attr_spec[]){{"axis", GG_ATTR_INT}, {0}},
                              .flags = GG_DATA_SHAPE | GG_MOVES,
                              .in = {{GG_ANY, 'T'}, {GG_DT(GG_BOOL)}},
                              .out = {{GG_ANY, 'T'}},
                              .infer = infer,
                              .eval = eval,
                              .grad = grad};
