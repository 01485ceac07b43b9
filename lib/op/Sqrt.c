#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), OP("Div", OP("Mul", dy, NUM(dy, 0.5)), OUT)); }

GG_UNARY(Sqrt, "square root of x", GG_FLOATS, sqrt(x), 0, .grad = grad);
