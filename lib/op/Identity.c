#include "move.h"
#include "grad.h"

static bool infer(gg_infer *f)
{
	f->out[0].shape = f->in[0].shape;
	gg_view_content(f);
	return true;
}

GG_GRAD(grad) { gg_give(t, IN(0), dy); }

const gg_op gg_op_Identity = {.name = "Identity",
                              .doc = "x",
                              .min_in = 1,
                              .max_in = 1,
                              .min_out = 1,
                              .max_out = 1,
                              .flags = GG_VIEW,
                              .in = {{GG_ANY, 'T'}},
                              .out = {{GG_ANY, 'T'}},
                              .infer = infer,
                              .eval = gg_eval_copy,
                              .grad = grad};
