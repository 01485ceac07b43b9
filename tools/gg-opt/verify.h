/* --verify: a pass's graph gives what the graph before it gave. */
#ifndef GG_OPT_VERIFY_H
#define GG_OPT_VERIFY_H

#include "step.h"

typedef struct verify verify;
verify *verify_new(int64_t samples);
void verify_free(verify *v);
size_t verify_samples(const verify *v);
/* Before the passes, and after one that changes the interface: what to compare with is m from here on. */
bool verify_start(verify *v, gg_diag *d, gg_model *m);
/* After a pass that changed m. False: reported, with the pass, the rewrite and its nodes. */
bool verify_pass(verify *v, gg_diag *d, step *s, gg_model *m);

#endif
