#include "pointwise.h"
#include "grad.h"

GG_UNARY(Round, "x rounded to the nearest integer, ties to even", GG_FLOATS, rint(x), 0,
         .grad = gg_grad_zero);
