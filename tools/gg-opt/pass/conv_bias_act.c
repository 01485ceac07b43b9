#include "../pass.h"

/* The plain Conv, and the one that has its bias already. */
#define ACT(OP, ATTRS, NAME, PARAMS) \
	"conv_bias_act: " OP "(Conv(x, w, b?) as c)" ATTRS " => FusedConv(x, w, b){c.*, activation=\"" NAME \
	"\"" PARAMS "}\n"

const gg_pass gg_pass_conv_bias_act = {
    .name = "conv_bias_act",
    .help = "a constant added to Conv becomes its bias, and an activation makes it a FusedConv",
    .explain = "Conv(x, w) + b = Conv(x, w, reshape(b)), b a constant with one number for each channel.\n"
               "act(Conv(x, w, b)) = FusedConv(x, w, b){activation=act}, for Relu, Sigmoid, Tanh, HardSwish, "
               "LeakyRelu,\n"
               "HardSigmoid and Clip between two constants.",
    .pipeline = "inference:65",
    .exact = false,
    .rules = "bias: Add(Conv(x, w) as c, b) => Conv(x, w, Reshape(b, [-1])){c.*} where constant(b) and "
             "rank(b) >= 1 and count(b) == dim(w, 0) and count(b) == dim(b, 1 - rank(x))\n"
    /* clang-format off */
        ACT("Relu", "", "Relu", "")
        ACT("Sigmoid", "", "Sigmoid", "")
        ACT("Tanh", "", "Tanh", "")
        ACT("HardSwish", "", "HardSwish", "")
        ACT("LeakyRelu", "{alpha=k}", "LeakyRelu", ", activation_params=[k]")
        ACT("HardSigmoid", "{alpha=k, beta=h}", "HardSigmoid", ", activation_params=[k, h]")
        "conv_bias_act: Clip(Conv(x, w, b?) as c, lo, hi) => FusedConv(x, w, b){c.*, activation=\"Clip\", "
        "activation_params=[lo, hi]}",
    /* clang-format on */
};
