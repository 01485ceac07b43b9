#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), OP("Div", dy, IN(0))); }

GG_UNARY(Log, "natural logarithm of x", GG_FLOATS, log(x), 0, .grad = grad);
