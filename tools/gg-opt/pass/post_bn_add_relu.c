#include "bn_add.h"

/* Needs shapes.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g) { return fuse_bn_add(p, g, 1); }

const gg_pass gg_pass_post_bn_add_relu = {
    .name = "post_bn_add_relu",
    .help = "BatchNormalization, an addition of it and Relu become BatchNormAddRelu",
    .explain = "Relu(Add(z, BatchNormalization(x, s, b, m, v):0))\n=> BatchNormAddRelu(x, s, b, m, v, "
               "z)" BN_ADD_GUARDS,
    .ops = "BatchNormalization",
    .pipeline = "hardware:40",
    .exact = true,
    .run = run,
};
