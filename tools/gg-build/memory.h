/* The memory plan and the events between streams of a model and of its bodies, written onto values and as the
 * ["plan"] record. */
#ifndef GG_BUILD_MEMORY_H
#define GG_BUILD_MEMORY_H

#include "../../lib/gg.h"

/* n streams of the kinds named. */
bool plan_memory(gg_diag *d, gg_model *m, bool no_reuse, const char *const *kind, int n);

#endif
