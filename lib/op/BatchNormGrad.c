#include "bngrad.h"

static bool eval(gg_eval *e) { return eval_bngrad(e, false); }
static bool expand(gg_diag *d, gg_node *n) { return expand_bngrad((gg_kit){d, n}, gg_in(n, 0), 1, 0); }
static bool infer(gg_infer *f) { return infer_bngrad(f, 1); }

const gg_op gg_op_BatchNormGrad = {
    .name = "BatchNormGrad",
    .doc = "the gradients of BatchNormalization: dy, x, scale, and in inference mean and variance",
    .min_in = 3,
    .max_in = 5,
    .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'S'}, {GG_FLOATS, 'U'}, {GG_FLOATS, 'U'}},
    .max_out = 3,
    GG_BNGRAD,
    .infer = infer,
    .eval = eval,
    .expand = expand};
