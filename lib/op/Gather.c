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

/* Rows are added where they came from, with the axis in front. */
GG_GRAD(grad)
{
	static const int64_t last[] = {-1};
	int64_t axis, front[GG_MAX_RANK], back[GG_MAX_RANK], move[GG_MAX_RANK];
	gg_value *x = IN(0), *index = gg_put_cast(t, IN(1), GG_I64);
	int r = x->shape.rank, q = IN(1)->shape.rank;
	if (!gg_grad_axis(t, n, x, &axis))
		return;
	if (q < 0 || r + q - 1 > GG_MAX_RANK) {
		gg_grad_lacks(t, n, "the rank of its indices is not known");
		return;
	}
	for (int i = 0, at = 1; i < r; i++) {
		front[i == axis ? 0 : at++] = i;
		back[i] = i < axis ? i + 1 : i == axis ? 0 : i;
	}
	for (int i = 0; i < r + q - 1; i++)
		move[i] = i < q ? axis + i : i < q + axis ? i - q : i;
	gg_value *like = gg_put_permute(t, x, r, front);
	gg_value *zero = like ? gg_put_expand(t, NUM(x, 0), like) : 0;
	gg_value *in[] = {zero, OP("Unsqueeze", index, gg_put_ints(t, 1, last)),
	                  gg_put_permute(t, dy, r + q - 1, move)};
	gg_value *y = gg_put(t, "ScatterND", 3, in, 0);
	if (y)
		gg_set_attr_string(y->producer, "reduction", "add");
	gg_give(t, x, gg_put_permute(t, gg_put_done(t, y), r, back));
}

const gg_op gg_op_Gather = {.name = "Gather",
                            .doc = "the slices of x that indices name, along axis",
                            .min_in = 2,
                            .max_in = 2,
                            .min_out = 1,
                            .max_out = 1,
                            .attrs = (const gg_attr_spec[]){{"axis", GG_ATTR_INT, false, "0"}, {0}},
                            .in = {{GG_ANY, 'T'}, {GG_INDICES}},
                            .out = {{GG_ANY, 'T'}},
                            .infer = infer,
                            .eval = eval,
                            .grad = grad};
