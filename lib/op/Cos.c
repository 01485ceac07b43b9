#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), OP("Neg", OP("Mul", dy, OP("Sin", IN(0), 0)), 0)); }

GG_UNARY(Cos, "cosine of x", GG_FLOATS, cos(x), 0, .grad = grad);
