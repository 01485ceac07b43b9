#include "momentum.h"

COMBINED_OP(CombineMomentum, "FusedScaleApplyMomentum of many parameters, their inputs one after another",
            "svvsgs", 1, momentum_apply(v, g *s[0], s[1], s[2], false),
            momentum_expand(d, n, at + 1, 2 * i, at, -1, false));
