#include "hardware.h"

static const char *why_not(const gg_pass_run *p, const gg_node *n, const gg_node *relu)
{
	const gg_shape *s = &n->in[1].value->shape;
	if (!gg_shape_known(s))
		return "the shape is not known";
	if (!gg_shape_eq(s, &n->in[0].value->shape))
		return "the gradient has another shape";
	if (relu->nfollow || n->nfollow)
		return "a node waits for one of the two";
	if (!has_kernel(p, "ReluV2") || !has_kernel(p, "ReluGradV2"))
		return "the target has no kernel for ReluV2 and its gradient";
	return 0;
}

static gg_node *with_mask(gg_pass_run *p, gg_node *relu)
{
	const char *base[] = {relu->out[0]->name, gg_printf(&p->scratch, "%s.mask", relu->out[0]->name)};
	gg_node *v2 = add_fused(relu, "ReluV2", 1, (gg_value *[]){relu->in[0].value}, 2, base);
	gg_merge_loc(v2, relu);
	take_after(v2, relu);
	if (!gg_infer_node(p->d, v2))
		return 0;
	take_place(v2->out[0], relu->out[0]);
	gg_remove_node(relu);
	return v2;
}

/* Needs shapes.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		gg_node *relu = strcmp(n->op->name, "ReluGrad") ? 0 : n->in[1].value->producer;
		if (!relu || n->in[1].value->index)
			continue;
		bool done = !strcmp(relu->op->name, "ReluV2");
		if (!done && strcmp(relu->op->name, "Relu"))
			continue;
		const char *why = why_not(p, n, relu);
		if (why)
			gg_refused(p, n, why);
		if (why || !gg_apply(p, n))
			continue;
		relu = done ? relu : with_mask(p, relu);
		if (!relu)
			return false;
		gg_value *in[] = {n->in[0].value, relu->out[1]};
		gg_node *v2 = add_fused(n, "ReluGradV2", 2, in, 1, (const char *[]){n->out[0]->name});
		gg_merge_loc(v2, n);
		take_after(v2, n);
		if (!gg_infer_node(p->d, v2))
			return false;
		take_place(v2->out[0], n->out[0]);
		gg_remove_node(n);
	}
	return true;
}

const gg_pass gg_pass_relu_v2 = {
    .name = "relu_v2",
    .help = "Relu and its gradient share a mask of bits",
    .explain = "y = Relu(x), dx = ReluGrad(dy, y) => y, mask = ReluV2(x), dx = ReluGradV2(dy, mask)\n"
               "Bit i % 32 of word i / 32 is x[i] > 0; dx is dy where it is 1, else 0, so that y need not be "
               "kept.\nRefused where the shape is not known, dy has another shape, a node waits for one of "
               "the two, or "
               "the\ntarget has no kernels for them. What the two wait for, the new nodes wait for.",
    .ops = "ReluGrad",
    .pipeline = "hardware:110",
    .exact = true,
    .run = run,
};
