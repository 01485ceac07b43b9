#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), OP("Neg", dy, 0)); }

GG_UNARY(Neg, "-x", GG_FLOATS | GG_SIGNED, -x, (int64_t)(0 - (uint64_t)x), .grad = grad);
