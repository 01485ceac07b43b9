/* What the passes on collectives share. */
#ifndef GG_OPT_COLLECTIVES_H
#define GG_OPT_COLLECTIVES_H

#include "../../lib/comm.h"
#include "pass.h"

enum { GG_MAX_PARTS = 4096 }; /* that one collective is split into */

/* Merges nodes of the op that agree in group, reduction, fusion number and dtype; no guard but those
 * of meaning. The option split='1,4' gives the last places of segments. */
bool fuse_collectives(gg_pass_run *p, gg_graph *g, const char *op);

/* Who waited for `from` waits for `to`, and `to` for whom `from` waited for. */
void hand_on_order(gg_node *from, gg_node *to);

#define FUSION_OPTIONS "split='I,J,...': a segment ends behind the I-th member, counted from 0, the J-th, ..."
#define FUSION_GUARDS \
	"Members agree in group, rank_size, reduction, fusion (not 0) and dtype, and stand in graph order, " \
	"or in\n" \
	"that of index where the first one has it above 0. Attributes are the last one's. Refused for a " \
	"member\n" \
	"whose input depends on the result of one before it (it starts another node, so that no cycle " \
	"comes\n" \
	"about and nobody reads another version of a parameter), and for one that shares an input with " \
	"another.\n" \
	"Afterwards all collectives are chained by order edges, equal on all ranks."

#endif
