/* Plain nodes before a gradient op that is written in plain ops. Builders are sticky: from NULL comes NULL.
 */
#ifndef GG_OP_GRADKIT_H
#define GG_OP_GRADKIT_H

#include "nnkit.h"
#include "opkit.h"

typedef struct gg_kit {
	gg_diag *d;
	gg_node *n; /* the node that is replaced */
} gg_kit;

static inline gg_value *kit_op(gg_kit k, const char *op, gg_value *a, gg_value *b)
{
	return a && b ? gg_expand_node(k.d, k.n, op, 2, (gg_value *[]){a, b}) : 0;
}

static inline gg_value *kit_one(gg_kit k, const char *op, gg_value *a)
{
	return a ? gg_expand_node(k.d, k.n, op, 1, &a) : 0;
}

/* A node with attributes still to be set, then kit_done. */
static inline gg_node *kit_node(gg_kit k, const char *op, int nin, gg_value *const *in)
{
	const char *name = gg_fresh_name(k.n->graph, k.n->out[0]->name);
	for (int i = 0; i < nin; i++)
		if (!in[i])
			return 0;
	gg_node *p = gg_add_node(k.n->graph, k.n, gg_op_find(op), nin, in, 1, &name);
	gg_merge_loc(p, k.n);
	return p;
}

static inline gg_value *kit_done(gg_kit k, gg_node *p) { return p && gg_infer_node(k.d, p) ? p->out[0] : 0; }

static inline gg_value *kit_number(gg_kit k, gg_dtype t, double x)
{
	uint64_t raw = 0;
	gg_tensor v = {.dtype = t, .data = &raw};
	gg_set_f64(&v, 0, x);
	return gg_add_tensor(k.n->graph, "number", &v);
}

static inline gg_value *kit_ints(gg_kit k, int n, const int64_t *x)
{
	gg_tensor v = {.dtype = GG_I64, .shape = {.rank = 1, .dim = {n}}, .data = (void *)(uintptr_t)x};
	return gg_add_tensor(k.n->graph, "ints", &v);
}

static inline gg_value *kit_reshape(gg_kit k, gg_value *v, int n, const int64_t *dim)
{
	return kit_op(k, "Reshape", v, kit_ints(k, n, dim));
}

static inline gg_value *kit_cast(gg_kit k, gg_value *v, gg_dtype to)
{
	gg_node *p = v && v->dtype != to ? kit_node(k, "Cast", 1, &v) : 0;
	if (p)
		gg_set_attr_dtype(p, "to", to);
	return v && v->dtype == to ? v : kit_done(k, p);
}

static inline gg_value *kit_permute(gg_kit k, gg_value *v, const int64_t *perm)
{
	gg_node *p = kit_node(k, "Transpose", 1, &v);
	if (p)
		gg_set_attr_ints(p, "perm", v->shape.rank, perm);
	return kit_done(k, p);
}

static inline gg_value *kit_reduce(gg_kit k, const char *op, gg_value *v, int n, const int64_t *axis,
                                   bool keep)
{
	gg_node *p = kit_node(k, op, 2, (gg_value *[]){v, kit_ints(k, n, axis)});
	if (p)
		gg_set_attr_int(p, "keepdims", keep);
	return kit_done(k, p);
}

/* The values take the place of the node's outputs, those that there are. */
static inline bool kit_replace(gg_kit k, gg_value *const *v)
{
	for (int i = 0; i < k.n->nout; i++)
		if (k.n->out[i] && !v[i])
			return false;
	for (int i = 0; i < k.n->nout; i++)
		if (k.n->out[i])
			gg_replace_value(k.n->out[i], v[i]);
	gg_remove_node(k.n);
	return true;
}

/* out[0] has the shape that integer input i says, of rank `rank` where that is not negative. */
static inline bool infer_shape_input(gg_infer *f, int i, int rank)
{
	int n;
	const gg_dim *dim = gg_want_dims(f, i, &n);
	if (!dim) {
		if (rank >= 0)
			gg_unknown_dims(f, 0, rank);
		return true;
	}
	if (n > GG_MAX_RANK || (rank >= 0 && n != rank))
		return gg_fail(f, "the shape has %d dims, expected %d", n, rank);
	for (int k = 0; k < n; k++)
		if (gg_dim_number(dim[k]) && dim[k] < 0)
			return gg_fail(f, "the shape has a dim of %lld", (long long)dim[k]);
	f->out[0].shape = gg_shape_of(n, dim);
	return true;
}

/* Shapes that may be the same. */
static inline bool shapes_agree(const gg_shape *a, const gg_shape *b)
{
	bool fits = a->rank == b->rank || a->rank < 0 || b->rank < 0;
	for (int i = 0; fits && i < a->rank && i < b->rank; i++)
		fits = !gg_dim_known(a->dim[i]) || !gg_dim_known(b->dim[i]) || a->dim[i] == b->dim[i];
	return fits;
}

#endif
