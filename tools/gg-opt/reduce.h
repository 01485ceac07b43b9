/* --reduce: the smallest graph on which a command still fails. */
#ifndef GG_OPT_REDUCE_H
#define GG_OPT_REDUCE_H

#include "step.h"

/* A graph as small as can be on which the command ends with the exit status that it has on m: its text, in
 * *out. False: reported; also when the command does not fail on m. */
bool reduce(gg_diag *d, gg_model *m, const char *command, gg_buf *out);

#endif
