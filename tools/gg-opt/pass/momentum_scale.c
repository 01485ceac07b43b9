#include "momentum.h"

const gg_pass gg_pass_momentum_scale = {
    .name = "momentum_scale",
    .help = "ApplyMomentum of a scaled gradient becomes one op",
    .explain = "acc = momentum acc + g scale;  var -= lr acc" MOMENTUM_GUARDS,
    .pipeline = "optimize:60",
    .rules = MOMENTUM("Mul(g, s)", "FusedScaleApplyMomentum", "s", "rank(s) == 0")
        MOMENTUM_CAST("FusedScaleApplyMomentum", "s"),
};
