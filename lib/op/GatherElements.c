#include "move.h"
#include "grad.h"
#include <string.h>

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape, *idx = &f->in[1].shape;
	int axis;
	f->out[0].dtype = f->in[0].dtype;
	f->out[0].shape = *idx;
	if (s->rank < 0 || idx->rank < 0)
		return true;
	if (s->rank != idx->rank)
		return gg_fail(f, "indices have rank %d, data %d", idx->rank, s->rank);
	if (!gg_axis(f, "axis", gg_get_int(f->n, "axis"), s->rank, &axis))
		return false;
	for (int i = 0; i < s->rank; i++)
		if (i != axis && gg_dim_known(s->dim[i]) && gg_dim_known(idx->dim[i]) &&
		    idx->dim[i] > s->dim[i])
			return gg_fail(f, "indices %s reach beyond data %s along axis %d", gg_str(f, idx),
			               gg_str(f, s), i);
	gg_move_content(f, 1);
	return true;
}

static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0], *y = &e->out[0];
	int axis = gg_eval_axis(gg_get_int(e->n, "axis"), x->shape.rank);
	int64_t n = x->shape.dim[axis], stride[GG_MAX_RANK], idx[GG_MAX_RANK] = {0};
	int64_t *at = gg_eval_ints(e, 1), count = gg_count(y), i = 0;
	size_t size = gg_dtype_size(x->dtype);
	if (count == 0)
		return true;
	if (!gg_eval_indices(e, at, count, n))
		return false;
	gg_strides(&x->shape, stride);
	do {
		int64_t from = at[i] * stride[axis];
		for (int k = 0; k < x->shape.rank; k++)
			from += k == axis ? 0 : idx[k] * stride[k];
		memcpy((char *)y->data + (size_t)i++ * size, (const char *)x->data + (size_t)from * size,
		       size);
	} while (gg_next_index(&y->shape, idx));
	return true;
}

GG_GRAD(grad)
{
	gg_value *in[] = {gg_put_expand(t, NUM(dy, 0), IN(0)), IN(1), dy};
	gg_value *y = gg_put(t, "ScatterElements", 3, in, 0);
	if (y) {
		gg_set_attr_int(y->producer, "axis", gg_get_int(n, "axis"));
		gg_set_attr_string(y->producer, "reduction", "add");
	}
	gg_give(t, IN(0), gg_put_done(t, y));
}

const gg_op gg_op_GatherElements = {
    .name = "GatherElements",
    .doc = "y[i,j,...] = x[index[i,j,...],j,...]: the index replaces the position along axis",
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
