#include "kernel.h"

/* Ranks: along an edge between two nodes that may share a kernel the rank stays, along any other it
 * rises by one. So nodes of one rank that hang together form a kernel which no path leaves and enters
 * again. Forwards every node gets the least rank; backwards, and again until nothing changes, whole
 * clusters rise to those that read them, where nothing else stands between.
 *
 *       a ── b ── c         ranks 1 1 1 of what may be clustered, MatMul 2 behind it, d 3
 *       └─ MatMul ─ d ── e  an input x of d that only d reads rises from 1 to 3 */
typedef struct work {
	gg_pass_run *p;
	gg_graph *g;
	const gg_target *t;
	size_t n;
	gg_node **node; /* in order; node->mark is its number */
	uint32_t *rank, *up;
	bool *may;
	uint32_t *first, *next; /* of clusters: their nodes as lists, by root */
} work;

enum { NONE = UINT32_MAX, ROUNDS = 8 };

/* ---- which nodes -------------------------------------------------------------------------------- */

static bool is_float(const gg_value *v) { return v && gg_dtype_class(v->dtype) == 'F'; }

/* Shape inference must find in the body what it knows outside. */
static bool shape_inputs_inside(const gg_node *n)
{
	bool shaped = is_reduction(n) || is_view(n) || is_op(n, "Expand");
	for (int i = 1; shaped && i < gg_nargs(n); i++)
		if (gg_in(n, i) && !gg_gk_moves_inside(gg_in(n, i)))
			return false;
	return true;
}

static bool may_cluster(const gg_node *n)
{
	const gg_value *y = gg_out(n, 0);
	bool kind = is_pointwise(n) || is_reduction(n) || is_view(n) || is_op(n, "Expand") || gg_is_gk(n);
	if (!kind || gg_gk_bars(n) || !y || !y->uses || (n->nout > 1 && !gg_is_gk(n)) || y->content)
		return false;
	for (int i = 0; i < n->nin; i++)
		if (!n->in[i].value || n->in[i].value->shape.rank < 0)
			return false;
	return n->nin > 0 && y->shape.rank >= 0 && y->dtype != GG_STRING &&
	       (is_float(y) || is_float(gg_in(n, 0))) && shape_inputs_inside(n);
}

/* What a convolution or product does on the way stays with it. */
static void skip_covered(work *w)
{
	for (size_t i = 0; w->t && i < w->n;) {
		size_t count = (size_t)gg_target_cover(w->t, w->node[i]), k = i;
		bool taken = count > 1 && !is_pointwise(w->node[i]);
		for (; k < i + count && k < w->n; k++)
			w->may[k] &= !taken;
		i = k;
	}
}

/* Another layout than plain is for the values of one shape. */
static bool join(const work *w, const gg_node *a, const gg_node *b)
{
	const gg_value *x = gg_out(a, 0), *y = gg_out(b, 0);
	if (!w->may[a->mark] || !w->may[b->mark] || x->layout != y->layout)
		return false;
	return !x->layout || (is_pointwise(a) && is_pointwise(b) && gg_shape_eq(&x->shape, &y->shape));
}

/* ---- ranks -------------------------------------------------------------------------------------- */

static void list_nodes(work *w)
{
	for (gg_node *n = w->g->first; n; n = n->next) {
		n->mark = w->n;
		w->node[w->n++] = n;
	}
	for (size_t i = 0; i < w->n; i++)
		w->may[i] = may_cluster(w->node[i]);
	skip_covered(w);
}

static gg_node *predecessor(const gg_node *n, int i)
{
	return i < n->nin ? (n->in[i].value ? n->in[i].value->producer : 0) : n->after[i - n->nin];
}

static void rank_forwards(work *w)
{
	for (size_t i = 0; i < w->n; i++)
		for (int k = 0; k < w->node[i]->nin + w->node[i]->nafter; k++) {
			const gg_node *n = w->node[i], *p = predecessor(n, k);
			uint32_t least = p ? w->rank[p->mark] + !join(w, p, n) : 0;
			if (least > w->rank[i])
				w->rank[i] = least;
		}
}

static uint32_t root(work *w, uint32_t i)
{
	while (w->up[i] != i)
		i = w->up[i] = w->up[w->up[i]];
	return i;
}

static void unite(work *w)
{
	for (uint32_t i = 0; i < w->n; i++)
		w->up[i] = i;
	for (uint32_t i = 0; i < w->n; i++)
		for (int k = 0; k < w->node[i]->nin; k++) {
			const gg_node *p = predecessor(w->node[i], k);
			if (p && w->rank[p->mark] == w->rank[i] && join(w, p, w->node[i]))
				w->up[root(w, i)] = root(w, (uint32_t)p->mark);
		}
	for (uint32_t i = 0; i < w->n; i++)
		w->first[i] = NONE;
	for (uint32_t i = (uint32_t)w->n; i-- > 0;) {
		uint32_t r = root(w, i);
		w->next[i] = w->first[r];
		w->first[r] = i;
	}
}

/* How high the cluster may rise, and whether somebody to join is there. */
static uint32_t ceiling(work *w, uint32_t r, bool *joins)
{
	uint32_t top = NONE, least = NONE;
	for (uint32_t i = w->first[r]; i != NONE; i = w->next[i])
		for (int k = 0; k < w->node[i]->nout; k++)
			for (gg_use *u = w->node[i]->out[k] ? w->node[i]->out[k]->uses : 0; u; u = u->next) {
				if (!u->node || root(w, (uint32_t)u->node->mark) == r)
					continue;
				bool both = join(w, w->node[i], u->node);
				uint32_t at = w->rank[u->node->mark];
				top = at - !both < top ? at - !both : top;
				least = both && at < least ? at : least;
			}
	*joins = least != NONE && least == top;
	return top;
}

/* Readers come first, as clusters hang behind each other by rank. */
static bool rise(work *w)
{
	bool changed = false, joins;
	for (uint32_t i = (uint32_t)w->n; i-- > 0;) {
		uint32_t r = root(w, i), top;
		if (!w->may[i] || w->first[r] != i)
			continue;
		top = ceiling(w, r, &joins);
		if (!joins || top <= w->rank[i])
			continue;
		for (uint32_t k = w->first[r]; k != NONE; k = w->next[k])
			w->rank[k] = top;
		changed = true;
	}
	return changed;
}

/* ---- kernels ------------------------------------------------------------------------------------ */

/* Behind the last value that it reads, so that the order of the others stays. */
static void move_up(gg_node *n)
{
	gg_node *last = 0;
	for (int i = 0; i < n->nin; i++) {
		gg_node *p = n->in[i].value ? n->in[i].value->producer : 0;
		if (p && (!last || p->order >= last->order))
			last = p;
	}
	gg_node *at = last ? last->next : n->graph->first;
	n->order = last ? last->order : 0;
	while (at && at != n && gg_is_gk(at) && at->order == n->order) /* one that was put here before */
		at = at->next;
	if (at != n)
		gg_move_before(n, at);
}

static bool takes_layout(const work *w, const gg_node *n)
{
	const gg_row *r = n->out[0]->layout ? gg_target_row(w->t, n) : 0;
	return !n->out[0]->layout || (r && r->layouts >> n->out[0]->layout & 1);
}

static bool make(work *w, uint32_t r, gg_node **list)
{
	size_t count = 0, computing = 0;
	for (uint32_t i = w->first[r]; i != NONE; i = w->next[i]) {
		list[count++] = w->node[i];
		computing += !is_view(w->node[i]);
	}
	if (!w->may[r] || count < 2)
		return true;
	if (computing < 2) {
		gg_refused(w->p, list[0], "only one of its nodes computes");
		return true;
	}
	if (!gg_apply(w->p, list[0]))
		return true;
	gg_node *n = gg_gk_make(w->g, list, count);
	if (!takes_layout(w, n)) {
		w->p->applied--;
		gg_refused(w->p, n, "the target has no kernel for it in this layout");
		return gg_gk_inline(w->p->d, n);
	}
	move_up(n);
	return true;
}

static bool cluster(work *w)
{
	gg_node **list = gg_xcalloc(w->g->nnodes + 1, sizeof *list);
	bool good = true;
	list_nodes(w);
	rank_forwards(w);
	unite(w);
	for (int round = 0; round < ROUNDS && rise(w); round++)
		unite(w);
	gg_graph_number(w->g);
	for (uint32_t i = 0; i < w->n && good; i++)
		if (root(w, i) == i)
			good = make(w, i, list);
	free(list);
	if (w->p->applied && !w->g->nstate) /* copies of them are inside now */
		gg_sweep_consts(w->g);
	return good && gg_graph_sort(w->p->d, w->g);
}

/* Needs shapes.
 * Breaks the order of nodes, and mends it. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	size_t n = g->nnodes + 1;
	work w = {.p = p, .g = g, .t = target_of(p)};
	if (in_kernel(g) || !g->first)
		return true;
	if (!makes_kernels(w.t)) {
		gg_refused(p, g->first, "the target has no kernel for GraphKernel");
		return true;
	}
	w.node = gg_alloc_n(&p->scratch, n, sizeof *w.node);
	w.rank = gg_alloc_n(&p->scratch, n, sizeof *w.rank);
	w.up = gg_alloc_n(&p->scratch, n, sizeof *w.up);
	w.may = gg_alloc_n(&p->scratch, n, sizeof *w.may);
	w.first = gg_alloc_n(&p->scratch, n, sizeof *w.first);
	w.next = gg_alloc_n(&p->scratch, n, sizeof *w.next);
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
