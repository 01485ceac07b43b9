/* Small questions that passes ask about values when they match a pattern by hand. */
#ifndef GG_PASS_MATCH_H
#define GG_PASS_MATCH_H

#include "../pass.h"
#include <string.h>

/* v is output 0 of an `op`: its node, or NULL. */
static inline gg_node *made_by(const gg_value *v, const char *op)
{
	return v && v->producer && v->index == 0 && !strcmp(v->producer->op->name, op) ? v->producer : 0;
}

/* The only reader is the pattern. */
static inline bool inside(const gg_value *v) { return gg_one_use(v); }

static inline bool is_scalar(const gg_value *v, gg_dtype t)
{
	return v && v->shape.rank == 0 && v->dtype == t;
}

static inline bool same_type(const gg_value *a, const gg_value *b)
{
	return a->dtype == b->dtype && a->shape.rank >= 0 && gg_shape_eq(&a->shape, &b->shape);
}

/* An addition of two: Add, AddN or Sum. */
static inline gg_node *sum_of_two(const gg_value *v)
{
	gg_node *n = made_by(v, "Add");
	n = n ? n : made_by(v, "AddN");
	n = n ? n : made_by(v, "Sum");
	return n && gg_nargs(n) == 2 ? n : 0;
}

/* A product's other factor than x; NULL: v is no product with x. */
static inline gg_value *times(const gg_value *v, const gg_value *x)
{
	gg_node *n = made_by(v, "Mul");
	return !n ? 0 : gg_in(n, 0) == x ? gg_in(n, 1) : gg_in(n, 1) == x ? gg_in(n, 0) : 0;
}

/* A half precision value whose cast to f32 is v: the cast is exact, so either will do. */
static inline gg_value *before_cast(gg_value *v)
{
	gg_node *n = made_by(v, "Cast");
	gg_value *x = n ? gg_in(n, 0) : 0;
	return x && v->dtype == GG_F32 && (x->dtype == GG_F16 || x->dtype == GG_BF16) ? x : v;
}

#endif
