#include "kernel.h"

typedef struct work {
	gg_pass_run *p;
	gg_graph *g;
	const gg_target *t;
	bool *may; /* by number */
	gg_groups groups;
	gg_map moved;
} work;

/* Another layout than plain is for the values of one shape. */
static bool join(void *ctx, const gg_node *a, const gg_node *b)
{
	const work *w = ctx;
	const gg_value *x = gg_out(a, 0), *y = gg_out(b, 0);
	if (!w->may[a->mark] || !w->may[b->mark] || x->layout != y->layout)
		return false;
	return !x->layout || (is_pointwise(a) && is_pointwise(b) && gg_shape_eq(&x->shape, &y->shape));
}

static bool takes_layout(void *ctx, const gg_node *n)
{
	const work *w = ctx;
	const gg_row *r = n->out[0]->layout ? gg_target_row(w->t, n) : 0;
	return !n->out[0]->layout || (r && r->layouts >> n->out[0]->layout & 1);
}

static bool make(work *w, uint32_t r, gg_node **list)
{
	size_t count = 0, computing = 0;
	for (uint32_t i = w->groups.first[r]; i != GG_NO_NODE; i = w->groups.next[i]) {
		list[count++] = w->groups.node[i];
		computing += !is_view(w->groups.node[i]);
	}
	if (!w->may[r] || count < 2)
		return true;
	if (computing < 2) {
		gg_refused(w->p, list[0], "only one of its nodes computes");
		return true;
	}
	if (!gg_apply(w->p, list[0]))
		return true;
	gg_node *n = gg_gk_make_if(w->g, list, count, takes_layout, w);
	if (n) {
		gg_move_up(&w->moved, n);
		return true;
	}
	gg_take_back(w->p, list[0], "the target has no kernel for it in this layout");
	return true;
}

static bool cluster(work *w)
{
	gg_node **list = gg_xcalloc(w->g->nnodes + 1, sizeof *list);
	bool good = true;
	gg_groups_find(&w->groups);
	gg_graph_number(w->g);
	for (uint32_t i = 0; i < w->groups.n && good; i++)
		if (gg_groups_root(&w->groups, i) == i)
			good = make(w, i, list);
	free(list);
	gg_map_fini(&w->moved);
	if (w->p->applied) /* copies of them are inside now */
		gg_sweep_consts(w->g, SIZE_MAX);
	return good && gg_graph_sort(w->p->d, w->g);
}

/* Needs shapes.
 * Breaks the order of nodes, and mends it. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	work w = {.p = p, .g = g, .t = target_of(p)};
	if (in_kernel(g) || !g->first)
		return true;
	if (!makes_kernels(w.t)) {
		gg_refused(p, g->first, "the target has no kernel for GraphKernel");
		return true;
	}
	gg_groups_list(&w.groups, &p->scratch, g);
	w.groups.join = join;
	w.groups.ctx = &w;
	w.may = gg_alloc_n(&p->scratch, g->nnodes + 1, sizeof *w.may);
	gg_fusable(w.t, &w.groups, w.may);
	return cluster(&w);
}

const gg_pass gg_pass_cluster = {
    .name = "cluster",
    .help = "neighbours that compute element by element, reduce or reshape become a GraphKernel",
    .explain =
        "Pointwise ops, reductions over constant axes, views (Reshape, Squeeze, Unsqueeze, Flatten, "
        "Identity), Expand\n"
        "and GraphKernels on floats that hang together become one node, as many as can be without a "
        "cycle: no path\n"
        "leaves a kernel and enters it again. At least two of them must compute. Integers alone "
        "(shapes) stay, and so\n"
        "does what has control edges or hangs on shapes that are not constant. After selection, what a "
        "convolution or\n"
        "product does on its way stays with it, only values of one layout are joined, and a device "
        "must have a kernel\n"
        "for GraphKernel.",
    .pipeline = "graph_kernel:20",
    .exact = true,
    .run = run,
};
