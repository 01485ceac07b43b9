/* Random valid graphs in which the patterns of the passes, and their near misses, are frequent. */
#ifndef RANDOM_H
#define RANDOM_H

#include "../../lib/gg.h"

/* The same seed, the same graph: some tens of nodes, main results of f32 to bool, awkward shapes, bodies,
 * state, now and then a step of training or collectives. */
gg_model *random_graph(uint64_t seed);

#endif
