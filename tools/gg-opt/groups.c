#include "groups.h"
#include <string.h>

enum { ROUNDS = 8 };

/* Ranks: along an edge between two nodes that may share a kernel the rank stays, along any other it
 * rises by one. So nodes of one rank that hang together form a kernel which no path leaves and enters
 * again. Forwards every node gets the least rank; backwards, and again until nothing changes, whole
 * clusters rise to those that read them, where nothing else stands between.
 *
 *       a ── b ── c         ranks 1 1 1 of what may be clustered, MatMul 2 behind it, d 3
 *       └─ MatMul ─ d ── e  an input x of d that only d reads rises from 1 to 3 */

void gg_groups_list(gg_groups *w, gg_arena *a, gg_graph *g)
{
	size_t n = g->nnodes + 1;
	*w = (gg_groups){0};
	w->node = gg_alloc_n(a, n, sizeof *w->node);
	w->rank = gg_alloc_n(a, n, sizeof *w->rank);
	w->up = gg_alloc_n(a, n, sizeof *w->up);
	w->first = gg_alloc_n(a, n, sizeof *w->first);
	w->next = gg_alloc_n(a, n, sizeof *w->next);
	for (gg_node *k = g->first; k; k = k->next) {
		k->mark = w->n;
		w->node[w->n++] = k;
	}
}

static gg_node *predecessor(const gg_node *n, int i)
{
	return i < n->nin ? (n->in[i].value ? n->in[i].value->producer : 0) : n->after[i - n->nin];
}

static void rank_forwards(gg_groups *w)
{
	for (size_t i = 0; i < w->n; i++)
		for (int k = 0; k < w->node[i]->nin + w->node[i]->nafter; k++) {
			const gg_node *n = w->node[i], *p = predecessor(n, k);
			uint32_t least = p ? w->rank[p->mark] + !w->join(w->ctx, p, n) : 0;
			if (least > w->rank[i])
				w->rank[i] = least;
		}
}

uint32_t gg_groups_root(gg_groups *w, uint32_t i)
{
	while (w->up[i] != i)
		i = w->up[i] = w->up[w->up[i]];
	return i;
}

static void unite(gg_groups *w)
{
	for (uint32_t i = 0; i < w->n; i++)
		w->up[i] = i;
	for (uint32_t i = 0; i < w->n; i++)
		for (int k = 0; k < w->node[i]->nin; k++) {
			const gg_node *p = predecessor(w->node[i], k);
			if (p && w->rank[p->mark] == w->rank[i] && w->join(w->ctx, p, w->node[i]))
				w->up[gg_groups_root(w, i)] = gg_groups_root(w, (uint32_t)p->mark);
		}
	for (uint32_t i = 0; i < w->n; i++)
		w->first[i] = GG_NO_NODE;
	for (uint32_t i = (uint32_t)w->n; i-- > 0;) {
		uint32_t r = gg_groups_root(w, i);
		w->next[i] = w->first[r];
		w->first[r] = i;
	}
}

/* How high the cluster may rise, and whether somebody to join is there. */
static uint32_t ceiling(gg_groups *w, uint32_t r, bool *joins)
{
	uint32_t top = GG_NO_NODE, least = GG_NO_NODE;
	for (uint32_t i = w->first[r]; i != GG_NO_NODE; i = w->next[i])
		for (int k = 0; k < w->node[i]->nout; k++)
			for (gg_use *u = w->node[i]->out[k] ? w->node[i]->out[k]->uses : 0; u; u = u->next) {
				if (!u->node || gg_groups_root(w, (uint32_t)u->node->mark) == r)
					continue;
				bool both = w->join(w->ctx, w->node[i], u->node);
				uint32_t at = w->rank[u->node->mark];
				top = at - !both < top ? at - !both : top;
				least = both && at < least ? at : least;
			}
	*joins = least != GG_NO_NODE && least == top;
	return top;
}

/* Readers come first, as clusters hang behind each other by rank. */
static bool rise(gg_groups *w)
{
	bool changed = false, joins;
	for (uint32_t i = (uint32_t)w->n; i-- > 0;) {
		uint32_t r = gg_groups_root(w, i), top;
		if (w->first[r] != i)
			continue;
		top = ceiling(w, r, &joins);
		if (!joins || top <= w->rank[i])
			continue;
		for (uint32_t k = w->first[r]; k != GG_NO_NODE; k = w->next[k])
			w->rank[k] = top;
		changed = true;
	}
	return changed;
}

void gg_groups_find(gg_groups *w)
{
	rank_forwards(w);
	unite(w);
	for (int round = 0; round < ROUNDS && rise(w); round++)
		unite(w);
}

void gg_move_up(gg_map *moved, gg_node *n)
{
	gg_node *last = 0;
	for (int i = 0; i < n->nin; i++) {
		gg_node *p = n->in[i].value ? n->in[i].value->producer : 0;
		if (p && (!last || p->order >= last->order))
			last = p;
	}
	uint32_t order = last ? last->order : 0;
	gg_node *before = gg_map_get(moved, order);
	gg_node *at = before ? before->next : last ? last->next : n->graph->first;
	n->order = order;
	if (at != n)
		gg_move_before(n, at);
	gg_map_put(moved, order, n);
}
