#include "batchnorm.h"

static bool eval(gg_eval *e) { return eval_batchnorm(e, false); }

const gg_op gg_op_BatchNormalization = {
    .name = "BatchNormalization",
    .doc = "normalised over batch and space, in inference by given statistics",
    GG_BATCHNORM,
    .eval = eval};
