#include "summary.h"

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape;
	return !gg_shape_known(s) || gg_shape_count(s) == 1 ||
	       gg_fail(f, "input has shape %s, expected a scalar", gg_str(f, s));
}

SUMMARY_OP(ScalarSummary, "a scalar to be watched", infer);
