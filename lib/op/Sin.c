#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), OP("Mul", dy, OP("Cos", IN(0), 0))); }

GG_UNARY(Sin, "sine of x", GG_FLOATS, sin(x), 0, .grad = grad);
