#include "move.h"
#include "grad.h"

/* perm as axes of x; reversed when not given. */
static void permutation(const gg_node *n, int rank, int *perm)
{
	const gg_attr *a = gg_find_attr(n, "perm");
	for (int i = 0; i < rank; i++)
		perm[i] = a ? (int)(a->ints[i] + (a->ints[i] < 0 ? rank : 0)) : rank - 1 - i;
}

static bool infer(gg_infer *f)
{
	const gg_attr *a = gg_find_attr(f->n, "perm");
	const gg_shape *s = &f->in[0].shape;
	int perm[GG_MAX_RANK], axis;
	uint32_t seen = 0;
	f->out[0].dtype = f->in[0].dtype;
	if (a && a->n > GG_MAX_RANK)
		return gg_unsupported(f, "perm has %d axes, at most %d are supported", a->n, GG_MAX_RANK);
	if (s->rank < 0) {
		if (a)
			gg_unknown_dims(f, 0, a->n);
		return true;
	}
	if (a && a->n != s->rank)
		return gg_fail(f, "perm has %d axes, x has rank %d", a->n, s->rank);
	for (int i = 0; a && i < a->n; i++) {
		if (!gg_axis(f, "perm", a->ints[i], s->rank, &axis))
			return false;
		if (seen >> axis & 1)
			return gg_fail(f, "perm names axis %d twice", axis);
		seen |= 1u << axis;
	}
	permutation(f->n, s->rank, perm);
	f->out[0].shape.rank = s->rank;
	for (int i = 0; i < s->rank; i++)
		f->out[0].shape.dim[i] = s->dim[perm[i]];
	gg_move_content(f, 1);
	return true;
}

static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0], *y = &e->out[0];
	int perm[GG_MAX_RANK], rank = x->shape.rank;
	int64_t xs[GG_MAX_RANK], from[GG_MAX_RANK], to[GG_MAX_RANK];
	permutation(e->n, rank, perm);
	gg_strides(&x->shape, xs);
	gg_strides(&y->shape, to);
	for (int i = 0; i < rank; i++)
		from[i] = xs[perm[i]];
	gg_move(gg_dtype_size(x->dtype), rank, y->shape.dim, x->data, from, y->data, to);
	return true;
}

GG_GRAD(grad)
{
	int64_t back[GG_MAX_RANK];
	const gg_attr *perm = gg_find_attr(n, "perm");
	int r = IN(0)->shape.rank;
	if (r < 0) {
		gg_grad_lacks(t, n, "the rank of its input is not known");
		return;
	}
	for (int i = 0; i < r; i++)
		back[perm ? perm->ints[i] : r - 1 - i] = i;
	gg_give(t, IN(0), gg_put_permute(t, dy, r, back));
}

const gg_op gg_op_Transpose = {.name = "Transpose",
                               .doc = "x with its axes in the order perm",
                               .min_in = 1,
                               .max_in = 1,
                               .min_out = 1,
                               .max_out = 1,
                               .attrs = (const gg_attr_spec[]){{"perm", GG_ATTR_INTS}, {0}},
                               .flags = GG_MOVES,
                               .in = {{GG_ANY, 'T'}},
                               .out = {{GG_ANY, 'T'}},
                               .infer = infer,
                               .eval = eval,
                               .grad = grad};
