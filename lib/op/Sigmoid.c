#include "pointwise.h"
#include "grad.h"

GG_GRAD(grad) { gg_give(t, IN(0), OP("Mul", dy, OP("Mul", OUT, OP("Sub", NUM(dy, 1), OUT)))); }

GG_UNARY(Sigmoid, "1 / (1 + exp(-x))", GG_FLOATS, 1 / (1 + exp(-x)), 0, .grad = grad);
