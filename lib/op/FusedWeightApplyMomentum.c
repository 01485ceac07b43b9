#include "momentum.h"

MOMENTUM_OP(FusedWeightApplyMomentum,
            "ApplyMomentum of wd var + grad: weight decay, var, acc, lr, grad, momentum", "svvsgs", 1,
            momentum_apply(v, s[0] * v[0] + g, s[1], s[2], false), momentum_expand(d, n, 1, 0, -1, 0, false));
