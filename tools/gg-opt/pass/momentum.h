/* The momentum fusions: ApplyMomentum whose gradient is a product or a sum that the kernel can make
 * itself. */
#ifndef GG_PASS_MOMENTUM_H
#define GG_PASS_MOMENTUM_H

#include "match.h"

typedef struct momentum_match {
	gg_node *apply;
	gg_value *var, *g, *wide; /* g: as the kernel reads it; wide: as the graph does */
	gg_value *decay, *scale;
	gg_value *inner[3]; /* values that go: each must have the pattern as its only reader */
} momentum_match;

/* wd var + g: the two unknowns. A decay that is no scalar is found too, and refused later. */
static inline bool match_decay(const gg_value *v, const gg_value *var, gg_value **decay, gg_value **g,
                               gg_value **product)
{
	gg_node *sum = sum_of_two(v);
	for (int i = 0; sum && i < 2; i++)
		if ((*decay = times(gg_in(sum, i), var))) {
			*product = gg_in(sum, i);
			*g = gg_in(sum, 1 - i);
			return true;
		}
	return false;
}

/* Why a match is not right; NULL: it is. */
static inline const char *momentum_refusal(const momentum_match *m)
{
	if (gg_get_int(m->apply, "use_nesterov"))
		return "looks like a momentum fusion, but use_nesterov is set";
	if (m->var->dtype != GG_F32 || gg_in(m->apply, 1)->dtype != GG_F32)
		return "looks like a momentum fusion, but the parameter is not f32";
	if (m->decay && !is_scalar(m->decay, GG_F32))
		return "looks like a momentum fusion, but the weight decay is not an f32 scalar";
	if (m->scale && !is_scalar(m->scale, GG_F32))
		return "looks like a momentum fusion, but the scale is not an f32 scalar";
	if (m->var->shape.rank < 0 || !gg_shape_eq(&m->var->shape, &m->g->shape))
		return "looks like a momentum fusion, but the gradient has not the parameter's shape";
	for (int i = 0; i < 3; i++)
		if (m->inner[i] && !inside(m->inner[i]))
			return "looks like a momentum fusion, but a value inside has another reader";
	return 0;
}

/* Inputs of the new node: `before` of ours, then var, acc, lr, g, momentum. */
static inline bool momentum_fuse(gg_pass_run *p, const momentum_match *m, const char *op)
{
	gg_node *old = m->apply, *n;
	gg_value *in[7];
	const char *name[2], *final[2];
	int nin = 0;
	if (m->decay)
		in[nin++] = m->decay;
	if (m->scale)
		in[nin++] = m->scale;
	for (int i = 0; i < 5; i++)
		in[nin++] = i == 3 ? m->g : gg_in(old, i);
	for (int i = 0; i < old->nout; i++) {
		final[i] = old->out[i] ? old->out[i]->name : 0;
		name[i] = final[i] ? gg_fresh_name(old->graph, final[i]) : 0;
	}
	n = gg_add_node(old->graph, old, gg_op_find(op), nin, in, old->nout, name);
	gg_merge_loc(n, old);
	for (int i = 0; i < old->nafter; i++)
		gg_add_after(n, old->after[i]);
	if (!gg_infer_node(p->d, n))
		return false;
	for (int i = 0; i < old->nout; i++)
		if (final[i])
			gg_replace_value(old->out[i], n->out[i]);
	gg_remove_node(old);
	for (int i = 0; i < n->nout; i++)
		if (final[i] && n->out[i]->name != final[i])
			gg_rename(n->out[i], final[i]);
	for (int i = 0; i < 3; i++)
		if (m->inner[i] && !m->inner[i]->uses) {
			gg_merge_loc(n, m->inner[i]->producer);
			gg_remove_node(m->inner[i]->producer);
		}
	if (m->wide != m->g && !m->wide->uses)
		gg_remove_node(m->wide->producer);
	return true;
}

typedef bool momentum_matcher(gg_node *apply, momentum_match *m);

static inline bool momentum_run(gg_pass_run *p, gg_graph *g, momentum_matcher *match, const char *op)
{
	for (gg_node *n = g->first, *next; n; n = next) {
		momentum_match m = {.apply = n, .var = gg_in(n, 0)};
		const char *why;
		next = n->next;
		if (strcmp(n->op->name, "ApplyMomentum") || n->nfollow || !match(n, &m))
			continue;
		m.wide = m.g;
		m.g = before_cast(m.g);
		if ((why = momentum_refusal(&m))) {
			gg_refused(p, n, why);
			continue;
		}
		if (!gg_apply(p, n))
			return true;
		if (!momentum_fuse(p, &m, op))
			return false;
	}
	return true;
}

#define MOMENTUM_GUARDS \
	"\nRefused: Nesterov, which the fused kernel does not have; a parameter that is not f32; a decay " \
	"or " \
	"scale that is not an\n" \
	"f32 scalar (the kernel would read its first element); a value inside that is read elsewhere or is " \
	"an output. The\n" \
	"gradient may be f16 or bf16 behind a cast to f32: the kernel reads it as it is, which is the " \
	"same. " \
	"The old parameter is\n" \
	"an operand, so the order of its readers and its update stays."

#endif
