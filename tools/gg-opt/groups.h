/* Nodes that hang together and may become one, in groups without a cycle among them. */
#ifndef GG_OPT_GROUPS_H
#define GG_OPT_GROUPS_H

#include "../../lib/gg.h"

enum { GG_NO_NODE = UINT32_MAX };

typedef struct gg_groups {
	/* Of two nodes, the second of which reads the first: may they be in one group? */
	bool (*join)(void *ctx, const gg_node *a, const gg_node *b);
	void *ctx;
	size_t n;
	gg_node **node; /* in order; a node's mark is its number here */
	uint32_t *rank, *up;
	uint32_t *first, *next; /* by root: its nodes as a list that GG_NO_NODE ends, in order */
} gg_groups;

/* Numbers the nodes of the graph by their marks. */
void gg_groups_list(gg_groups *w, gg_arena *a, gg_graph *g);
/* With join and ctx set. Linear in nodes and edges. */
void gg_groups_find(gg_groups *w);
/* Of node number i: the number of the node that its group is called by. */
uint32_t gg_groups_root(gg_groups *w, uint32_t i);
/* Puts n behind the last value that it reads, and behind what was put there before, so that the order of
 * the rest stays. gg_graph_number has been called; `last` remembers from one call to the next. */
void gg_move_up(gg_map *last, gg_node *n);

#endif
