#include "summary.h"

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape;
	gg_dim c = s->rank == 4 ? s->dim[1] : 1;
	if (s->rank >= 0 && s->rank != 4)
		return gg_fail(f, "input has rank %d, expected 4: batch, channels, height, width", s->rank);
	return !gg_dim_known(c) || c == 1 || c == 3 || c == 4 ||
	       gg_fail(f, "%lld channels, expected 1, 3 or 4", (long long)c);
}

SUMMARY_OP(ImageSummary, "images to be watched: u8, or floats from 0 to 1", infer);
