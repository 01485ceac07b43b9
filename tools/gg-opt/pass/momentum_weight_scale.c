#include "momentum.h"

#define WEIGHT(SUM) \
	MOMENTUM("Mul(" SUM "(Mul(w, d), g), s)", "FusedWeightScaleApplyMomentum", "d, s", \
	         "rank(d) == 0 and rank(s) == 0")

const gg_pass gg_pass_momentum_weight_scale = {
    .name = "momentum_weight_scale",
    .help = "ApplyMomentum of a decayed and scaled gradient becomes one op",
    .explain = "acc = momentum acc + (wd var + g) scale;  var -= lr acc" MOMENTUM_GUARDS,
    .pipeline = "optimize:50",
    .rules = WEIGHT("Add") WEIGHT("AddN") WEIGHT("Sum")
        MOMENTUM_CAST("FusedWeightScaleApplyMomentum", "d, s"),
};
