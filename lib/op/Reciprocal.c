#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), OP("Neg", OP("Mul", dy, OP("Mul", OUT, OUT)), 0)); }

GG_UNARY(Reciprocal, "1 / x", GG_FLOATS, 1 / x, 0, .grad = grad);
