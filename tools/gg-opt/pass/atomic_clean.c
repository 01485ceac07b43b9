#include "kernel.h"

enum { MANY = 1024 };

static bool is_sum(const gg_node *n) { return is_op(n, "ReduceSum"); }

/* The body's only output that a ReduceSum makes; NULL: none, or *several. */
static gg_node *find_sum(const gg_graph *b, bool *several)
{
	gg_node *found = 0;
	for (size_t i = 0; i < b->nout; i++) {
		gg_node *n = b->out[i]->value->producer;
		if (!n || !is_sum(n))
			continue;
		*several |= found != 0;
		found = n;
	}
	return found;
}

static bool needs_another(const gg_graph *b, gg_node *sum)
{
	for (gg_node *n = b->first; n; n = n->next)
		n->mark = n == sum;
	for (gg_node *n = sum; n; n = n->prev)
		for (int i = 0; n->mark && i < n->nin; i++) {
			gg_node *p = n->in[i].value ? n->in[i].value->producer : 0;
			if (p && is_sum(p))
				return true;
			if (p)
				p->mark = 1;
		}
	return false;
}

/* Elements that a sum adds up, and whether the last axis is among its axes; false: not known. */
static bool measure(const gg_node *n, double *size, bool *last)
{
	const gg_shape *s = &gg_in(n, 0)->shape;
	gg_diag silent = {.silent = true};
	gg_tensor axes = {0};
	gg_value *v = gg_in(n, 1);
	if (s->rank < 1 || !gg_shape_known(s) || (v && (!v->data || !gg_value_tensor(&silent, v, &axes))))
		return false;
	*size = 1;
	*last = false;
	for (int i = 0; i < s->rank; i++) {
		bool in = !v || !gg_count(&axes);
		for (int64_t k = 0; v && k < gg_count(&axes); k++)
			in |= gg_eval_axis(gg_get_i64(&axes, k), s->rank) == i;
		*size *= in ? (double)s->dim[i] : 1;
		*last |= in && i == s->rank - 1;
	}
	return true;
}

/* Why blocks do not add to one buffer; NULL: they may. */
static const char *bars(const gg_pass_run *p, gg_node *n, gg_node *sum, bool several)
{
	gg_dtype t = gg_in(sum, 0)->dtype;
	double size;
	bool last;
	if (several)
		return "it makes several sums";
	if (!gg_is_output(sum->out[0]) || sum->out[0]->nuses > 1)
		return "its sum is read inside";
	if (needs_another(gg_gk_body(n), sum))
		return "its sum needs another one";
	if (t != GG_F16 && t != GG_F32 && t != GG_F64)
		return "there is no atomic addition for its dtype";
	if (!measure(sum, &size, &last) || !gg_shape_known(&sum->out[0]->shape))
		return "it is not known how much it sums";
	if (last && size < MANY)
		return "it sums rows of less than 1024 elements, which one block can";
	if (target_of(p) && !target_of(p)->device)
		return "the target sums each row in one thread";
	return 0;
}

/* A buffer of zeros before node n. */
static gg_value *zeros(gg_diag *d, gg_node *n, gg_dtype t, const gg_shape *s)
{
	gg_graph *g = n->graph;
	int64_t dim[GG_MAX_RANK];
	double zero = 0;
	gg_tensor number = {t, {0}, &zero}, shape = {GG_I64, gg_shape_of(1, (gg_dim[]){s->rank}), dim};
	for (int i = 0; i < s->rank; i++)
		dim[i] = s->dim[i];
	gg_value *in[] = {gg_add_tensor(g, "zero", &number), gg_add_tensor(g, "shape", &shape)};
	return gg_expand_node(d, n, "Expand", 2, in);
}

/* A node right behind another one that it is made for; its dtype is inferred. */
static gg_node *behind(gg_node *n, const gg_node *like, const char *op, int nin, gg_value *const *in)
{
	const char *name = gg_fresh_name(n->graph, like->out[0]->name);
	gg_node *k = gg_add_node(n->graph, n->next, gg_op_find(op), nin, in, 1, &name);
	gg_merge_loc(k, like);
	return k;
}

static gg_node *cast(gg_node *n, const gg_node *like, gg_value *x, gg_dtype t)
{
	gg_node *k = behind(n, like, "Cast", 1, &x);
	gg_set_attr_dtype(k, "to", t);
	return k;
}

/* clean + sum in the place of the sum; list[*n] gets the nodes that belong to the kernel. */
static bool accumulate(gg_diag *d, gg_node *sum, gg_node *first, gg_node **list, size_t *n)
{
	gg_dtype from = sum->out[0]->dtype, t = from == GG_F16 ? GG_F32 : from;
	gg_value *clean = zeros(d, first, t, &sum->out[0]->shape);
	bool good = clean != 0;
	if (good && from != t) {
		gg_node *k = list[(*n)++] = cast(sum->prev, sum, gg_in(sum, 0), t);
		good = gg_infer_node(d, k);
		gg_set_input(sum, 0, k->out[0]);
		sum->out[0]->dtype = t;
	}
	if (!good)
		return false;
	gg_value *in[] = {clean, sum->out[0]};
	gg_node *add = behind(sum, sum, "Add", 2, in), *last = add;
	list[(*n)++] = sum;
	list[(*n)++] = add;
	good = gg_infer_node(d, add);
	if (good && from != t) {
		last = cast(add, sum, add->out[0], from);
		good = gg_infer_node(d, last);
	}
	gg_replace_value(sum->out[0], last->out[0]);
	gg_set_input(add, 1, sum->out[0]);
	return good;
}

static bool clean(gg_pass_run *p, gg_node *n, const gg_node *sum)
{
	gg_graph *g = n->graph, *b = gg_gk_body(n);
	size_t count = b->nnodes, k = 0;
	gg_node **made = gg_alloc_n(&p->scratch, count + 1, sizeof *made);
	gg_node **list = gg_alloc_n(&p->scratch, count + 4, sizeof *list);
	size_t at = 0;
	for (const gg_node *i = b->first; i != sum; i = i->next)
		at++;
	if (!gg_gk_spread(p->d, n, made))
		return false;
	for (size_t i = 0; i < count; i++)
		if (i != at)
			list[k++] = made[i];
		else if (!accumulate(p->d, made[i], made[0], list, &k))
			return false;
	gg_set_attr_int(gg_gk_make(g, list, k), "atomic", 1);
	return true;
}

/* Needs shapes.
 * Breaks the order of nodes, and mends it. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	if (in_kernel(g) || !makes_kernels(target_of(p)))
		return true;
	for (gg_node *n = g->first, *next; n; n = next) {
		bool several = false;
		next = n->next;
		gg_node *sum = gg_is_gk(n) && !gg_get_int(n, "atomic") ? find_sum(gg_gk_body(n), &several)
		                                                       : 0;
		const char *why = sum ? bars(p, n, sum, several) : 0;
		if (why)
			gg_refused(p, n, why);
		if (!sum || why || !gg_apply(p, n))
			continue;
		if (!clean(p, n, sum))
			return false;
	}
	if (p->applied)
		gg_sweep_consts(g, SIZE_MAX);
	return gg_graph_sort(p->d, g);
}

const gg_pass gg_pass_atomic_clean = {
    .name = "atomic_clean",
    .help = "a long sum is added up by many blocks in a buffer of zeros",
    .explain =
        "GraphKernel(x) { ReduceSum(f(x)) } => GraphKernel(x, Expand(0)) { Expand(0) + ReduceSum(f(x)) } "
        "{atomic=1}\n"
        "for a kernel with one sum among its outputs, which nobody reads inside and which needs no other "
        "sum, if the last\n"
        "axis stays or the sum has 1024 elements or more. f16 is summed in a buffer of f32 and cast "
        "afterwards. A device adds\n"
        "to the last input where it lies; who reads the result comes after the kernel as ever. On "
        "targets that sum\n"
        "a row in one thread all stays.",
    .pipeline = "graph_kernel:60",
    .ops = "GraphKernel",
    .exact = false,
    .run = run,
};
