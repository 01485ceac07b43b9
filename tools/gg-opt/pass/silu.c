#include "../pass.h"

const gg_pass gg_pass_silu = {
    .name = "silu",
    .help = "x * sigmoid(x) becomes Swish, and the formulas of HardSwish become HardSwish",
    .explain = "x * sigmoid(x) = Swish(x)\n"
               "x * clip(x + 3, 0, 6) / 6 = x * HardSigmoid(x){alpha=1/6, beta=1/2} = HardSwish(x); from "
               "HardSigmoid not of f64,\n"
               "as its alpha is an f32",
    .pipeline = "inference:35",
    .exact = false,
    .rules = "silu: Mul(x, Sigmoid(x)) => Swish(x)\n"
             "hard_swish: Mul(x, HardSigmoid(x){alpha=0.16666667, beta=0.5}) => HardSwish(x) where dtype(x) "
             "!= f64\n"
             "hard_swish: Div(Mul(x, Clip(Add(x, 3), 0, 6)), 6) => HardSwish(x)\n"
             "hard_swish: Mul(x, Div(Clip(Add(x, 3), 0, 6), 6)) => HardSwish(x)\n"
             "hard_swish: Mul(Mul(x, Clip(Add(x, 3), 0, 6)), 0.16666666666666666) => HardSwish(x)\n"
             "hard_swish: Mul(x, Mul(Clip(Add(x, 3), 0, 6), 0.16666666666666666)) => HardSwish(x)",
};
