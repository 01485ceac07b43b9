#include "scatter.h"
#include "grad.h"

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape, *idx = &f->in[1].shape, *u = &f->in[2].shape;
	int axis;
	f->out[0].dtype = f->in[0].dtype;
	f->out[0].shape = *s;
	if (!scatter_check(f))
		return false;
	if (s->rank < 0 || idx->rank < 0 || u->rank < 0)
		return true;
	if (!gg_axis(f, "axis", gg_get_int(f->n, "axis"), s->rank, &axis))
		return false;
	if (s->rank != idx->rank || s->rank != u->rank)
		return gg_fail(f, "data %s, indices %s and updates %s differ in rank", gg_str(f, s),
		               gg_str(f, idx), gg_str(f, u));
	for (int i = 0; i < s->rank; i++) {
		if (gg_dim_known(u->dim[i]) && gg_dim_known(idx->dim[i]) && u->dim[i] != idx->dim[i])
			return gg_fail(f, "indices %s and updates %s differ", gg_str(f, idx), gg_str(f, u));
		if (i != axis && gg_dim_known(s->dim[i]) && gg_dim_known(idx->dim[i]) &&
		    idx->dim[i] > s->dim[i])
			return gg_fail(f, "indices %s reach beyond data %s along axis %d", gg_str(f, idx),
			               gg_str(f, s), i);
	}
	return true;
}

static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0], *idx = &e->in[1];
	int axis = gg_eval_axis(gg_get_int(e->n, "axis"), x->shape.rank);
	int64_t *at = gg_eval_ints(e, 1), count = gg_count(idx), stride[GG_MAX_RANK], pos[GG_MAX_RANK] = {0},
	        i = 0;
	if (!gg_eval_indices(e, at, count, x->shape.dim[axis]))
		return false;
	scatter s = scatter_start(e);
	gg_strides(&x->shape, stride);
	if (count > 0)
		do {
			int64_t to = at[i] * stride[axis];
			for (int k = 0; k < x->shape.rank; k++)
				to += k == axis ? 0 : pos[k] * stride[k];
			scatter_put(&s, to, i++, 1);
		} while (gg_next_index(&idx->shape, pos));
	scatter_finish(&s);
	return true;
}

GG_GRAD(grad) { gg_grad_scatter(t, n, dy, "GatherElements"); }

const gg_op gg_op_ScatterElements = {
    .name = "ScatterElements",
    .doc = "x with updates at the indices, which replace the position along axis",
    .min_in = 3,
    .max_in = 3,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"axis", GG_ATTR_INT, false, "0"},
                                    {"reduction", GG_ATTR_STRING, false, "\"none\""},
                                    {0}},
    .in = {{GG_ANY, 'T'}, {GG_INDICES}, {GG_ANY, 'T'}},
    .out = {{GG_ANY, 'T'}},
    .infer = infer,
    .eval = eval,
    .grad = grad};
