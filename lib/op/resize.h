/* What a backend's Resize shares with the reference kernel. */
#ifndef GG_OP_RESIZE_H
#define GG_OP_RESIZE_H

#include "op.h"

/* Where each element of an axis of the output reads the input's axis: twice, at at[2*o] and at[2*o+1], with
 * their weights. e: scales, sizes and roi with their data, shapes of the input and the output. False: more
 * than two elements, or some outside. */
bool gg_resize_axis(gg_eval *e, int axis, int64_t *at, float *weight);

#endif
