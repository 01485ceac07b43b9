#include "../pass.h"

const gg_pass gg_pass_add_relu_grad_v2 = {
    .name = "add_relu_grad_v2",
    .help = "Add before ReluGradV2 becomes AddReluGradV2",
    .explain = "a + b where the mask is set, else 0; the kernels are flat, so a and b have one shape.",
    .pipeline = "hardware:130",
    .exact = true,
    .rules = "ReluGradV2(Add(a, b), mask) => AddReluGradV2(a, b, mask) where same_shape(a, b)",
};
