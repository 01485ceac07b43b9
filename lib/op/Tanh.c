#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), OP("Mul", dy, OP("Sub", NUM(dy, 1), OP("Mul", OUT, OUT)))); }

GG_UNARY(Tanh, "hyperbolic tangent of x", GG_FLOATS, tanh(x), 0, .grad = grad);
