/* Steps of a chain for pointwise nodes. */
#ifndef CPU_POINTWISE_H
#define CPU_POINTWISE_H

#include "chain.h"

/* Register of what node n reads in slot i, where it reads something. */
typedef int cpu_source_fn(void *ctx, const gg_node *n, int i);
/* The node's steps: the register of its result, always a step's. */
int cpu_emit(cpu_chain *k, const gg_node *n, bool narrow, cpu_source_fn *source, void *ctx);

#endif
