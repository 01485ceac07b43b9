/* The mark of a loss scale (autocast): the gradient is multiplied by the second input. The third, which
 * nothing is computed from, is the scale's own count of good steps. */
#include "grad.h"
#include "opkit.h"
#include "token.h"

static bool infer(gg_infer *f)
{
	for (int i = 1; i < f->nin; i++)
		if (f->in[i].shape.rank > 0)
			return gg_fail(f, "input %d has shape %s, expected a scalar", i,
			               gg_str(f, &f->in[i].shape));
	return infer_first(f);
}

GG_GRAD(grad) { gg_give(t, IN(0), OP("Mul", dy, gg_put_cast(t, IN(1), (gg_dtype)dy->dtype))); }

const gg_op gg_op_ScaleGradient = {.name = "ScaleGradient",
                                   .domain = "gg",
                                   .doc = "x, whose gradient is multiplied by scale: x, scale, good steps",
                                   .min_in = 2,
                                   .max_in = 3,
                                   .min_out = 1,
                                   .max_out = 1,
                                   .flags = GG_VIEW,
                                   .in = {{GG_FLOATS, 'T'}, {GG_FLOATS}, {GG_DT(GG_I64)}},
                                   .out = {{GG_FLOATS, 'T'}},
                                   .infer = infer,
                                   .eval = gg_eval_copy,
                                   .expand = gg_expand_identity,
                                   .grad = grad};
