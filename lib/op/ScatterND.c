#include "scatter.h"
#include "grad.h"

/* updates must have the shape indices[:-1] + data[k:]. */
static bool check_updates(gg_infer *f, int k)
{
	const gg_shape *s = &f->in[0].shape, *idx = &f->in[1].shape, *u = &f->in[2].shape;
	int lead = idx->rank - 1;
	bool fits = u->rank == lead + s->rank - k;
	for (int i = 0; fits && i < u->rank; i++) {
		gg_dim want = i < lead ? idx->dim[i] : s->dim[k + i - lead];
		fits = !gg_dim_known(want) || !gg_dim_known(u->dim[i]) || want == u->dim[i];
	}
	return fits || gg_fail(f, "updates %s do not fit data %s and indices %s", gg_str(f, u), gg_str(f, s),
	                       gg_str(f, idx));
}

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape, *idx = &f->in[1].shape;
	f->out[0].dtype = f->in[0].dtype;
	f->out[0].shape = *s;
	if (!scatter_check(f))
		return false;
	if (s->rank < 0 || idx->rank < 0)
		return true;
	if (idx->rank == 0 || s->rank == 0)
		return gg_fail(f, "data %s and indices %s must have rank 1 or more", gg_str(f, s),
		               gg_str(f, idx));
	gg_dim k = idx->dim[idx->rank - 1];
	if (!gg_dim_known(k))
		return true;
	if (k > s->rank)
		return gg_fail(f, "an index has %lld numbers for data %s", (long long)k, gg_str(f, s));
	return f->in[2].shape.rank < 0 || check_updates(f, (int)k);
}

static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0], *idx = &e->in[1];
	int k = (int)idx->shape.dim[idx->shape.rank - 1];
	int64_t *at = gg_eval_ints(e, 1), rows = gg_span(&idx->shape, 0, idx->shape.rank - 1),
	        stride[GG_MAX_RANK];
	int64_t inner = gg_span(&x->shape, k, x->shape.rank);
	gg_strides(&x->shape, stride);
	for (int64_t r = 0; r < rows; r++)
		for (int j = 0; j < k; j++)
			if (!gg_eval_indices(e, &at[r * k + j], 1, x->shape.dim[j]))
				return false;
	scatter s = scatter_start(e);
	for (int64_t r = 0; r < rows && inner > 0; r++) {
		int64_t to = 0;
		for (int j = 0; j < k; j++)
			to += at[r * k + j] * stride[j];
		scatter_put(&s, to, r * inner, inner);
	}
	scatter_finish(&s);
	return true;
}

GG_GRAD(grad) { gg_grad_scatter(t, n, dy, "GatherND"); }

const gg_op gg_op_ScatterND = {
    .name = "ScatterND",
    .doc = "x with slices of updates at the index tuples",
    .min_in = 3,
    .max_in = 3,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"reduction", GG_ATTR_STRING, false, "\"none\""}, {0}},
    .in = {{GG_ANY, 'T'}, {GG_DT(GG_I64)}, {GG_ANY, 'T'}},
    .out = {{GG_ANY, 'T'}},
    .infer = infer,
    .eval = eval,
    .grad = grad};
