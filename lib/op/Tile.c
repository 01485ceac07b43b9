#include "move.h"
#include "grad.h"

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape;
	int n;
	f->out[0].dtype = f->in[0].dtype;
	if (s->rank < 0)
		return true;
	const gg_dim *r = gg_want_dims(f, 1, &n);
	if (!r) {
		gg_unknown_dims(f, 0, s->rank);
		return true;
	}
	if (n != s->rank)
		return gg_fail(f, "%d repeats, x has rank %d", n, s->rank);
	f->out[0].shape.rank = n;
	for (int i = 0; i < n; i++) {
		if (r[i] < 0 && gg_dim_number(r[i]))
			return gg_fail(f, "repeats has %lld", (long long)r[i]);
		f->out[0].shape.dim[i] = gg_dim_mul(s->dim[i], r[i]);
	}
	gg_move_content(f, 1);
	return true;
}

/* Every axis is two: the repeats, which stand still in x, and x's own. */
static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0], *y = &e->out[0];
	int rank = x->shape.rank;
	int64_t xs[GG_MAX_RANK], ys[GG_MAX_RANK];
	int64_t dim[GG_MOVE_RANK], from[GG_MOVE_RANK], to[GG_MOVE_RANK];
	gg_strides(&x->shape, xs);
	gg_strides(&y->shape, ys);
	if (gg_count(y) == 0)
		return true;
	for (int i = 0; i < rank; i++) {
		int64_t d = x->shape.dim[i];
		dim[2 * i] = y->shape.dim[i] / d;
		from[2 * i] = 0;
		to[2 * i] = d * ys[i];
		dim[2 * i + 1] = d;
		from[2 * i + 1] = xs[i];
		to[2 * i + 1] = ys[i];
	}
	gg_move(gg_dtype_size(x->dtype), 2 * rank, dim, x->data, from, y->data, to);
	return true;
}

/* The sum of the copies: each axis as the copies and what is in them. */
GG_GRAD(grad)
{
	int64_t times[2 * GG_MAX_RANK], dim[2 * GG_MAX_RANK], over[GG_MAX_RANK];
	int count = 0, at = 0, r = IN(0)->shape.rank;
	if (r < 0 || !gg_shape_known(&IN(0)->shape) || !gg_grad_ints(t, IN(1), times, &count) || count != r) {
		gg_grad_lacks(t, n, "the sizes of its input are not known, or its repeats are not constant");
		return;
	}
	count = 0;
	for (int i = 0; i < r; i++) {
		if (times[i] != 1) {
			over[count++] = at;
			dim[at++] = times[i];
		}
		dim[at++] = IN(0)->shape.dim[i];
	}
	if (at > GG_MAX_RANK) {
		gg_grad_lacks(t, n, "too many axes");
		return;
	}
	gg_value *g = count ? OP("Reshape", dy, gg_put_ints(t, at, dim)) : dy;
	gg_give(t, IN(0), count ? gg_put_reduce(t, "ReduceSum", g, count, over, false) : g);
}

const gg_op gg_op_Tile = {.name = "Tile",
                          .doc = "x repeated along each axis",
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
