/* Dinic's algorithm without recursion: levels by breadth, then paths along rising levels. */
#include "cut.h"
#include "mem.h"
#include <stdlib.h>
#include <string.h>

int gg_cut_node(gg_cut *c) { return (int)c->nnode++; }

void gg_cut_init(gg_cut *c)
{
	*c = (gg_cut){0};
	gg_cut_node(c);
	gg_cut_node(c);
}

void gg_cut_arc(gg_cut *c, int from, int to, int64_t cost)
{
	int n = (int)c->narc;
	GG_PUSH(c->arc, c->narc, c->cap_arc, ((struct gg_arc){to, n + 1, cost}));
	GG_PUSH(c->arc, c->narc, c->cap_arc, ((struct gg_arc){from, n, 0}));
}

/* Puts the arcs of one node side by side, the nodes in their order: memory is then read forward. */
static void pack(gg_cut *c)
{
	struct gg_arc *arc = gg_xcalloc(c->narc + 1, sizeof *arc);
	int *place = gg_xcalloc(c->narc + 1, sizeof *place);
	c->first = gg_xcalloc(c->nnode + 1, sizeof *c->first);
	c->at = gg_xcalloc(c->nnode, sizeof *c->at);
	for (size_t i = 0; i < c->narc; i++)
		c->first[c->arc[c->arc[i].back].to + 1]++;
	for (size_t i = 0; i < c->nnode; i++) {
		c->first[i + 1] += c->first[i];
		c->at[i] = c->first[i];
	}
	for (size_t i = 0; i < c->narc; i++)
		place[i] = c->at[c->arc[c->arc[i].back].to]++;
	for (size_t i = 0; i < c->narc; i++)
		arc[place[i]] = (struct gg_arc){c->arc[i].to, place[c->arc[i].back], c->arc[i].left};
	free(place);
	free(c->arc);
	c->arc = arc;
}

/* Levels from a node along arcs with capacity left, or against them; as far as `to`, where that is met. */
static void spread(gg_cut *c, int from, int to, bool against)
{
	size_t done = 0, n = 0;
	memset(c->level, 0xff, c->nnode * sizeof *c->level); /* -1 */
	c->level[from] = 0;
	c->way[n++] = from;
	while (done < n) {
		int x = c->way[done++];
		for (int a = c->first[x]; a < c->first[x + 1]; a++) {
			int y = c->arc[a].to;
			if (c->level[y] >= 0 || c->arc[against ? c->arc[a].back : a].left == 0)
				continue;
			c->level[y] = c->level[x] + 1;
			if (y == to)
				return;
			c->way[n++] = y;
		}
	}
}

/* The arc that leads on from x, or -1. */
static int forward(gg_cut *c, int x)
{
	for (; c->at[x] < c->first[x + 1]; c->at[x]++) {
		const struct gg_arc *a = &c->arc[c->at[x]];
		if (a->left > 0 && c->level[a->to] == c->level[x] + 1)
			return c->at[x];
	}
	return -1;
}

static int64_t fill(gg_cut *c, int depth)
{
	int64_t least = GG_CUT_NEVER;
	for (int i = 0; i < depth; i++)
		if (c->arc[c->way[i]].left < least)
			least = c->arc[c->way[i]].left;
	for (int i = 0; i < depth; i++) {
		struct gg_arc *a = &c->arc[c->way[i]];
		a->left -= least;
		c->arc[a->back].left += least;
	}
	return least;
}

/* All paths along the levels. */
static int64_t fill_all(gg_cut *c)
{
	int64_t flow = 0;
	int x = GG_CUT_NO, depth = 0;
	memcpy(c->at, c->first, c->nnode * sizeof *c->at);
	for (;;) {
		int a = x == GG_CUT_YES ? -1 : forward(c, x);
		if (x == GG_CUT_YES) {
			flow += fill(c, depth);
			x = GG_CUT_NO;
			depth = 0;
		} else if (a >= 0) {
			c->way[depth++] = a;
			x = c->arc[a].to;
		} else if (depth == 0) {
			return flow;
		} else { /* a dead end: never again in this round */
			c->level[x] = -1;
			x = c->arc[c->arc[c->way[--depth]].back].to;
		}
	}
}

int64_t gg_cut_solve(gg_cut *c)
{
	int64_t flow = 0;
	pack(c);
	c->level = gg_xcalloc(c->nnode, sizeof *c->level);
	c->way = gg_xcalloc(c->nnode, sizeof *c->way);
	for (;;) {
		spread(c, GG_CUT_NO, GG_CUT_YES, false);
		if (c->level[GG_CUT_YES] < 0)
			break;
		flow += fill_all(c);
	}
	spread(c, GG_CUT_YES, -1, true);
	return flow;
}

bool gg_cut_yes(const gg_cut *c, int n) { return c->level[n] >= 0; }

void gg_cut_fini(gg_cut *c)
{
	free(c->arc);
	free(c->first);
	free(c->level);
	free(c->at);
	free(c->way);
}
