#include "../pass.h"

const gg_pass gg_pass_bn_relu_grad = {
    .name = "bn_relu_grad",
    .help = "the gradient of BatchNormRelu in one node",
    .explain = "dx, dscale, dbias of a batch normalisation where dy counts only where y > 0, y the result of "
               "the\nBatchNormRelu that is differentiated: forward and backward are fused together or not at "
               "all.",
    .pipeline = "hardware:20",
    .exact = true,
    .rules = "BatchNormGrad(ReluGrad(dy, BatchNormRelu(x, s, b, m, v) keep as y), x, s, *p) as bn\n"
             "=> BatchNormReluGrad(dy, y, x, s, *p){bn.*} as f; bn => f, bn:1 => f:1, bn:2 => f:2",
};
