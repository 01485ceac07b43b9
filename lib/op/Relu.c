#include "pointwise.h"
#include "grad.h"

/* 0 at 0. */
GG_GRAD(grad) { gg_give(t, IN(0), OP("ReluGrad", dy, OUT)); }

/* NaN stays NaN. */
GG_UNARY(Relu, "max(x, 0)", GG_FLOATS | GG_SIGNED, x < 0 ? 0 : x, x < 0 ? 0 : x, .grad = grad);
