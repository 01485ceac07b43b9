/* What a node costs, as far as its shapes tell. */
#ifndef GG_COST_H
#define GG_COST_H

#include "op.h"

/* Floating-point operations of a node, a product and a sum counting as two; -1: sizes not known. */
int64_t gg_flops(const gg_node *n);

typedef struct gg_machine {
	double flops, half_flops; /* a second, all processors busy */
	double bytes;             /* a second */
	double launch;            /* seconds that a kernel takes at least */
	double event;             /* seconds from the end of a call to the start of one that waits for it */
	double processors, tile;  /* elements of an output that keep one processor busy */
} gg_machine;
typedef struct gg_cost {
	double seconds;
	double fill; /* how much of the machine it keeps busy, 0 to 1 */
} gg_cost;
/* Of len nodes from n on that one kernel covers. */
gg_cost gg_call_cost(const gg_machine *m, const gg_node *n, int len);

#endif
