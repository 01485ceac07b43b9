/* A command that says whether a graph is good: --bisect and --reduce ask it. */
#ifndef GG_OPT_PROBE_H
#define GG_OPT_PROBE_H

#include "../../lib/gg.h"

/* Runs the command by the shell with the graph on its stdin; its own output is shown with -v only. Gives
 * its exit status, 128 and the signal's number when one ended it; -1: reported. */
int probe(gg_diag *d, const char *command, const gg_buf *graph);

#endif
