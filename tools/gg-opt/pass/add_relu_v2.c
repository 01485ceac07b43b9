#include "../pass.h"

const gg_pass gg_pass_add_relu_v2 = {
    .name = "add_relu_v2",
    .help = "Add before ReluV2 becomes AddReluV2",
    .explain = "max(a + b, 0) and its mask; the kernels are flat, so a and b have one shape.",
    .pipeline = "hardware:120",
    .exact = true,
    .rules = "ReluV2(Add(a, b)) as r => AddReluV2(a, b) as f; r => f, r:1 => f:1 where same_shape(a, b)",
};
