/* OP(Add(a, b), rest...) => ADDOP(a, b, rest...): for ReluV2 and its gradient. */
#ifndef GG_PASS_ADD_V2_H
#define GG_PASS_ADD_V2_H

#include "hardware.h"

static const char *why_not(const gg_pass_run *p, const gg_node *n, const gg_node *add, const char *op)
{
	const gg_value *a = add->in[0].value, *b = add->in[1].value;
	if (!gg_one_use(add->out[0]))
		return gg_is_output(add->out[0]) ? "the sum is an output" : "the sum has a second reader";
	if (a->shape.rank < 0 || !gg_shape_eq(&a->shape, &b->shape))
		return "the addends have not surely equal shapes";
	if (add->nfollow || n->nfollow)
		return "a node waits for it";
	if (!has_kernel(p, op))
		return "the target has no kernel for the fused op";
	return 0;
}

static bool fuse_add(gg_pass_run *p, gg_graph *g, const char *from, const char *to)
{
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		gg_node *add = strcmp(n->op->name, from) ? 0 : n->in[0].value->producer;
		if (!add || strcmp(add->op->name, "Add"))
			continue;
		const char *why = why_not(p, n, add, to);
		if (why)
			gg_refused(p, n, why);
		if (why || !gg_apply(p, n))
			continue;
		gg_value *in[3] = {add->in[0].value, add->in[1].value, gg_in(n, 1)};
		const char *base[2];
		for (int i = 0; i < n->nout; i++)
			base[i] = n->out[i] ? n->out[i]->name : 0;
		gg_node *k = add_fused(n, to, 1 + n->nin, in, n->nout, base);
		gg_merge_loc(k, add);
		gg_merge_loc(k, n);
		if (!gg_infer_node(p->d, k))
			return false;
		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				take_place(k->out[i], n->out[i]);
		gg_remove_node(n);
		gg_remove_node(add);
	}
	return true;
}

#define ADD_V2_GUARDS \
	"\nRefused where the sum has another reader or is an output, the shapes of a and b are not surely " \
	"equal (the\n" \
	"kernels are flat), a node waits for one of the two, or the target has no kernel for it."

#endif
