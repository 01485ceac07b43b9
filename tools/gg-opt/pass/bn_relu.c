#include "../pass.h"

const gg_pass gg_pass_bn_relu = {
    .name = "bn_relu",
    .help = "BatchNormalization followed by Relu becomes BatchNormRelu",
    .explain = "In inference and in training mode alike; the running statistics keep their readers.",
    .pipeline = "hardware:10",
    .exact = true,
    .rules = "Relu(BatchNormalization(x, *p) as bn) as r => BatchNormRelu(x, *p){bn.*} as f;"
             "r => f, bn:1 => f:1, bn:2 => f:2",
};
