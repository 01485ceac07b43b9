/* The gradients of RNN, GRU and LSTM: the steps written out in plain nodes, one after another, and their
 * rules. */
#ifndef GG_OP_RECURGRAD_H
#define GG_OP_RECURGRAD_H

#include "grad.h"
#include "recur.h"
#include <strings.h>

typedef struct recur_parts { /* one direction */
	gg_builder *t;
	gg_node *n;
	int64_t hidden;
	gg_value *r,
	    *rb;        /* of all gates: R transposed, [hidden, gates*hidden]; the bias behind it, or NULL */
	gg_value *peep; /* [3*hidden], or NULL */
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

/* An activation of a gate, clipped before where the node says so. */
static inline gg_value *recur_act(const recur_parts *k, const char *op, gg_value *v)
{
	gg_builder *t = k->t;
	float most = gg_find_attr(k->n, "clip") ? gg_get_float(k->n, "clip") : 0;
	if (v && gg_find_attr(k->n, "clip")) {
		gg_value *in[] = {v, NUM(v, -most), NUM(v, most)};
		v = gg_put_done(t, gg_put(t, "Clip", 3, in, 0));
	}
	return OP(op, v, 0);
}

/* The activations are the op's own, though they may be written out. */
static inline bool recur_usual(const gg_node *n, const gg_recur_op *op)
{
	const gg_attr *a = gg_find_attr(n, "activations");
	for (int i = 0; a && i < a->n; i++)
		if (strcasecmp(a->strings[i], op->defaults[i % op->funcs]))
			return false;
	return true;
}

static inline bool recur_plain(gg_builder *t, gg_node *n, const gg_recur_op *op)
{
	const char *why = 0;
	if (!recur_usual(n, op))
		why = "with activations of its own";
	else if (gg_get_int(n, "layout") || (gg_in(n, GG_RECUR_LENS)))
		why = "with layout 1, or lengths of sequences";
	else if (IN(0)->shape.rank != 3 || !gg_dim_known(IN(0)->shape.dim[0]) ||
	         !gg_shape_known(&IN(2)->shape))
		why = "the number of steps is not known";
	if (why)
		gg_grad_lacks(t, n, why);
	return !why;
}

/* dY of a step and direction; the final state's is added to the last step's. */
static inline void recur_seed(gg_builder *t, gg_node *n, gg_value *h, int64_t step, int64_t d, bool last,
                              gg_value *c)
{
	gg_value *dy = gg_grad_out(n, 0), *dh = gg_grad_out(n, 1), *dc = gg_grad_out(n, 2);
	if (dy)
		gg_give(t, h, recur_pick(t, recur_pick(t, dy, step, 0), d, 0));
	if (dh && last)
		gg_give(t, h, recur_pick(t, dh, d, 0));
	if (dc && last && c)
		gg_give(t, c, recur_pick(t, dc, d, 0));
}

static inline void recur_direction(gg_builder *t, gg_node *n, int gates, recur_step *step, int64_t d,
                                   bool back)
{
	int64_t steps = IN(0)->shape.dim[0], hidden = IN(2)->shape.dim[2];
	gg_node *from = gg_grad_parts(t);
	recur_parts k = {.t = t, .n = n, .hidden = hidden};
	gg_value *b = recur_pick(t, IN(GG_RECUR_B), d, 0), **after = 0;
	gg_value *x = OP("MatMul", IN(0), gg_put_swap(t, recur_pick(t, IN(1), d, 0)));
	x = b ? recur_plus(t, x, recur_gate(&k, b, 0, gates)) : x;
	k.r = gg_put_swap(t, recur_pick(t, IN(2), d, 0));
	k.rb = b ? recur_gate(&k, b, gates, gates) : 0;
	k.peep = n->nin > GG_RECUR_P ? recur_pick(t, IN(GG_RECUR_P), d, 0) : 0;
	gg_value *zero = x ? recur_gate(&k, OP("Mul", recur_pick(t, x, 0, 0), NUM(x, 0)), 0, 1) : 0;
	gg_value *h = recur_pick(t, IN(GG_RECUR_H0), d, 0),
	         *c = n->nin > GG_RECUR_C0 ? recur_pick(t, IN(GG_RECUR_C0), d, 0) : 0;
	h = h ? h : zero;
	c = c ? c : zero;
	after = gg_alloc_n(&t->g->m->arena, (size_t)steps + 1, sizeof *after);
	for (int64_t i = 0; i < steps && !t->bad; i++) {
		int64_t s = back ? steps - 1 - i : i;
		step(&k, recur_pick(t, x, s, 0), &h, &c);
		after[s] = h;
	}
	gg_node *last = gg_grad_made(t, from);
	for (int64_t s = 0; s < steps && !t->bad; s++)
		recur_seed(t, n, after[s], s, d, s == (back ? 0 : steps - 1), c);
	gg_grad_back(t, from, last);
}

static inline void recur_grad(gg_builder *t, gg_node *n, const gg_recur_op *op, recur_step *step)
{
	const char *way = gg_get_string(n, "direction");
	if (!recur_plain(t, n, op))
		return;
	for (int64_t d = 0; d < IN(1)->shape.dim[0] && !t->bad; d++)
		recur_direction(t, n, op->gates, step, d, d == 1 || !strcmp(way, "reverse"));
}

#endif
