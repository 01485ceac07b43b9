#include "kernel.h"
#include "../../../lib/nest.h"

/* A kernel at its depth: the longest path to it. A path from one node to another makes the second one
 * deeper, so that kernels of one depth do not need each other, and none needs what one of them makes. */
typedef struct candidate {
	gg_node *node;
	uint32_t depth;
	size_t at;           /* in order of the graph */
	double blocks, cost; /* of BLOCK elements; of one of them */
} candidate;

typedef struct work {
	gg_pass_run *p;
	gg_graph *g;
	const gg_target *t;
	candidate *list;
	size_t n;
	gg_map moved;
	const char *why;
} work;

enum { MOST = 7, BLOCK = 1024, BUSY = 32, MAX_NODES = 200 };

/* ---- candidates --------------------------------------------------------------------------------- */

static uint32_t depth_of(const gg_node *n)
{
	uint32_t d = 0;
	for (int i = 0; i < n->nin + n->nafter; i++) {
		const gg_value *v = i < n->nin ? n->in[i].value : 0;
		const gg_node *p = i < n->nin ? (v ? v->producer : 0) : n->after[i - n->nin];
		if (p && p->mark + 1 > d)
			d = (uint32_t)p->mark + 1;
	}
	return d;
}

static double cost_of(const gg_graph *b)
{
	double sum = 0;
	for (const gg_node *n = b->first; n; n = n->next)
		sum += gg_weight(n);
	return sum * BLOCK;
}

/* One nest; a kernel of several was made here before. */
static bool measure(const work *w, gg_node *n, candidate *c)
{
	gg_arena tmp = {0};
	gg_nests nests;
	const char *why;
	const gg_graph *b = gg_gk_body(n);
	bool one = gg_nests_of(b, &tmp, &nests, &why) && nests.n == 1 && !n->nafter && !n->nfollow;
	if (one) {
		const gg_shape *s = &nests.nest[0].full->shape;
		double blocks = gg_elements(gg_shape_count_dim(s, 0, s->rank)) / BLOCK;
		*c = (candidate){n, (uint32_t)n->mark, w->n, blocks < 1 ? 1 : blocks, cost_of(b)};
	}
	gg_arena_fini(&tmp);
	return one;
}

static void find(work *w)
{
	for (gg_node *n = w->g->first; n; n = n->next) {
		n->mark = depth_of(n);
		if (!gg_is_gk(n) || !measure(w, n, &w->list[w->n]))
			continue;
		if (w->list[w->n].blocks > BUSY)
			gg_refused(w->p, n, "it keeps a device busy by itself");
		else
			w->n++;
	}
}

/* By depth, layout of the results, the largest first. */
static int compare(const void *x, const void *y)
{
	const candidate *a = x, *b = y;
	int la = a->node->out[0]->layout, lb = b->node->out[0]->layout;
	double wa = a->blocks * a->cost, wb = b->blocks * b->cost;
	if (a->depth != b->depth)
		return a->depth < b->depth ? -1 : 1;
	if (la != lb)
		return la - lb;
	if (wa != wb)
		return wa > wb ? -1 : 1;
	return a->at < b->at ? -1 : 1;
}

/* ---- benefit ------------------------------------------------------------------------------------ */

static double rounds(double blocks) { return blocks <= BUSY ? 1 : blocks / BUSY; }

/* One after another, less all at once, where the costliest block sets the time of a round. */
static double benefit(const candidate *c, size_t n)
{
	double apart = 0, blocks = 0, most = 0;
	for (size_t i = 0; i < n; i++) {
		apart += GG_LAUNCH + rounds(c[i].blocks) * c[i].cost;
		blocks += c[i].blocks;
		most = c[i].cost > most ? c[i].cost : most;
	}
	return apart - (GG_LAUNCH + rounds(blocks) * most);
}

static size_t prefix(const candidate *c, size_t n)
{
	size_t best = 0, nodes = 0;
	for (size_t i = 0; i < n && i < MOST; i++) {
		nodes += gg_gk_body(c[i].node)->nnodes;
		if (nodes > MAX_NODES)
			break;
		if (i && benefit(c, i + 1) > 0)
			best = i + 1;
	}
	return best;
}

/* ---- fusing ------------------------------------------------------------------------------------- */

static bool fits(void *ctx, const gg_node *kernel)
{
	work *w = ctx;
	return gg_target_takes(w->t, kernel, &w->why);
}

/* Members in the order of the graph: how many of them became one, at least 1. */
static size_t fuse(work *w, const candidate *c, size_t n)
{
	gg_node *list[MOST];
	size_t count = prefix(c, n), k = 0;
	if (count < 2) {
		if (n > 1)
			gg_refused(w->p, c->node, "beside another of its depth it would take longer");
		return 1;
	}
	for (size_t i = 0; i < count; i++) {
		for (k = i; k > 0 && list[k - 1]->order > c[i].node->order; k--)
			list[k] = list[k - 1];
		list[k] = c[i].node;
	}
	if (!gg_apply(w->p, list[0]))
		return n;
	gg_node *made = gg_gk_make_if(w->g, list, count, fits, w);
	if (made) {
		gg_move_up(&w->moved, made);
		return count;
	}
	gg_take_back(w->p, list[0],
	             kernel_refusal(w->p, "the target has no kernel for it and others", w->why));
	return 1;
}

/* Needs shapes.
 * Breaks the order of nodes, and mends it. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	work w = {.p = p, .g = g, .t = target_of(p)};
	if (in_kernel(g) || !makes_kernels(w.t))
		return true;
	w.list = gg_alloc_n(&p->scratch, g->nnodes + 1, sizeof *w.list);
	find(&w);
	qsort(w.list, w.n, sizeof *w.list, compare);
	gg_graph_number(g);
	for (size_t i = 0, to; i < w.n; i = to) {
		int layout = w.list[i].node->out[0]->layout;
		for (to = i + 1; to < w.n && w.list[to].depth == w.list[i].depth &&
		                 w.list[to].node->out[0]->layout == layout;)
			to++;
		while (i < to)
			i += fuse(&w, &w.list[i], to - i);
	}
	gg_map_fini(&w.moved);
	return gg_graph_sort(p->d, g);
}

const gg_pass gg_pass_parallel_fusion = {
    .name = "parallel_fusion",
    .help = "small kernels that do not need each other become one",
    .explain =
        "Kernels of one depth (the longest path to them) do not need each other. The largest first, up "
        "to seven and 200 nodes,\n"
        "the longest prefix with a benefit becomes one GraphKernel, whose body is their bodies side by "
        "side:\n"
        "  benefit = sum(4096 + rounds(blocks) * cost) - (4096 + rounds(sum(blocks)) * max(cost))\n"
        "with blocks of 1024 elements, rounds of 32 blocks and costs in additions. A kernel of more "
        "than 32 blocks is busy\n"
        "by itself; so few elements cost little memory while they wait. After selection the target must "
        "have a kernel for it,\n"
        "and layouts must be the same.",
    .pipeline = "graph_kernel:70",
    .ops = "GraphKernel",
    .exact = true,
    .run = run,
};
