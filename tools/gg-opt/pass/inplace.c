#include "hardware.h"

/* What makes gradients that are added up, and which of its outputs; `sum`: what adds to another one. */
static const struct maker {
	const char *op;
	int index;
	const char *sum;
} makers[] = {{"ConvTranspose", 0, "ConvTransposeAdd"},
              {"ConvInputGrad", 0, "ConvInputGradAdd"},
              {"BatchNormAddReluGrad", 3, 0}};

static const struct maker *maker_of(const gg_value *v)
{
	for (size_t i = 0; v->producer && i < sizeof makers / sizeof *makers; i++)
		if (!strcmp(v->producer->op->name, makers[i].op) && v->index == makers[i].index)
			return &makers[i];
	return 0;
}

/* Of the forward convolution: its weight's axis 0. The larger one writes first. */
static gg_dim channels(const gg_node *conv)
{
	const gg_shape *w = &conv->in[1].value->shape;
	return w->rank > 0 && gg_dim_known(w->dim[0]) ? w->dim[0] : 0;
}

/* Which addend accumulates into the other one. */
static int accumulating(const gg_node *add)
{
	const gg_value *a = add->in[0].value, *b = add->in[1].value;
	if (!maker_of(a)->sum || !maker_of(b)->sum)
		return maker_of(a)->sum ? 0 : 1;
	return channels(b->producer) > channels(a->producer) ? 0 : 1;
}

static const char *why_not(gg_pass_run *p, const gg_node *add)
{
	const gg_value *a = add->in[0].value, *b = add->in[1].value;
	for (int i = 0; i < 2; i++) {
		const gg_value *v = add->in[i].value;
		if (!maker_of(v))
			return "an addend is no gradient of a convolution by its input, nor dz";
		if (!gg_one_use(v))
			return gg_is_output(v) ? "an addend is an output" : "an addend has a second reader";
		if (v->producer->nfollow)
			return "a node waits for an addend";
	}
	if (!maker_of(a)->sum && !maker_of(b)->sum)
		return "neither addend is a convolution's, which could accumulate";
	if (a->shape.rank < 0 || !gg_shape_eq(&a->shape, &b->shape))
		return "the addends have not surely equal shapes";
	if (add->nfollow)
		return "a node waits for the sum";
	const char *sum = maker_of(add->in[accumulating(add)].value)->sum;
	return has_kernel(p, sum) ? 0 : gg_printf(&p->scratch, "the target has no kernel for %s", sum);
}

static bool is_candidate(const gg_node *n)
{
	bool some = false;
	for (int i = 0; i < 2 && !strcmp(n->op->name, "Add"); i++) {
		const struct maker *m = maker_of(n->in[i].value);
		some |= m && m->sum;
	}
	return some;
}

static bool accumulate(gg_pass_run *p, gg_node *add)
{
	int last = accumulating(add);
	const char *sum = maker_of(add->in[last].value)->sum;
	gg_node *second = add->in[last].value->producer;
	gg_value *in[] = {gg_in(second, 0), gg_in(second, 1), gg_in(second, 2), add->in[!last].value};
	gg_node *k = add_fused(add, sum, 4, in, 1, (const char *[]){add->out[0]->name});
	gg_copy_attrs(k, second);
	gg_merge_loc(k, second);
	gg_merge_loc(k, add);
	take_after(k, second);
	take_after(k, add);
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
    .explain =
        "Add(ConvInputGrad(dy1, w1, s), ConvInputGrad(dy2, w2, s)) => ConvInputGradAdd(dy2, w2, s, z)\n"
        "where z = ConvInputGrad(dy1, w1, s), which it overwrites; likewise ConvTranspose, and with dz of\n"
        "BatchNormAddReluGrad (output 3) as z. Of two convolutions the one of more channels writes first\n"
        "(equal: the first addend); the order is an edge of data, so that no sorting breaks it. Refused\n"
        "where an addend is made by something else (dx of a normalisation too), has another reader or is an\n"
        "output, the shapes are not surely equal, a node waits for one of the three, or the target has no\n"
        "kernel for it.",
    .ops = "ConvTranspose ConvInputGrad",
    .pipeline = "hardware:100",
    .exact = true,
    .run = run,
};
