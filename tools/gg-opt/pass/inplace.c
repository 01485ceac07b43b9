#include "hardware.h"

static const char *why_not(const gg_pass_run *p, const gg_node *add)
{
	const gg_value *a = add->in[0].value, *b = add->in[1].value;
	for (int i = 0; i < 2; i++) {
		const gg_value *v = add->in[i].value;
		if (!v->producer || strcmp(v->producer->op->name, "ConvTranspose") || v->index)
			return "an addend is no gradient of a convolution by its input";
		if (!gg_one_use(v))
			return gg_is_output(v) ? "an addend is an output" : "an addend has a second reader";
		if (v->producer->nfollow)
			return "a node waits for an addend";
	}
	if (a->shape.rank < 0 || !gg_shape_eq(&a->shape, &b->shape))
		return "the addends have not surely equal shapes";
	if (add->nfollow)
		return "a node waits for the sum";
	if (!has_kernel(p, "ConvTransposeAdd"))
		return "the target has no kernel for ConvTransposeAdd";
	return 0;
}

/* Of the forward convolution: its weight's axis 0. The larger one writes first. */
static gg_dim channels(const gg_node *conv)
{
	const gg_shape *w = &conv->in[1].value->shape;
	return w->rank > 0 && gg_dim_known(w->dim[0]) ? w->dim[0] : 0;
}

static bool is_candidate(const gg_node *n)
{
	bool some = false;
	for (int i = 0; i < 2 && !strcmp(n->op->name, "Add"); i++)
		some |= n->in[i].value->producer &&
		        !strcmp(n->in[i].value->producer->op->name, "ConvTranspose");
	return some;
}

static bool accumulate(gg_pass_run *p, gg_node *add)
{
	gg_node *a = add->in[0].value->producer, *b = add->in[1].value->producer;
	gg_node *first = channels(b) > channels(a) ? b : a, *second = first == a ? b : a;
	gg_value *in[] = {gg_in(second, 0), gg_in(second, 1), gg_in(second, 2), first->out[0]};
	gg_node *k = add_fused(add, "ConvTransposeAdd", 4, in, 1, (const char *[]){add->out[0]->name});
	gg_copy_attrs(k, second);
	gg_merge_loc(k, second);
	gg_merge_loc(k, add);
	for (int i = 0; i < second->nafter; i++)
		gg_add_after(k, second->after[i]);
	for (int i = 0; i < add->nafter; i++)
		gg_add_after(k, add->after[i]);
	if (!gg_infer_node(p->d, k))
		return false;
	take_place(k->out[0], add->out[0]);
	gg_remove_node(add);
	gg_remove_node(second);
	return true;
}

/* Needs shapes.
 * Breaks nothing: the order of the two is an edge of data. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		const char *why = is_candidate(n) ? why_not(p, n) : 0;
		if (why)
			gg_refused(p, n, why);
		else if (is_candidate(n) && gg_apply(p, n) && !accumulate(p, n))
			return false;
	}
	return true;
}

const gg_pass gg_pass_inplace = {
    .name = "inplace",
    .help = "of two convolution gradients that are added, the second accumulates into the first",
    .explain = "Add(ConvTranspose(dy1, w1), ConvTranspose(dy2, w2)) => ConvTransposeAdd(dy2, w2, "
               "z=ConvTranspose(dy1, "
               "w1))\nwhich overwrites z. The one of more channels writes first (equal: the first addend); "
               "the order is "
               "an edge\nof data, so that no sorting breaks it. Refused where an addend is made by something "
               "else, has "
               "another\nreader or is an output, the shapes are not surely equal, a node waits for one of "
               "the three, or "
               "the target\nhas no kernel for it.",
    .ops = "ConvTranspose",
    .pipeline = "hardware:100",
    .exact = true,
    .run = run,
};
