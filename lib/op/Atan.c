#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), OP("Div", dy, OP("Add", OP("Mul", IN(0), IN(0)), NUM(dy, 1)))); }

GG_UNARY(Atan, "inverse tangent of x", GG_FLOATS, atan(x), 0, .grad = grad);
