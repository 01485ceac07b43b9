#include "momentum.h"

MOMENTUM_OP(FusedWeightScaleApplyMomentum,
            "ApplyMomentum of (wd var + grad) scale: weight decay, scale, var, acc, lr, grad, momentum",
            "ssvvsgs", 2, momentum_apply(v, (s[0] * v[0] + g) * s[1], s[2], s[3], false),
            momentum_expand(d, n, 2, 0, 1, 0, false));
