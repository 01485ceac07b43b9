/* Which stream each node runs on. */
#ifndef GG_BUILD_STREAMS_H
#define GG_BUILD_STREAMS_H

#include "../../lib/gg.h"

#define STREAMS_AUTO 0 /* branches side by side where the cost rule says that it pays */

/* Writes node->stream in the main graph of a model for a device, and puts the nodes in the order in which
 * they are expected to start. Says what kind each stream is: "compute", "communication"; *n of them. */
bool assign_streams(gg_diag *d, gg_model *m, int64_t want, const char **kind, int *n);

#endif
