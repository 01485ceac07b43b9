#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), OP("Mul", dy, OUT)); }

GG_UNARY(Exp, "e to the power of x", GG_FLOATS, exp(x), 0, .grad = grad);
