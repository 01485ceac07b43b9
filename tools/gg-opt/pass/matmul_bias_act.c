#include "../pass.h"

#define ACT(OP, NAME) \
	"matmul_bias_act: " OP "(Add(MatMul(a, b), c)) => MatMulBias(a, b, c){activation=\"" NAME \
	"\"} where rank(c) <= 1\n" \
	"matmul_bias_act: " OP \
	"(MatMulBias(a, b, c){activation=\"\"}) => MatMulBias(a, b, c){activation=\"" NAME "\"}\n"
#define ATTR_ACT(OP, ATTR, NAME) \
	"matmul_bias_act: " OP "(Add(MatMul(a, b), c)){" ATTR "} => MatMulBias(a, b, c){activation=\"" NAME \
	"\"} where rank(c) <= 1\n" \
	"matmul_bias_act: " OP "(MatMulBias(a, b, c){activation=\"\"}){" ATTR \
	"} => MatMulBias(a, b, c){activation=\"" NAME "\"}\n"

const gg_pass gg_pass_matmul_bias_act = {
    .name = "matmul_bias_act",
    .help = "MatMul, the addition of a vector and an activation become one MatMulBias",
    .explain = "act(MatMul(a, b) + bias) = MatMulBias(a, b, bias){activation=act}, for Relu, Sigmoid, Tanh, "
               "Gelu in\n"
               "both forms and Swish with alpha 1. Each step is rounded as before.",
    .pipeline = "inference:60",
    .exact = true,
    .rules = ACT("Relu", "Relu") ACT("Sigmoid", "Sigmoid") ACT("Tanh", "Tanh")
        ATTR_ACT("Gelu", "approximate=\"none\"", "Gelu") ATTR_ACT("Gelu", "approximate=\"tanh\"", "GeluTanh")
            ATTR_ACT("Swish", "alpha=1", "Swish"),
};
