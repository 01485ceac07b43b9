#include "kernel.h"

/* A composite op at work: its parts are computed in `t`, f32 where the op has less, as it rounds once. */
typedef struct parts {
	gg_diag *d;
	gg_node *n;
	gg_dtype t;
	bool good;
} parts;

static gg_value *add(parts *p, const char *op, int nin, gg_value *const *in)
{
	gg_value *v = p->good ? gg_expand_node(p->d, p->n, op, nin, in) : 0;
	p->good = v != 0;
	return v;
}

static gg_value *one(parts *p, const char *op, gg_value *x) { return add(p, op, 1, &x); }

static gg_value *two(parts *p, const char *op, gg_value *x, gg_value *y)
{
	return add(p, op, 2, (gg_value *[]){x, y});
}

static gg_value *cast(parts *p, gg_value *x, gg_dtype t)
{
	if (!p->good || x->dtype == t)
		return x;
	const char *name = gg_fresh_name(p->n->graph, p->n->out[0]->name);
	gg_node *k = gg_add_node(p->n->graph, p->n, gg_op_find("Cast"), 1, &x, 1, &name);
	gg_set_attr_dtype(k, "to", t);
	gg_merge_loc(k, p->n);
	p->good = gg_infer_node(p->d, k);
	return k->out[0];
}

static gg_value *in(parts *p, int i) { return cast(p, gg_in(p->n, i), p->t); }

static gg_value *number(parts *p, double x)
{
	uint64_t raw;
	gg_tensor t = {p->t, {.rank = 0}, &raw};
	gg_set_f64(&t, 0, x);
	return gg_add_tensor(p->n->graph, gg_printf(&p->n->graph->m->arena, "%s.number", p->n->out[0]->name),
	                     &t);
}

static gg_value *axes(parts *p, int from, int to)
{
	int64_t k[GG_MAX_RANK];
	gg_tensor t = {GG_I64, {.rank = 1, .dim = {to - from}}, k};
	for (int i = from; i < to; i++)
		k[i - from] = i;
	return gg_add_tensor(p->n->graph, gg_printf(&p->n->graph->m->arena, "%s.axes", p->n->out[0]->name),
	                     &t);
}

static int rank(const parts *p) { return gg_in(p->n, 0)->shape.rank; }

static int axis(const parts *p) { return (int)gg_eval_axis(gg_get_int(p->n, "axis"), rank(p)); }

/* x - max over the axis, and the sum of its exponentials */
static gg_value *exponents(parts *p, gg_value **x, gg_value **sum)
{
	gg_value *over = axes(p, axis(p), axis(p) + 1), *v = in(p, 0);
	*x = two(p, "Sub", v, two(p, "ReduceMax", v, over));
	gg_value *e = one(p, "Exp", *x);
	*sum = two(p, "ReduceSum", e, over);
	return e;
}

static gg_value *softmax(parts *p)
{
	gg_value *x, *sum, *e = exponents(p, &x, &sum);
	return two(p, "Div", e, sum);
}

static gg_value *log_softmax(parts *p)
{
	gg_value *x, *sum;
	exponents(p, &x, &sum);
	return two(p, "Sub", x, one(p, "Log", sum));
}

/* Scale, and bias where there is one */
static gg_value *scale_shift(parts *p, gg_value *x)
{
	x = two(p, "Mul", x, in(p, 1));
	return gg_in(p->n, 2) ? two(p, "Add", x, in(p, 2)) : x;
}

static gg_value *root_mean_square(parts *p, gg_value *x, gg_value *over)
{
	gg_value *square = two(p, "ReduceMean", two(p, "Mul", x, x), over);
	return one(p, "Sqrt", two(p, "Add", square, number(p, gg_get_float(p->n, "epsilon"))));
}

static gg_value *layer_norm(parts *p)
{
	gg_value *over = axes(p, axis(p), rank(p)), *x = in(p, 0);
	gg_value *d = two(p, "Sub", x, two(p, "ReduceMean", x, over));
	return scale_shift(p, two(p, "Div", d, root_mean_square(p, d, over)));
}

static gg_value *rms_norm(parts *p)
{
	gg_value *over = axes(p, axis(p), rank(p)), *x = in(p, 0);
	return scale_shift(p, two(p, "Div", x, root_mean_square(p, x, over)));
}

/* A vector of channels beside data of the node's rank */
static gg_value *channels(parts *p, gg_value *v)
{
	return rank(p) > 2 ? two(p, "Unsqueeze", v, axes(p, 1, rank(p) - 1)) : v;
}

static gg_value *batch_norm(parts *p)
{
	gg_value *var = two(p, "Add", in(p, 4), number(p, gg_get_float(p->n, "epsilon")));
	gg_value *scale = two(p, "Div", in(p, 1), one(p, "Sqrt", var));
	gg_value *d = two(p, "Sub", in(p, 0), channels(p, in(p, 3)));
	return two(p, "Add", two(p, "Mul", d, channels(p, scale)), channels(p, in(p, 2)));
}

static const struct composite {
	const char *op;
	gg_value *(*make)(parts *p);
} composites[] = {
    {"BatchNormalization", batch_norm},
    {"LayerNormalization", layer_norm},
    {"LogSoftmax", log_softmax},
    {"RMSNormalization", rms_norm},
    {"Softmax", softmax},
};

static const struct composite *find(const gg_node *n)
{
	for (size_t i = 0; i < sizeof composites / sizeof *composites; i++)
		if (is_op(n, composites[i].op))
			return &composites[i];
	return 0;
}

/* What keeps it whole; NULL: nothing. */
static const char *keeps(const gg_pass_run *p, const gg_node *n)
{
	int rank = gg_in(n, 0)->shape.rank;
	if (n->nafter || n->nfollow)
		return "it is ordered by control edges";
	if (rank < 0)
		return "the rank of its input is not known";
	if (is_op(n, "BatchNormalization") && (gg_get_int(n, "training_mode") || rank < 2))
		return "it is in training mode, or without channels";
	for (int i = 1; i < n->nout; i++)
		if (n->out[i])
			return "it has a second output";
	if (target_of(p) && target_of(p)->nrows && n->kernel && strcmp(n->kernel, "ref") &&
	    !gg_pass_option(p, "all"))
		return "the target has a kernel of its own for it";
	return 0;
}

static bool replace(gg_pass_run *r, gg_node *n, const struct composite *c)
{
	gg_dtype t = gg_in(n, 0)->dtype == GG_F64 ? GG_F64 : GG_F32;
	parts p = {r->d, n, t, true};
	gg_value *y = c->make(&p);
	y = p.good ? cast(&p, y, n->out[0]->dtype) : 0;
	if (!p.good)
		return false;
	gg_replace_value(n->out[0], y);
	gg_remove_node(n);
	return true;
}

/* Needs shapes.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	const char *all = gg_pass_option(p, "all");
	if (all && strcmp(all, "1"))
		return gg_error(p->d, GG_USAGE, "option 'all' takes 1, not '%s'", all);
	if (in_kernel(g))
		return true;
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		const struct composite *c = find(n);
		if (!c || !n->out[0])
			continue;
		const char *why = makes_kernels(target_of(p)) ? keeps(p, n)
		                                              : "the target has no kernel for GraphKernel";
		if (why) {
			gg_refused(p, n, why);
			continue;
		}
		if (!gg_apply(p, n))
			return true;
		if (!replace(p, n, c))
			return false;
	}
	return true;
}

const gg_pass gg_pass_expand = {
    .name = "expand",
    .help = "composite ops become the plain ops that kernels are made of",
    .explain = "Softmax(x) = e / sum(e), e = exp(x - max(x))\n"
               "LogSoftmax(x) = x - max(x) - log(sum(exp(x - max(x))))\n"
               "LayerNormalization(x, s, b) = d / sqrt(mean(d * d) + epsilon) * s + b, d = x - mean(x)\n"
               "RMSNormalization(x, s) = x / sqrt(mean(x * x) + epsilon) * s\n"
               "BatchNormalization(x, s, b, m, v) = (x - m) * (s / sqrt(v + epsilon)) + b, in inference\n"
               "f16 and bf16 are computed in f32 between two casts, as the composite op rounds once. After "
               "selection an op\n"
               "that the target has a kernel for stays, and on a device without kernels for GraphKernel all "
               "do.",
    .pipeline = "graph_kernel:10",
    .options = "all=1: also ops that the target has a kernel for",
    .ops = "BatchNormalization LayerNormalization LogSoftmax RMSNormalization Softmax",
    .exact = false,
    .run = run,
};
