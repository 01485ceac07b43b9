/* --bisect: the rewrite that makes a command fail. */
#ifndef GG_OPT_BISECT_H
#define GG_OPT_BISECT_H

#include "step.h"

/* The first rewrite of the plan (at most `limit` are made) after which the command fails on the graph: pass,
 * number, nodes and a diff, in *out. False: reported; also when there is none. */
bool bisect(gg_diag *d, gg_model *m, step *s, size_t nstep, int64_t limit, const char *command, int color,
            gg_buf *out);

#endif
