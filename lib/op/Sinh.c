#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), OP("Mul", dy, OP("Cosh", IN(0), 0))); }

GG_UNARY(Sinh, "hyperbolic sine of x", GG_FLOATS, sinh(x), 0, .grad = grad);
