#include "../pass.h"

const gg_pass gg_pass_post_bn_add_relu = {
    .name = "post_bn_add_relu",
    .help = "BatchNormalization, an addition of it and Relu become BatchNormAddRelu",
    .explain = "max(z + BatchNormalization(x), 0): bn_add_relu with the addends the other way round.",
    .pipeline = "hardware:40",
    .exact = true,
    .rules = "Relu(Add(z, BatchNormalization(x, s, b, m, v) as bn) ordered) as r\n"
             "=> BatchNormAddRelu(x, s, b, m, v, z){bn.*} as f; r => f, bn:1 => f:1, bn:2 => f:2\n"
             "where same_shape(x, z)",
};
