#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), OP("Div", dy, OP("Sub", NUM(dy, 1), OP("Mul", IN(0), IN(0))))); }

GG_UNARY(Atanh, "inverse hyperbolic tangent of x", GG_FLOATS, atanh(x), 0, .grad = grad);
