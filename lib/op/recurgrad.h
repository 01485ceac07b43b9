/* The gradients of RNN, GRU and LSTM: the steps written out in plain nodes, one after another, and their
 * rules. */
#ifndef GG_OP_RECURGRAD_H
#define GG_OP_RECURGRAD_H

#include "grad.h"
#include "recur.h"
#include <math.h>

typedef struct recur_parts { /* one direction */
	gg_builder *t;
	gg_node *n;
	int64_t hidden, axis; /* axis: of steps in X and Y, and of directions in states */
	gg_value *r,
	    *rb;        /* of all gates: R transposed, [hidden, gates*hidden]; the bias behind it, or NULL */
	gg_value *peep; /* [3*hidden], or NULL */
	const gg_squash *act;
} recur_parts;

/* Turns the inputs' part of the gates, [N, gates*hidden], into the next state. */
typedef void recur_step(recur_parts *k, gg_value *x, gg_value **h, gg_value **c);

static inline gg_value *recur_pick(gg_builder *t, gg_value *v, int64_t at, int64_t axis)
{
	gg_tensor i = {.dtype = GG_I64, .data = &at};
	gg_value *y = v ? gg_put(t, "Gather", 2, (gg_value *[]){v, gg_add_tensor(t->g, "at", &i)}, 0) : 0;
	if (y)
		gg_set_attr_int(y->producer, "axis", axis);
	return gg_put_done(t, y);
}

/* Gates i to i+count of v along its last axis. */
static inline gg_value *recur_gate(const recur_parts *k, gg_value *v, int64_t i, int64_t count)
{
	int64_t from = i * k->hidden, to = (i + count) * k->hidden, last = -1;
	gg_builder *t = k->t;
	gg_value *in[] = {v, gg_put_ints(t, 1, &from), gg_put_ints(t, 1, &to), gg_put_ints(t, 1, &last)};
	return gg_put_done(t, gg_put(t, "Slice", 4, in, 0));
}

static inline gg_value *recur_plus(gg_builder *t, gg_value *v, gg_value *bias)
{
	return bias ? gg_put_op(t, "Add", v, bias) : v;
}

/* Attributes of the op that is the activation of that name, as far as it has them. */
static inline gg_value *recur_squash(const recur_parts *k, int which, gg_value *v)
{
	const gg_squash *a = &k->act[which];
	gg_builder *t = k->t;
	if (!strcmp(a->name, "Affine"))
		return v ? OP("Add", OP("Mul", v, NUM(v, a->alpha)), NUM(v, a->beta)) : 0;
	if (!strcmp(a->name, "ScaledTanh"))
		return v ? OP("Mul", OP("Tanh", OP("Mul", v, NUM(v, a->beta)), 0), NUM(v, a->alpha)) : 0;
	gg_value *y = gg_put(t, a->name, 1, &v, 0);
	if (y && gg_op_attr(y->producer->op, "alpha"))
		gg_set_attr_float(y->producer, "alpha", (float)a->alpha);
	if (y && gg_op_attr(y->producer->op, "beta"))
		gg_set_attr_float(y->producer, "beta", (float)a->beta);
	return gg_put_done(t, y);
}

/* The same of a gate: clipped before where the node says so. */
static inline gg_value *recur_act(const recur_parts *k, int which, gg_value *v)
{
	gg_builder *t = k->t;
	double most = k->act[which].clip;
	if (v && isfinite(most)) {
		gg_value *in[] = {v, NUM(v, -most), NUM(v, most)};
		v = gg_put_done(t, gg_put(t, "Clip", 3, in, 0));
	}
	return recur_squash(k, which, v);
}

static inline bool recur_plain(gg_builder *t, gg_node *n)
{
	const gg_shape *x = &IN(0)->shape;
	bool plain = x->rank == 3 && gg_dim_known(x->dim[gg_get_int(n, "layout")]) &&
	             gg_shape_known(&IN(2)->shape);
	if (!plain)
		gg_grad_lacks(t, n, "the number of steps is not known");
	return plain;
}

/* Which entries have not ended at step s, [N, 1]; NULL: all. */
static inline gg_value *recur_alive(const recur_parts *k, int64_t s)
{
	gg_builder *t = k->t;
	gg_value *lens = gg_in(k->n, GG_RECUR_LENS);
	return lens ? OP("Unsqueeze",
	                 OP("Greater", lens, gg_put_number(t, "step", (gg_dtype)lens->dtype, (double)s)),
	                 gg_put_ints(t, 1, (int64_t[]){1}))
	            : 0;
}

/* dY of a step and direction; the final state's is added to the last step's. */
static inline void recur_seed(const recur_parts *k, gg_value *h, int64_t step, int64_t d)
{
	gg_builder *t = k->t;
	gg_value *dy = gg_grad_out(k->n, 0), *alive = dy ? recur_alive(k, step) : 0;
	if (!dy)
		return;
	dy = recur_pick(t, recur_pick(t, dy, step, k->axis), d, k->axis);
	gg_give(t, h, alive ? gg_grad_masked(t, alive, dy, true) : dy);
}

/* Step s; entries that have ended keep their state. */
static inline void recur_next(recur_parts *k, recur_step *step, gg_value *x, int64_t s, gg_value **h,
                              gg_value **c)
{
	gg_value *alive = recur_alive(k, s), *old_h = *h, *old_c = *c;
	step(k, recur_pick(k->t, x, s, k->axis), h, c);
	if (alive && *h != old_h)
		*h = gg_put_where(k->t, alive, *h, old_h);
	if (alive && *c != old_c)
		*c = gg_put_where(k->t, alive, *c, old_c);
}

static inline void recur_direction(recur_parts *k, int gates, recur_step *step, int64_t d, bool back)
{
	gg_builder *t = k->t;
	gg_node *n = k->n, *from = gg_grad_parts(t);
	int64_t steps = IN(0)->shape.dim[k->axis];
	gg_value *b = recur_pick(t, IN(GG_RECUR_B), d, 0), **after = 0;
	gg_value *x = OP("MatMul", IN(0), gg_put_swap(t, recur_pick(t, IN(1), d, 0)));
	x = b ? recur_plus(t, x, recur_gate(k, b, 0, gates)) : x;
	k->r = gg_put_swap(t, recur_pick(t, IN(2), d, 0));
	k->rb = b ? recur_gate(k, b, gates, gates) : 0;
	k->peep = recur_pick(t, IN(GG_RECUR_P), d, 0);
	gg_value *zero = x ? recur_gate(k, OP("Mul", recur_pick(t, x, 0, k->axis), NUM(x, 0)), 0, 1) : 0;
	gg_value *h = recur_pick(t, IN(GG_RECUR_H0), d, k->axis),
	         *c = recur_pick(t, IN(GG_RECUR_C0), d, k->axis);
	h = h ? h : zero;
	c = c ? c : zero;
	after = gg_alloc_n(&t->g->m->arena, (size_t)steps + 1, sizeof *after);
	for (int64_t i = 0; i < steps && !t->bad; i++) {
		int64_t s = back ? steps - 1 - i : i;
		recur_next(k, step, x, s, &h, &c);
		after[s] = h;
	}
	gg_node *last = gg_grad_made(t, from);
	for (int64_t s = 0; s < steps && !t->bad; s++)
		recur_seed(k, after[s], s, d);
	if (gg_grad_out(n, 1))
		gg_give(t, h, recur_pick(t, gg_grad_out(n, 1), d, k->axis));
	if (gg_grad_out(n, 2))
		gg_give(t, c, recur_pick(t, gg_grad_out(n, 2), d, k->axis));
	gg_grad_back(t, from, last);
}

static inline void recur_grad(gg_builder *t, gg_node *n, const gg_recur_op *op, recur_step *step)
{
	const char *way = gg_get_string(n, "direction");
	gg_squash act[6];
	if (!recur_plain(t, n))
		return;
	int64_t dirs = IN(2)->shape.dim[0];
	gg_recur_activations(n, op, (int)dirs * op->funcs, act);
	for (int64_t d = 0; d < dirs && !t->bad; d++) {
		recur_parts k = {.t = t, .n = n, .hidden = IN(2)->shape.dim[2], .act = act + d * op->funcs};
		k.axis = gg_get_int(n, "layout");
		recur_direction(&k, op->gates, step, d, d == 1 || !strcmp(way, "reverse"));
	}
}

#endif
