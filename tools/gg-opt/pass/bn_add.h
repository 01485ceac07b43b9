/* Relu(Add(BatchNormalization(...):0, z)) and its mirror. */
#ifndef GG_PASS_BN_ADD_H
#define GG_PASS_BN_ADD_H

#include "hardware.h"

enum { BEHIND = 1 };

/* Marks what depends on bn from there to `end`; true when v is made by one of those. */
static bool depends(gg_node *bn, const gg_node *end, const gg_value *v)
{
	bn->mark = BEHIND;
	for (gg_node *n = bn->next; n && n != end; n = n->next) {
		n->mark = 0;
		for (int i = 0; i < n->nin; i++) {
			const gg_node *k = n->in[i].value ? n->in[i].value->producer : 0;
			if (k && (k == bn || (k->order > bn->order && k->mark == BEHIND)))
				n->mark = BEHIND;
		}
		for (int i = 0; i < n->nafter; i++)
			if (n->after[i]->order > bn->order && n->after[i]->mark == BEHIND)
				n->mark = BEHIND;
	}
	const gg_node *k = v->producer;
	return k && (k == bn || (k->order > bn->order && k->mark == BEHIND));
}

static const char *why_not(const gg_pass_run *p, gg_node *relu, gg_node *add, const gg_value *x,
                           const gg_value *z)
{
	gg_node *bn = x->producer;
	if (x->index)
		return "what is added is a statistic, not the normalised value";
	if (!gg_one_use(x))
		return gg_is_output(x) ? "the normalised value is an output"
		                       : "the normalised value has a second reader";
	if (!gg_one_use(add->out[0]))
		return gg_is_output(add->out[0]) ? "the sum is an output" : "the sum has a second reader";
	if (z->dtype != x->dtype || z->shape.rank < 0 || !gg_shape_eq(&z->shape, &x->shape))
		return "z has not surely the shape and dtype of the normalised value";
	if (bn->nfollow || add->nfollow || relu->nfollow)
		return "a node waits for it";
	if (!has_kernel(p, "BatchNormAddRelu"))
		return "the target has no kernel for BatchNormAddRelu";
	if (depends(bn, add, z))
		return "z depends on the normalisation's statistics: it would wait for itself";
	return 0;
}

static bool fuse(gg_pass_run *p, gg_node *relu, gg_node *add, gg_node *bn, gg_value *z)
{
	gg_value *in[6];
	const char *base[3];
	gg_node **late = 0;
	size_t nlate = 0, cap = 0;
	for (int i = 0; i < 5; i++)
		in[i] = bn->in[i].value;
	in[5] = z;
	for (int i = 0; i < bn->nout; i++)
		base[i] = i == 0 ? relu->out[0]->name : bn->out[i] ? bn->out[i]->name : 0;
	for (gg_node *n = bn->next; n != add; n = n->next)
		if (n->mark == BEHIND) {
			late = gg_grow_in(&p->scratch, late, nlate, &cap, sizeof *late);
			late[nlate++] = n;
		}
	gg_node *k = add_fused(add, "BatchNormAddRelu", 6, in, bn->nout, base);
	gg_copy_attrs(k, bn);
	gg_merge_loc(k, bn);
	gg_merge_loc(k, add);
	gg_merge_loc(k, relu);
	for (int i = 0; i < bn->nafter; i++)
		gg_add_after(k, bn->after[i]);
	for (int i = 0; i < add->nafter; i++)
		gg_add_after(k, add->after[i]);
	if (!gg_infer_node(p->d, k))
		return false;
	for (size_t i = 0; i < nlate; i++) /* readers of the statistics */
		gg_move_before(late[i], add);
	take_place(k->out[0], relu->out[0]);
	for (int i = 1; i < bn->nout; i++)
		if (bn->out[i])
			take_place(k->out[i], bn->out[i]);
	gg_remove_node(relu);
	gg_remove_node(add);
	gg_remove_node(bn);
	return true;
}

/* side: which addend is the BatchNormalization. */
static bool fuse_bn_add(gg_pass_run *p, gg_graph *g, int side)
{
	gg_graph_number(g);
	for (gg_node *relu = g->first, *next; relu; relu = next) {
		next = relu->next;
		gg_node *add = strcmp(relu->op->name, "Relu") ? 0 : relu->in[0].value->producer;
		if (!add || strcmp(add->op->name, "Add"))
			continue;
		gg_value *x = add->in[side].value, *z = add->in[1 - side].value;
		if (!x->producer || strcmp(x->producer->op->name, "BatchNormalization"))
			continue;
		const char *why = why_not(p, relu, add, x, z);
		if (why)
			gg_refused(p, relu, why);
		else if (gg_apply(p, relu) && !fuse(p, relu, add, x->producer, z))
			return false;
	}
	return true;
}

#define BN_ADD_GUARDS \
	"\nin inference and in training mode alike; the running statistics keep their readers. Refused " \
	"where what is\n" \
	"added is not output 0, it or the sum has another reader or is an output, z has not surely the " \
	"shape and\n" \
	"dtype of the normalised value, z depends on the statistics (a cycle), a node waits for one of the " \
	"three,\n" \
	"or the target has no kernel for it."

#endif
