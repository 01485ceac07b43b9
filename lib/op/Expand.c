#include "move.h"
#include "grad.h"

/* The shape is not known, but how many dims it has: a dim of x that is not 1 stays. */
static void infer_rank(gg_infer *f, const gg_shape *s, int n)
{
	int rank = s->rank > n ? s->rank : n;
	gg_unknown_dims(f, 0, rank);
	for (int i = 0; i < s->rank; i++)
		if (gg_dim_known(s->dim[i]) && s->dim[i] != 1)
			f->out[0].shape.dim[rank - s->rank + i] = s->dim[i];
}

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape, *w = &f->in[1].shape;
	int n;
	f->out[0].dtype = f->in[0].dtype;
	if (w->rank >= 0 && w->rank != 1)
		return gg_fail(f, "the shape has rank %d, expected 1", w->rank);
	const gg_dim *want = gg_want_dims(f, 1, &n);
	if (!want && (w->rank < 0 || !gg_dim_known(w->dim[0])))
		return true;
	if (!want)
		n = (int)(w->dim[0] > GG_MAX_RANK ? GG_MAX_RANK + 1 : w->dim[0]);
	if (n > GG_MAX_RANK)
		return gg_unsupported(f, "the shape has %d dims, at most %d are supported", n, GG_MAX_RANK);
	if (s->rank < 0)
		return true;
	if (!want) {
		infer_rank(f, s, n);
		return true;
	}
	for (int i = 0; i < n; i++)
		if (want[i] < 0 && gg_dim_number(want[i]))
			return gg_fail(f, "the shape has the dim %lld", (long long)want[i]);
	gg_shape to = gg_shape_of(n, want);
	if (!gg_broadcast(s, &to, &f->out[0].shape))
		return gg_fail(f, "%s does not expand to %s", gg_str(f, s), gg_str(f, &to));
	gg_move_content(f, 1);
	return true;
}

static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0], *y = &e->out[0];
	int64_t from[GG_MAX_RANK], to[GG_MAX_RANK];
	gg_bcast_strides(&x->shape, &y->shape, from);
	gg_strides(&y->shape, to);
	gg_move(gg_dtype_size(x->dtype), y->shape.rank, y->shape.dim, x->data, from, y->data, to);
	return true;
}

GG_GRAD(grad) { gg_give_like(t, n, IN(0), dy); }

const gg_op gg_op_Expand = {.name = "Expand",
                            .doc = "x broadcast together with shape",
                            .min_in = 2,
                            .max_in = 2,
                            .min_out = 1,
                            .max_out = 1,
                            .flags = GG_MOVES,
                            .in = {{GG_ANY, 'T'}, {GG_DT(GG_I64)}},
                            .out = {{GG_ANY, 'T'}},
                            .infer = infer,
                            .eval = eval,
                            .grad = grad};
