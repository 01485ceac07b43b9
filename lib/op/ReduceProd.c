#include "reduce.h"

GG_REDUCTION(ReduceProd, "product over axes", GG_REDUCE_TYPES, false, 1, a *x, a, 1, GG_WRAP_MUL(a, x), a);
