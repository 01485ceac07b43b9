/* The gradients of pools. */
#ifndef GG_OP_POOLGRAD_H
#define GG_OP_POOLGRAD_H

#include "gradkit.h"
#include <stdlib.h>

/* dy is of the shape that pooling out[0] gives. */
static inline bool check_pool_dy(gg_infer *f)
{
	const gg_shape *x = &f->out[0].shape, *dy = &f->in[0].shape;
	gg_window w;
	if (!gg_window_pool(f->d, f->n, x, &w))
		return false;
	if (x->rank < 0)
		return true;
	gg_shape want = gg_window_shape(&w, x->dim[0], x->dim[1]);
	return shapes_agree(dy, &want) ||
	       gg_fail(f, "dy has shape %s, the pool's is %s", gg_str(f, dy), gg_str(f, &want));
}

#endif
