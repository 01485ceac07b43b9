#include "../pass.h"

const gg_pass gg_pass_bn_add_relu = {
    .name = "bn_add_relu",
    .help = "BatchNormalization, an addition to it and Relu become BatchNormAddRelu",
    .explain =
        "max(BatchNormalization(x) + z, 0), in inference and in training mode alike; the running statistics "
        "keep\ntheir readers. z has the shape of x: it is not broadcast.",
    .pipeline = "hardware:30",
    .exact = true,
    .rules = "Relu(Add(BatchNormalization(x, s, b, m, v) as bn, z) ordered) as r\n"
             "=> BatchNormAddRelu(x, s, b, m, v, z){bn.*} as f; r => f, bn:1 => f:1, bn:2 => f:2\n"
             "where same_shape(x, z)",
};
