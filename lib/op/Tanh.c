#include "pointwise.h"

GG_UNARY(Tanh, "hyperbolic tangent of x", GG_FLOATS, tanh(x), 0);
