/* Reverse mode: what the gradient rules of grad.c are written with. All rules give plain ops, so that
 * a training graph runs wherever a graph does. */
#ifndef GG_PASS_GRAD_H
#define GG_PASS_GRAD_H

#include "match.h"
#include "../train.h"

/* The gradient of node n's output 0 is dy; give() adds to the gradient of an input. A rule that
 * lacks something reports and sets t->bad. */
typedef void grad_rule(train *t, gg_node *n, gg_value *dy);

/* A value's mark: 0 no gradient is wanted, 1 it is, else the gradient so far. */
enum { GRAD_WANTED = 1 };

static inline bool grad_wanted(const gg_value *v) { return v && v->mark; }

static inline gg_value *grad_of(const gg_value *v)
{
	return v->mark > GRAD_WANTED ? (gg_value *)(uintptr_t)v->mark : 0;
}

static inline void give(train *t, gg_value *v, gg_value *g)
{
	if (!grad_wanted(v) || !g)
		return;
	v->mark = (uint64_t)(uintptr_t)(grad_of(v) ? train_op(t, "Add", grad_of(v), g) : g);
}

static inline gg_value *grad_ints(train *t, int n, const int64_t *x)
{
	gg_tensor v = {.dtype = GG_I64, .shape = {.rank = 1, .dim = {n}}, .data = (void *)(uintptr_t)x};
	return t->bad ? 0 : gg_add_tensor(t->g, "axes", &v);
}

static inline gg_value *grad_const(train *t, const gg_value *like, double x)
{
	return like ? train_number(t, "grad.const", (gg_dtype)like->dtype, x) : 0;
}

static inline void grad_lacks(train *t, const gg_node *n, const char *what)
{
	if (!t->bad)
		gg_node_error(t->p->d, GG_UNSUPPORTED, n, "no gradient: %s", what);
	t->bad = true;
}

static inline gg_value *shape_of(train *t, gg_value *v) { return train_op(t, "Shape", v, 0); }

/* As a constant where it is known, so that v need not live until then. */
static inline gg_value *known_shape(train *t, gg_value *v)
{
	return gg_shape_known(&v->shape) ? grad_ints(t, v->shape.rank, v->shape.dim) : shape_of(t, v);
}

static inline gg_value *as_shape(train *t, gg_value *g, gg_value *like)
{
	return g && gg_shape_eq(&g->shape, &like->shape) ? g : train_op(t, "Reshape", g, shape_of(t, like));
}

static inline gg_value *reduce(train *t, const char *op, gg_value *v, int n, const int64_t *axis, bool keep)
{
	gg_value *in[] = {v, n ? grad_ints(t, n, axis) : 0};
	gg_value *y = v ? train_make(t, op, n ? 2 : 1, in, 0) : 0;
	if (y)
		gg_set_attr_int(y->producer, "keepdims", keep);
	return train_done(t, y);
}

/* Sums what broadcasting repeated. */
static inline gg_value *like_input(train *t, const gg_node *n, gg_value *g, gg_value *like)
{
	int64_t axis[GG_MAX_RANK];
	int count = 0, extra;
	if (!g || gg_shape_eq(&g->shape, &like->shape))
		return g;
	if (g->shape.rank < 0 || like->shape.rank < 0) {
		grad_lacks(t, n, "the rank of an operand is not known");
		return 0;
	}
	extra = g->shape.rank - like->shape.rank;
	for (int i = 0; i < g->shape.rank; i++) {
		gg_dim d = i < extra ? 1 : like->shape.dim[i - extra];
		if (i < extra || (d == 1 && g->shape.dim[i] != 1))
			axis[count++] = i;
		else if (d != g->shape.dim[i])
			grad_lacks(t, n, "it is not known whether an operand is broadcast");
	}
	return as_shape(t, reduce(t, "ReduceSum", g, count, axis, true), like);
}

static inline gg_value *transpose(train *t, gg_value *v, int n, const int64_t *perm)
{
	gg_value *y = v ? train_make(t, "Transpose", 1, &v, 0) : 0;
	if (y)
		gg_set_attr_ints(y->producer, "perm", n, perm);
	return train_done(t, y);
}

/* The last two axes, or the first two, change places. */
static inline gg_value *swap_axes(train *t, gg_value *v, bool first)
{
	int64_t perm[GG_MAX_RANK];
	int r = v ? v->shape.rank : 0, a = first ? 0 : r - 2;
	for (int i = 0; i < r; i++)
		perm[i] = i == a ? a + 1 : i == a + 1 ? a : i;
	return v ? transpose(t, v, r, perm) : 0;
}

/* Elements of v, as its dtype. */
static inline gg_value *count_of(train *t, gg_value *v)
{
	return v ? train_cast(t, train_op(t, "Size", v, 0), (gg_dtype)v->dtype) : 0;
}

grad_rule *grad_find_rule(const char *op); /* grad_rules.c */

#endif
