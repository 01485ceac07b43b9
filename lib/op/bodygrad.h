/* The gradients of nodes with bodies. A body's backward body is a copy of it that goes on in reverse mode:
 *
 *   body       x...             ->  y...
 *   backward   x..., dy...      ->  dx...        what of y nobody reads any more is taken away
 *
 * It makes again what it needs of the body's own values, so what is made again must come out the same. */
#ifndef GG_OP_BODYGRAD_H
#define GG_OP_BODYGRAD_H

#include "grad.h"

/* Where the rules of a copy of a body of n write. Fused nodes are plain ones there; no value is marked. */
static inline gg_builder back_copy(gg_builder *t, gg_node *n, const gg_graph *body)
{
	gg_builder b = {.d = t->d, .g = gg_clone_body(body, t->g->m), .name = "gradient", .bad = t->bad};
	b.g->owner = n;
	for (size_t i = 0; i < b.g->nout; i++)
		gg_grad_begin(b.g, b.g->out[i]->value, 0);
	return b;
}

static inline void back_want(gg_value *v, const gg_value *outside)
{
	if (gg_grad_wanted(outside) && !v->mark)
		v->mark = GG_GRAD_WANTED;
}

/* A further input, the gradient of an output. */
static inline gg_value *back_seed(gg_builder *b, gg_value *y)
{
	gg_value *dy = gg_add_input(b->g, gg_fresh_name(b->g, "dy"), (gg_dtype)y->dtype, &y->shape);
	gg_give(b, y, dy);
	return dy;
}

static inline gg_value *back_zeros(gg_builder *b, gg_value *like)
{
	return gg_put_expand(b, gg_put_like(b, like, 0), like);
}

static inline gg_value *back_given(gg_builder *b, gg_value *v)
{
	return gg_grad_of(v) ? gg_grad_of(v) : back_zeros(b, v);
}

static inline bool back_chance(const gg_graph *g)
{
	const gg_graph *body;
	bool any = false;
	for (const gg_node *n = g->first; n && !any; n = n->next) {
		any = n->op->flags & GG_RANDOM && !gg_find_attr(n, "seed");
		for (int i = 0; !any && (body = gg_body(n, i)); i++)
			any = back_chance(body);
	}
	return any;
}

static inline bool back_read(const gg_node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && n->out[i]->uses)
			return true;
	return false;
}

/* The backward body gives these values: what they do not hang on goes, what is done to the outside with it.
 */
static inline bool back_end(gg_builder *b, const gg_node *n, int count, gg_value *const *out)
{
	if (b->bad)
		return false;
	gg_clear_results(b->g);
	for (int i = 0; i < count; i++)
		gg_add_output(b->g, out[i]);
	for (gg_node *k = b->g->last, *prev; k; k = prev) {
		prev = k->prev;
		if (!back_read(k))
			gg_remove_node(k);
	}
	gg_sweep_consts(b->g, SIZE_MAX);
	if (back_chance(b->g))
		gg_grad_lacks(b, n, "its body draws random numbers, which would be others the next time");
	return !b->bad;
}

/* Captures that no body reads. */
static inline void back_drop_captures(gg_node *n)
{
	for (int i = n->nin - 1; i >= gg_nargs(n); i--)
		if (!gg_capture_is_read(n, i))
			gg_remove_input_slot(n, i);
}

/* Output i of n is the gradient of v. */
static inline void back_give(gg_builder *t, gg_node *n, int i, gg_value *v)
{
	n->out[i]->shape = v->shape;
	gg_give(t, v, n->out[i]);
}

#endif
