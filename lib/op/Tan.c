#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), OP("Mul", dy, OP("Add", OP("Mul", OUT, OUT), NUM(dy, 1)))); }

GG_UNARY(Tan, "tangent of x", GG_FLOATS, tan(x), 0, .grad = grad);
