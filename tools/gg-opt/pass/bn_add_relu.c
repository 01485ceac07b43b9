#include "bn_add.h"

/* Needs shapes.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g) { return fuse_bn_add(p, g, 0); }

const gg_pass gg_pass_bn_add_relu = {
    .name = "bn_add_relu",
    .help = "BatchNormalization, an addition to it and Relu become BatchNormAddRelu",
    .explain = "Relu(Add(BatchNormalization(x, s, b, m, v):0, z))\n=> BatchNormAddRelu(x, s, b, m, v, "
               "z)" BN_ADD_GUARDS,
    .ops = "BatchNormalization",
    .pipeline = "hardware:30",
    .exact = true,
    .run = run,
};
