#include "move.h"
#include "grad.h"
#include <string.h>

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape, *idx = &f->in[1].shape;
	gg_shape *out = &f->out[0].shape;
	int axis, n = 0;
	f->out[0].dtype = f->in[0].dtype;
	if (s->rank < 0)
		return true;
	if (!gg_axis(f, "axis", gg_get_int(f->n, "axis"), s->rank, &axis))
		return false;
	if (idx->rank < 0)
		return true;
	if (s->rank - 1 + idx->rank > GG_MAX_RANK)
		return gg_unsupported(f, "rank %d, at most %d is supported", s->rank - 1 + idx->rank,
		                      GG_MAX_RANK);
	for (int i = 0; i < axis; i++)
		out->dim[n++] = s->dim[i];
	for (int i = 0; i < idx->rank; i++)
		out->dim[n++] = idx->dim[i];
	for (int i = axis + 1; i < s->rank; i++)
		out->dim[n++] = s->dim[i];
	out->rank = n;
	gg_move_content(f, 1);
	return true;
}

static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0];
	int axis = gg_eval_axis(gg_get_int(e->n, "axis"), x->shape.rank);
	int64_t outer = gg_span(&x->shape, 0, axis), n = x->shape.dim[axis], count = gg_count(&e->in[1]);
	int64_t inner = gg_span(&x->shape, axis + 1, x->shape.rank), *at = gg_eval_ints(e, 1);
	size_t row = (size_t)inner * gg_dtype_size(x->dtype);
	char *d = e->out[0].data;
	if (gg_count(&e->out[0]) == 0)
		return true;
	if (!gg_eval_indices(e, at, count, n))
		return false;
	for (int64_t o = 0; o < outer; o++)
		for (int64_t i = 0; i < count; i++, d += row)
			memcpy(d, (const char *)x->data + (size_t)(o * n + at[i]) * row, row);
	return true;
}

GG_GRAD(grad)
{
	int64_t axis;
	if (gg_grad_axis(t, n, IN(0), &axis))
		gg_give(t, IN(0), gg_grad_rows(t, IN(0), IN(1), axis, dy));
}

const gg_op gg_op_Gather = {.name = "Gather",
                            .doc = "the slices of x that indices name, along axis",
                            .min_in = 2,
                            .max_in = 2,
                            .min_out = 1,
                            .max_out = 1,
                            .attrs = (const gg_attr_spec[]){{"axis", GG_ATTR_INT, false, "0"}, {0}},
                            .flags = GG_MOVES,
                            .in = {{GG_ANY, 'T'}, {GG_INDICES}},
                            .out = {{GG_ANY, 'T'}},
                            .infer = infer,
                            .eval = eval,
                            .grad = grad};
