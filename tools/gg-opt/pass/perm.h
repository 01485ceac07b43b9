/* Permutations of axes: out axis i is axis perm.axis[i] of the input. */
#ifndef GG_PASS_PERM_H
#define GG_PASS_PERM_H

#include "../pass.h"
#include <string.h>

typedef struct perm {
	int n; /* -1: not known */
	int axis[GG_MAX_RANK];
} perm;

static inline bool is_transpose(const gg_node *n) { return n && !strcmp(n->op->name, "Transpose"); }

/* Of a Transpose; n is -1 when it reverses an input of unknown rank. */
static inline perm perm_of(const gg_node *n)
{
	const gg_attr *a = gg_find_attr(n, "perm");
	perm p = {.n = a ? a->n : n->in[0].value->shape.rank};
	for (int i = 0; i < p.n; i++)
		p.axis[i] = a ? (int)(a->ints[i] + (a->ints[i] < 0 ? p.n : 0)) : p.n - 1 - i;
	return p;
}

static inline bool perm_is_identity(const perm *p)
{
	for (int i = 0; i < p->n; i++)
		if (p->axis[i] != i)
			return false;
	return p->n >= 0;
}

static inline bool perm_eq(const perm *a, const perm *b)
{
	return a->n == b->n && a->n >= 0 && !memcmp(a->axis, b->axis, (size_t)a->n * sizeof *a->axis);
}

/* First `inner`, then `outer`, as one; n is -1 when either is not known. */
static inline perm perm_compose(const perm *inner, const perm *outer)
{
	perm p = {.n = inner->n == outer->n ? inner->n : -1};
	for (int i = 0; i < p.n; i++)
		p.axis[i] = inner->axis[outer->axis[i]];
	return p;
}

static inline perm perm_inverse(const perm *p)
{
	perm q = {.n = p->n};
	for (int i = 0; i < p->n; i++)
		q.axis[p->axis[i]] = i;
	return q;
}

static inline void set_perm(gg_node *n, const perm *p)
{
	int64_t axis[GG_MAX_RANK];
	for (int i = 0; i < p->n; i++)
		axis[i] = p->axis[i];
	gg_set_attr_ints(n, "perm", p->n, axis);
}

#endif
