/* Layouts: how values lie in memory, decided for a graph as a whole; inside libgg. */
#ifndef GG_LAYOUT_H
#define GG_LAYOUT_H

#include "target.h"

/* What selection knows of one node of a graph. */
typedef struct gg_pick {
	const gg_row *row;
	const char *why; /* what was in the way of a better row */
	bool fixed;      /* its layout was given and stays */
	int side;        /* of the cut: plain, channels-last, or a choice */
} gg_pick;

/* What converting between layouts costs: bytes, and in `cost` also what the calls take. */
typedef struct gg_layout_cost {
	int64_t cost, bytes;
	int reorders; /* how many nodes */
} gg_layout_cost;

/* False: declared, and stays as it is. */
bool gg_layout_is_open(const gg_value *v);
/* Channels-last would be other bytes than plain. */
bool gg_layout_matters(const gg_value *v);
/* A graph and what is picked for its nodes, by node->order (gg_graph_number). */
typedef struct gg_layouts {
	const gg_target *t;
	gg_graph *g;
	gg_pick *pick;
} gg_layouts;

/* Sets the layouts of all values that nodes make, so that the whole graph costs least. nhwc: kernels
 * that work in channels-last make it at any cost. Returns how many nodes had a choice. */
int gg_choose_layouts(const gg_layouts *l, bool nhwc);
/* As the layouts are now: the conversions of the whole graph, and of what n reads and makes. */
gg_layout_cost gg_graph_layout_cost(const gg_layouts *l);
gg_layout_cost gg_node_layout_cost(const gg_layouts *l, const gg_node *n);
/* How n's outputs lie, those of which it matters. */
gg_layout gg_node_layout(const gg_node *n);
/* n makes what it makes in this layout. */
void gg_set_node_layout(const gg_node *n, gg_layout l);

#endif
