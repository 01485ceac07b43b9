#include "../pass.h"

const gg_pass gg_pass_bn_add_relu_grad = {
    .name = "bn_add_relu_grad",
    .help = "the gradient of BatchNormAddRelu in one node",
    .explain = "As bn_relu_grad, of a BatchNormAddRelu; the node has the gradient dz of what is added too, "
               "which\nis dy where y > 0: its readers read output 3.",
    .pipeline = "hardware:50",
    .exact = true,
    .rules =
        "BatchNormGrad(ReluGrad(dy, BatchNormAddRelu(x, s, b, m, v, z) keep as y) as r, x, s, *p) as bn\n"
        "=> BatchNormAddReluGrad(dy, y, x, s, *p){bn.*} as f;\n"
        "bn => f, bn:1 => f:1, bn:2 => f:2, r => f:3",
};
