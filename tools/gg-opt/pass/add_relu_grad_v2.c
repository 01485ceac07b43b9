#include "add_v2.h"

/* Needs shapes.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g) { return fuse_add(p, g, "ReluGradV2", "AddReluGradV2"); }

const gg_pass gg_pass_add_relu_grad_v2 = {
    .name = "add_relu_grad_v2",
    .help = "Add before ReluGradV2 becomes AddReluGradV2",
    .explain = "ReluGradV2(Add(a, b), mask) => AddReluGradV2(a, b, mask)" ADD_V2_GUARDS,
    .pipeline = "hardware:130",
    .exact = true,
    .run = run,
};
