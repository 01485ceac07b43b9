#include "../pass.h"

const gg_pass gg_pass_matmul_bias = {
    .name = "matmul_bias",
    .help = "MatMul followed by the addition of a vector becomes MatMulBias",
    .explain = "MatMul(a, b) + bias = MatMulBias(a, b, bias), the bias a vector or a scalar.",
    .pipeline = "optimize:10",
    .exact = true,
    .rules = "Add(MatMul(a, b), c) => MatMulBias(a, b, c) where rank(c) <= 1",
};
