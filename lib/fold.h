/* Constant folding, for gg-parse and the pass fold_constants. */
#ifndef GG_FOLD_H
#define GG_FOLD_H

#include "op.h"

/* Folds nodes of one graph whose inputs are constants, or whose results shape inference knows.
 * The graph never grows by it: a result has at most `limit` bytes, or at most as many as the inline
 * constants that only this node reads. Parameters count as constants only where no gradient could
 * pass (no output is a float). A node that fails to run stays, for its error to be seen when it
 * does. *folded: how many nodes went, at most `most`. */
bool gg_fold_constants(gg_diag *d, gg_graph *g, int64_t limit, size_t most, size_t *folded);

#endif
