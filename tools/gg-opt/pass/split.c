#include "kernel.h"
#include "../../../lib/nest.h"

/* Areas: the nodes of a body that one walk over `full` elements computes. Wide nodes have that many
 * results; with reductions of its last axes, narrow ones have a result for each row. Nodes join areas in
 * order, through the edges that may stay inside (`joins`); what is left of an area when no path may leave
 * it and come back (groups.h) is a kernel. */
typedef struct area {
	uint32_t up, count;
	gg_dim full, row; /* row: elements that a reduction folds; 0: there is none */
	bool narrow;      /* the node */
	bool apart;       /* the node stays alone */
	uint32_t chain;   /* the node and all before it in the body, when only it reads them; 0: others too */
	double work;      /* of the chain, by element */
} area;

typedef struct work {
	gg_pass_run *p;
	const gg_target *t;
	gg_groups groups;
	area *area; /* by number of a node */
	const char *why;
} work;

enum { MAX_AREA = 200, LONG_ROW = 12288 };

/* ---- costs -------------------------------------------------------------------------------------- */

static gg_dim count(const gg_value *v) { return gg_shape_count_dim(&v->shape, 0, v->shape.rank); }

/* Computing what p makes again for each result of n, or writing and reading it once. */
static bool cheap(const work *w, const gg_node *p, const gg_node *n)
{
	double small = gg_elements(count(p->out[0])), large = gg_elements(count(n->out[0]));
	return w->area[p->mark].work * (large - small) <= GG_LAUNCH + 2 * small;
}

/* ---- areas -------------------------------------------------------------------------------------- */

static uint32_t root(const work *w, uint32_t i)
{
	area *a = w->area;
	while (a[i].up != i)
		i = a[i].up = a[a[i].up].up;
	return i;
}

static gg_node *producer(const gg_node *n, int i) { return n->in[i].value ? n->in[i].value->producer : 0; }

static bool unite(work *w, uint32_t into, uint32_t from)
{
	area *a = &w->area[into], *b = &w->area[from];
	if (into == from)
		return true;
	if (a->count + b->count > MAX_AREA || a->apart || b->apart)
		return false;
	b->up = into;
	a->count += b->count;
	return true;
}

/* Both walk the same elements and fold the same rows. */
static bool meet(work *w, uint32_t a, uint32_t b)
{
	area *x = &w->area[a], *y = &w->area[b];
	bool agree = x->full == y->full && (!x->row || !y->row || x->row == y->row);
	gg_dim row = x->row ? x->row : y->row;
	if (a == b)
		return true;
	if (!agree || !unite(w, a, b))
		return false;
	x->row = row;
	return true;
}

static bool is_long(const area *a) { return a->row == a->full && gg_elements(a->row) > LONG_ROW; }

/* p, all that it needs from the body, and nothing else is computed again where n needs it. */
static bool chained(const work *w, const gg_node *p)
{
	const area *a = &w->area[p->mark];
	return a->chain && a->chain == w->area[root(w, (uint32_t)p->mark)].count;
}

static bool join_small(work *w, const gg_node *p, const gg_node *n)
{
	if (!chained(w, p))
		return false;
	if (!cheap(w, p, n))
		return false;
	if (!is_view(p) && count(p->out[0]) != count(n->out[0]))
		gg_refused(w->p, p, "computing it again costs less than a kernel of its own");
	return unite(w, root(w, (uint32_t)n->mark), root(w, (uint32_t)p->mark));
}

static void join_input(work *w, const gg_node *p, const gg_node *n)
{
	uint32_t a = root(w, (uint32_t)p->mark), b = root(w, (uint32_t)n->mark);
	bool pn = w->area[p->mark].narrow, nn = w->area[n->mark].narrow;
	if (is_reduction(n) ? !pn : pn == nn && count(p->out[0]) == count(n->out[0])) {
		if (meet(w, b, a))
			return;
	}
	if (!pn && !is_reduction(n))
		join_small(w, p, n);
}

/* The first producer of n whose narrow results n goes on with. */
static const gg_node *narrow_source(const work *w, const gg_node *n)
{
	for (int i = 0; i < n->nin && !is_reduction(n); i++) {
		const gg_node *p = producer(n, i);
		const area *a = p ? &w->area[p->mark] : 0;
		if (a && a->narrow && !w->area[root(w, (uint32_t)p->mark)].apart &&
		    !is_long(&w->area[root(w, (uint32_t)p->mark)]) && count(p->out[0]) == count(n->out[0]))
			return p;
	}
	return 0;
}

static bool one_reader(const gg_value *v)
{
	for (const gg_use *u = v->uses; u; u = u->next)
		if (!u->node || u->node != v->uses->node)
			return false;
	return v->uses;
}

static void measure_chain(work *w, const gg_node *n)
{
	area *a = &w->area[n->mark];
	a->work = gg_weight(n);
	a->chain = one_reader(n->out[0]) && !a->narrow && !is_reduction(n);
	for (int i = 0; i < n->nin && a->chain; i++) {
		const gg_node *p = producer(n, i);
		bool again = false;
		for (int k = 0; k < i; k++)
			again |= p && producer(n, k) == p;
		if (!p || again)
			continue;
		a->work += w->area[p->mark].work;
		a->chain = w->area[p->mark].chain ? a->chain + w->area[p->mark].chain : 0;
	}
	if (is_view(n) && !gg_is_given(n->out[0])) /* a view of what is repeated */
		a->chain = 0;
}

static void place(work *w, const gg_node *n)
{
	area *a = &w->area[n->mark];
	int row = is_reduction(n) ? gg_row_axes(n) : 0;
	const gg_shape *s = is_reduction(n) ? &gg_in(n, 0)->shape : &n->out[0]->shape;
	*a = (area){.up = (uint32_t)n->mark, .count = 1, .full = gg_shape_count_dim(s, 0, s->rank)};
	a->apart = row < 0 || gg_is_gk(n) || !gg_on_target(w->t, n);
	a->row = row > 0 ? gg_shape_count_dim(s, s->rank - row, s->rank) : 0;
	a->narrow = is_reduction(n);
	const gg_node *p = narrow_source(w, n);
	if (p) {
		a->narrow = true;
		a->full = w->area[root(w, (uint32_t)p->mark)].full;
		a->row = w->area[root(w, (uint32_t)p->mark)].row;
	}
	for (int i = 0; i < n->nin; i++)
		if ((p = producer(n, i)))
			join_input(w, p, n);
	measure_chain(w, n);
}

static bool joins(void *ctx, const gg_node *p, const gg_node *n)
{
	const work *w = ctx;
	bool pn = w->area[p->mark].narrow, nn = w->area[n->mark].narrow;
	return root(w, (uint32_t)p->mark) == root(w, (uint32_t)n->mark) && (!pn || (nn && !is_reduction(n)));
}

/* ---- kernels ------------------------------------------------------------------------------------ */

/* Numbers of the nodes that stand in a kernel; the others stay plain. A view that nobody in its kernel
 * reads need not be computed there. */
static bool *choose(work *w, size_t *kept)
{
	bool *in = gg_alloc_n(&w->p->scratch, w->groups.n + 1, sizeof *in);
	for (uint32_t i = (uint32_t)w->groups.n; i-- > 0;) {
		const gg_value *v = w->groups.node[i]->out[0];
		in[i] = !is_view(w->groups.node[i]);
		for (const gg_use *u = v->uses; u && !in[i]; u = u->next)
			in[i] = u->node && in[u->node->mark] &&
			        gg_groups_root(&w->groups, (uint32_t)u->node->mark) ==
			            gg_groups_root(&w->groups, i);
		*kept += in[i];
	}
	return in;
}

static bool fits(void *ctx, const gg_node *kernel)
{
	work *w = ctx;
	return gg_target_takes(w->t, kernel, &w->why);
}

static void make(work *w, uint32_t r, const bool *in, gg_node *const *made, gg_node **list)
{
	size_t n = 0, computing = 0;
	for (uint32_t i = w->groups.first[r]; i != GG_NO_NODE; i = w->groups.next[i])
		if (in[i]) {
			list[n++] = made[i];
			computing += !is_view(made[i]);
		}
	if (computing < 2)
		return;
	if (!gg_gk_make_if(list[0]->graph, list, n, fits, w))
		gg_refused(w->p, list[0], kernel_refusal(w->p, "the target has no kernel for it", w->why));
}

static bool plain(const gg_graph *b)
{
	for (const gg_node *n = b->first; n; n = n->next) {
		if (n->nout != 1 || !n->out[0] || n->out[0]->shape.rank < 0 || !gg_in(n, 0))
			return false;
		for (int i = 0; i < n->nin; i++)
			if (n->in[i].value && n->in[i].value->shape.rank < 0)
				return false;
	}
	return true;
}

static bool split(work *w, gg_node *n)
{
	gg_graph *b = gg_gk_body(n);
	size_t kept = 0;
	gg_groups_list(&w->groups, &w->p->scratch, b);
	w->groups.join = joins;
	w->groups.ctx = w;
	w->area = gg_alloc_n(&w->p->scratch, w->groups.n + 1, sizeof *w->area);
	for (size_t i = 0; i < w->groups.n; i++)
		place(w, w->groups.node[i]);
	gg_groups_find(&w->groups);
	bool *in = choose(w, &kept), whole = kept == w->groups.n;
	for (uint32_t i = 1; i < w->groups.n; i++)
		whole &= gg_groups_root(&w->groups, i) == gg_groups_root(&w->groups, 0);
	if ((whole && gg_target_takes(w->t, n, &w->why)) || !gg_apply(w->p, n))
		return true;
	gg_node **made = gg_alloc_n(&w->p->scratch, w->groups.n + 1, sizeof *made);
	gg_node **list = gg_alloc_n(&w->p->scratch, w->groups.n + 1, sizeof *list);
	bool good = gg_gk_spread(w->p->d, n, made);
	for (uint32_t i = 0; i < w->groups.n && good; i++)
		if (gg_groups_root(&w->groups, i) == i)
			make(w, i, in, made, list);
	return good;
}

/* Needs shapes.
 * Breaks the order of nodes, and mends it. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	work w = {.p = p, .t = target_of(p)};
	if (in_kernel(g))
		return true;
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		if (!gg_is_gk(n))
			continue;
		if (!plain(gg_gk_body(n)))
			gg_refused(p, n, "a node in it has several outputs, or no known rank");
		else if (!split(&w, n))
			return false;
	}
	if (p->applied)
		gg_sweep_consts(g, SIZE_MAX);
	return gg_graph_sort(p->d, g);
}

const gg_pass gg_pass_split = {
    .name = "split",
    .help = "a kernel that one walk over its data cannot compute becomes several",
    .explain =
        "A kernel walks one number of elements: wide values have as many; reductions of the last axes, the "
        "same for all\n"
        "of them, give narrow values, one for each row, and what is computed from those alone stays with "
        "them. What reads\n"
        "a narrow value beside wide ones is cut off (stitch joins it again where a row is short), and so are "
        "reductions of\n"
        "other axes or of other rows, reductions of reductions, values of other sizes, and what reads a sum "
        "of all of more\n"
        "than 12288 elements. A kernel has at most 200 nodes. A small value that is repeated is computed "
        "again at each\n"
        "place if weight * (elements there - its elements) <= 4096 + 2 * its elements: what a kernel of its "
        "own would cost,\n"
        "in additions; an exponential weighs 16, a symbol counts as 64. A view at the end is no part of a "
        "kernel. After\n"
        "selection what the target has no kernel for is plain nodes again.",
    .pipeline = "graph_kernel:40",
    .ops = "GraphKernel",
    .exact = true,
    .run = run,
};
