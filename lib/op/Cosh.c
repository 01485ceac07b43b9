#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), OP("Mul", dy, OP("Sinh", IN(0), 0))); }

GG_UNARY(Cosh, "hyperbolic cosine of x", GG_FLOATS, cosh(x), 0, .grad = grad);
