#include "kernel.h"
#include "../../../lib/nest.h"

/* What a node walks, as in split.c: `full` elements, and rows of `row` where it reduces. */
typedef struct walk {
	uint32_t up, count; /* count: nodes of the bodies, at the root */
	gg_dim full, row;   /* row 0: there are no reductions */
	bool apart;
	uint8_t *role; /* of its outputs: gg_role */
} walk;

typedef struct work {
	gg_pass_run *p;
	gg_graph *g;
	const gg_target *t;
	bool *may;
	walk *walk; /* by number of a node */
	gg_groups groups;
	gg_map moved;
	const char *why;
	bool parted;  /* two that walk the same elements did not come together */
	gg_map *told; /* the nodes that were refused: once, in however many rounds */
} work;

enum { MAX_NODES = 200, MAX_ROW = 12288 };

/* ---- what nodes walk ---------------------------------------------------------------------------- */

static gg_dim last_dims(const gg_shape *s, int n) { return gg_shape_count_dim(s, s->rank - n, s->rank); }

static bool look_inside(walk *a, const gg_node *n, gg_arena *tmp)
{
	const gg_graph *b = gg_gk_body(n);
	const char *why;
	gg_nests nests;
	if (!gg_nests_of(b, tmp, &nests, &why) || nests.n != 1)
		return false;
	const gg_shape *s = &nests.nest[0].full->shape;
	a->count = (uint32_t)b->nnodes;
	a->full = last_dims(s, s->rank);
	a->row = nests.nest[0].row ? last_dims(s, nests.nest[0].row) : 0;
	for (int i = 0; i < n->nout; i++)
		a->role[i] = nests.role[b->out[i]->value->mark];
	return true;
}

static bool is_narrow(const work *w, const gg_value *v)
{
	return w->walk[v->producer->mark].role[v->index] == GG_NARROW_VALUE;
}

/* What a view shows, when that is narrow. */
static const walk *shown(const work *w, const gg_node *n)
{
	const gg_value *v = is_view(n) ? gg_in(n, 0) : 0;
	bool narrow = v && v->producer && !w->walk[v->producer->mark].apart && is_narrow(w, v);
	return narrow ? &w->walk[v->producer->mark] : 0;
}

static void look_at(work *w, const gg_node *n)
{
	walk *a = &w->walk[n->mark];
	gg_arena tmp = {0};
	*a = (walk){.up = (uint32_t)n->mark, .count = 1, .apart = !w->may[n->mark] || !gg_on_target(w->t, n)};
	if (a->apart)
		return;
	a->role = gg_alloc_n(&w->p->scratch, (size_t)n->nout + 1, 1);
	const gg_shape *s = is_reduction(n) ? &gg_in(n, 0)->shape : &n->out[0]->shape;
	int row = is_reduction(n) ? gg_row_axes(n) : 0;
	a->full = last_dims(s, s->rank);
	a->row = row > 0 ? last_dims(s, row) : 0;
	a->role[0] = is_reduction(n) ? GG_NARROW_VALUE : GG_WIDE_VALUE;
	const walk *of = shown(w, n);
	if (of) {
		a->full = of->full;
		a->row = of->row;
		a->role[0] = GG_NARROW_VALUE;
	}
	a->apart = row < 0 || n->out[0]->layout || (gg_is_gk(n) && !look_inside(a, n, &tmp));
	gg_arena_fini(&tmp);
}

/* ---- which hang together ------------------------------------------------------------------------ */

static uint32_t root(const work *w, uint32_t i)
{
	walk *a = w->walk;
	while (a[i].up != i)
		i = a[i].up = a[a[i].up].up;
	return i;
}

static void refuse(work *w, const gg_node *n, const char *why)
{
	uint64_t key = (uint64_t)(uintptr_t)n;
	if (gg_map_get(w->told, key))
		return;
	gg_map_put(w->told, key, (void *)(uintptr_t)n);
	gg_refused(w->p, n, why);
}

/* False: they walk the same elements, but cannot be one kernel. Only a reduction gives rows; a small value
 * of its size is no reason to stitch. */
static bool unite(work *w, const gg_value *v, const gg_node *n)
{
	uint32_t from = root(w, (uint32_t)v->producer->mark), to = root(w, (uint32_t)n->mark);
	walk *a = &w->walk[from], *b = &w->walk[to];
	bool narrow = is_narrow(w, v);
	if (from == to || a->full != b->full)
		return true;
	gg_dim row = a->row ? a->row : b->row;
	if (a->row && b->row && a->row != b->row) {
		if (narrow)
			refuse(w, n, "it folds other rows than what it reads");
		return false;
	}
	if (gg_dim_known(row) && row > MAX_ROW) {
		if (narrow)
			refuse(w, n, "the row that it reads the reduction of has more than 12288 elements");
		return false;
	}
	if (a->count + b->count > MAX_NODES)
		return false;
	b->up = from;
	a->count += b->count;
	a->row = row;
	return true;
}

static bool joins(void *ctx, const gg_node *p, const gg_node *n)
{
	const work *w = ctx;
	const walk *a = &w->walk[p->mark], *b = &w->walk[n->mark];
	return !a->apart && !b->apart && a->full == b->full &&
	       root(w, (uint32_t)p->mark) == root(w, (uint32_t)n->mark);
}

static void join_all(work *w, bool narrow)
{
	for (size_t k = 0; k < w->groups.n; k++) {
		const gg_node *n = w->groups.node[k];
		for (int i = 0; i < n->nin && !w->walk[k].apart; i++) {
			const gg_value *v = n->in[i].value;
			if (v && v->producer && !w->walk[v->producer->mark].apart &&
			    is_narrow(w, v) == narrow && !unite(w, v, n))
				w->parted = true;
		}
	}
}

/* ---- kernels ------------------------------------------------------------------------------------ */

/* A member reads what another one reduces: else they would be one kernel already. */
static bool stitches(work *w, gg_node *const *list, size_t n)
{
	for (size_t k = 0; k < n; k++)
		for (int i = 0; i < list[k]->nin; i++) {
			const gg_value *v = list[k]->in[i].value;
			const gg_node *p = v ? v->producer : 0;
			if (p && !w->walk[p->mark].apart && is_narrow(w, v) &&
			    gg_groups_root(&w->groups, (uint32_t)p->mark) ==
			        gg_groups_root(&w->groups, (uint32_t)list[k]->mark))
				return true;
		}
	return false;
}

static bool fits(void *ctx, const gg_node *kernel)
{
	work *w = ctx;
	gg_arena tmp = {0};
	gg_nests nests;
	bool good = gg_nests_of(gg_gk_body(kernel), &tmp, &nests, &w->why);
	gg_arena_fini(&tmp);
	return good && gg_target_takes(w->t, kernel, &w->why);
}

static void make(work *w, uint32_t r, gg_node **list)
{
	size_t n = 0;
	for (uint32_t i = w->groups.first[r]; i != GG_NO_NODE; i = w->groups.next[i])
		list[n++] = w->groups.node[i];
	if (n < 2 || !stitches(w, list, n) || !gg_apply(w->p, list[0]))
		return;
	gg_node *kernel = gg_gk_make_if(w->g, list, n, fits, w);
	if (kernel) {
		gg_move_up(&w->moved, kernel);
		return;
	}
	gg_take_back(w->p, list[0], kernel_refusal(w->p, "it would not be one kernel", w->why));
}

static bool stitch(work *w)
{
	gg_node **list = gg_xcalloc(w->groups.n + 1, sizeof *list);
	for (size_t i = 0; i < w->groups.n; i++)
		look_at(w, w->groups.node[i]);
	join_all(w, true); /* first those for which this is done: what is beside them may fold other rows */
	join_all(w, false);
	gg_groups_find(&w->groups);
	gg_graph_number(w->g);
	for (uint32_t i = 0; i < w->groups.n; i++)
		if (gg_groups_root(&w->groups, i) == i)
			make(w, i, list);
	free(list);
	gg_map_fini(&w->moved);
	if (w->p->applied)
		gg_sweep_consts(w->g, SIZE_MAX);
	return gg_graph_sort(w->p->d, w->g);
}

static bool stitch_once(gg_pass_run *p, gg_graph *g, bool *parted, gg_map *told)
{
	work w = {.p = p, .g = g, .t = target_of(p), .told = told};
	gg_groups_list(&w.groups, &p->scratch, g);
	w.groups.join = joins;
	w.groups.ctx = &w;
	w.may = gg_alloc_n(&p->scratch, w.groups.n + 1, sizeof *w.may);
	w.walk = gg_alloc_n(&p->scratch, w.groups.n + 1, sizeof *w.walk);
	gg_fusable(w.t, &w.groups, w.may);
	bool good = stitch(&w);
	*parted = w.parted;
	return good;
}

/* Needs shapes.
 * Breaks the order of nodes, and mends it. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	bool parted = true, good = true;
	size_t before = p->applied + 1;
	gg_map told = {0};
	if (in_kernel(g) || !g->first || !makes_kernels(target_of(p)))
		return true;
	/* Where one that stood apart became part of a kernel, its neighbours may go together. */
	while (good && parted && p->applied != before) {
		before = p->applied;
		good = stitch_once(p, g, &parted, &told);
	}
	gg_map_fini(&told);
	return good;
}

const gg_pass gg_pass_stitch = {
    .name = "stitch",
    .help = "reductions and what reads them beside the rows that they folded become one kernel",
    .explain =
        "Kernels, reductions of the last axes and pointwise nodes that walk the same elements, in rows of "
        "the same length,\n"
        "become one kernel where one of them reads what another reduces: a row is computed while it lies "
        "in cache. Softmax\n"
        "is one kernel then. Rows have at most 12288 elements (a symbol may stand for fewer or more), a "
        "kernel 200 nodes, and\n"
        "no path may leave it and come back. After selection the target must have a kernel for it; else "
        "all stays.",
    .pipeline = "graph_kernel:50",
    .exact = true,
    .run = run,
};
