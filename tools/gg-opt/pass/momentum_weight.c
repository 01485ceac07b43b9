#include "momentum.h"

#define WEIGHT(SUM) MOMENTUM(SUM "(Mul(w, d), g)", "FusedWeightApplyMomentum", "d", "rank(d) == 0")

const gg_pass gg_pass_momentum_weight = {
    .name = "momentum_weight",
    .help = "ApplyMomentum of a decayed gradient becomes one op",
    .explain = "acc = momentum acc + (wd var + g);  var -= lr acc" MOMENTUM_GUARDS,
    .pipeline = "optimize:70",
    .rules = WEIGHT("Add") WEIGHT("AddN") WEIGHT("Sum") MOMENTUM_CAST("FusedWeightApplyMomentum", "d"),
};
