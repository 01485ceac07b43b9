#include "bngrad.h"

static bool eval(gg_eval *e) { return eval_bngrad(e, true); }
static bool infer(gg_infer *f) { return infer_bngrad(f, 2); }

static bool expand(gg_diag *d, gg_node *n)
{
	gg_kit k = {d, n};
	gg_value *g = kit_op(k, "ReluGrad", gg_in(n, 0), gg_in(n, 1));
	return g && expand_bngrad(k, g, 2, g);
}

const gg_op gg_op_BatchNormAddReluGrad = {.name = "BatchNormAddReluGrad",
                                          .doc = "the gradients of BatchNormAddRelu, the last of what is "
                                                 "added: dy, y, x, scale, and in inference mean "
                                                 "and variance",
                                          .max_out = 4,
                                          GG_BNGRAD_RELU,
                                          .infer = infer,
                                          .eval = eval,
                                          .expand = expand};
