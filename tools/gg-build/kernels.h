/* Generated kernels, compiled into the plan. */
#ifndef GG_BUILD_KERNELS_H
#define GG_BUILD_KERNELS_H

#include "../../lib/gg.h"

typedef struct kernel_request {
	const char *dump; /* where sources go; NULL: nowhere */
	int64_t tune;     /* algorithms to measure, on the device; 0: there need be none */
	bool deterministic;
	const char *choices, *save; /* files; NULL: none */
} kernel_request;
/* Prepares the model as a run would, for a device that need not be there, and adds what was compiled and
 * chosen as blobs. What cannot be done here is left to the load, and said. */
bool build_kernels(gg_diag *d, gg_model *m, const kernel_request *r);

#endif
