/* Dinic's algorithm without recursion: levels by breadth, then paths along rising levels. */
#include "cut.h"
#include "../../lib/gg.h"
#include <stdlib.h>
#include <string.h>

int gg_cut_node(gg_cut *c)
{
	GG_PUSH(c->head, c->nnode, c->cap_node, -1);
	return (int)c->nnode - 1;
}

void gg_cut_init(gg_cut *c)
{
	*c = (gg_cut){0};
	gg_cut_node(c);
	gg_cut_node(c);
}

void gg_cut_arc(gg_cut *c, int from, int to, int cost)
{
	GG_PUSH(c->arc, c->narc, c->cap_arc, ((struct gg_arc){to, c->head[from], cost}));
	c->head[from] = (int)c->narc - 1;
	GG_PUSH(c->arc, c->narc, c->cap_arc, ((struct gg_arc){from, c->head[to], 0}));
	c->head[to] = (int)c->narc - 1;
}

/* Levels from a node along arcs with capacity left, or against them. */
static void spread(gg_cut *c, int from, bool against)
{
	size_t done = 0, n = 0;
	for (size_t i = 0; i < c->nnode; i++)
		c->level[i] = -1;
	c->level[from] = 0;
	c->way[n++] = from;
	while (done < n) {
		int x = c->way[done++];
		for (int a = c->head[x]; a >= 0; a = c->arc[a].next) {
			int y = c->arc[a].to;
			if (c->level[y] >= 0 || c->arc[against ? a ^ 1 : a].left == 0)
				continue;
			c->level[y] = c->level[x] + 1;
			c->way[n++] = y;
		}
	}
}

/* The arc that leads on from x, or -1. */
static int forward(gg_cut *c, int x)
{
	for (; c->at[x] >= 0; c->at[x] = c->arc[c->at[x]].next) {
		const struct gg_arc *a = &c->arc[c->at[x]];
		if (a->left > 0 && c->level[a->to] == c->level[x] + 1)
			break;
	}
	return c->at[x];
}

static int fill(gg_cut *c, int depth)
{
	int least = GG_CUT_NEVER;
	for (int i = 0; i < depth; i++)
		if (c->arc[c->way[i]].left < least)
			least = c->arc[c->way[i]].left;
	for (int i = 0; i < depth; i++) {
		c->arc[c->way[i]].left -= least;
		c->arc[c->way[i] ^ 1].left += least;
	}
	return least;
}

long gg_cut_solve(gg_cut *c)
{
	long flow = 0;
	c->level = gg_xcalloc(c->nnode, sizeof *c->level);
	c->at = gg_xcalloc(c->nnode, sizeof *c->at);
	c->way = gg_xcalloc(c->nnode, sizeof *c->way);
	for (;;) {
		spread(c, GG_CUT_NO, false);
		if (c->level[GG_CUT_YES] < 0)
			break;
		memcpy(c->at, c->head, c->nnode * sizeof *c->at);
		int x = GG_CUT_NO, depth = 0;
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
				break;
			} else { /* a dead end: never again in this round */
				c->level[x] = -1;
				x = c->arc[c->way[--depth] ^ 1].to;
			}
		}
	}
	spread(c, GG_CUT_YES, true);
	return flow;
}

bool gg_cut_yes(const gg_cut *c, int n) { return c->level[n] >= 0; }

void gg_cut_fini(gg_cut *c)
{
	free(c->arc);
	free(c->head);
	free(c->level);
	free(c->at);
	free(c->way);
}
