#include "momentum.h"

COMBINED_OP(CombineMomentumWeight,
            "FusedWeightScaleApplyMomentum of many parameters, their inputs one after another", "ssvvsgs", 2,
            momentum_apply(v, (s[0] * v[0] + g) * s[1], s[2], s[3], false),
            momentum_expand(d, n, at + 2, 2 * i, at + 1, at, false));
