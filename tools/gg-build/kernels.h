/* Generated kernels, compiled into the plan. */
#ifndef GG_BUILD_KERNELS_H
#define GG_BUILD_KERNELS_H

#include "../../lib/gg.h"

/* Prepares the model as a run would, for a device that need not be there, and adds what was compiled as
 * blobs; the sources go to `dump`, where given. What cannot be done here is left to the load, and said. */
bool build_kernels(gg_diag *d, gg_model *m, const char *dump);

#endif
