#include "add_v2.h"

/* Needs shapes.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g) { return fuse_add(p, g, "ReluV2", "AddReluV2"); }

const gg_pass gg_pass_add_relu_v2 = {
    .name = "add_relu_v2",
    .help = "Add before ReluV2 becomes AddReluV2",
    .explain = "y, mask = ReluV2(Add(a, b)) => y, mask = AddReluV2(a, b)" ADD_V2_GUARDS,
    .pipeline = "hardware:120",
    .exact = true,
    .run = run,
};
