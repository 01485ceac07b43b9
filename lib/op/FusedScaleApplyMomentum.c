#include "momentum.h"

MOMENTUM_OP(FusedScaleApplyMomentum, "ApplyMomentum of scale grad: scale, var, acc, lr, grad, momentum",
            "svvsgs", 1, momentum_apply(v, g *s[0], s[1], s[2], false),
            momentum_expand(d, n, 1, 0, 0, -1, false));
