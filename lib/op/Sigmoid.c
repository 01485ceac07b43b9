#include "pointwise.h"

GG_UNARY(Sigmoid, "1 / (1 + exp(-x))", GG_FLOATS, 1 / (1 + exp(-x)), 0);
