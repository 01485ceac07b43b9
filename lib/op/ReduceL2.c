#include "reduce.h"

GG_REDUCTION(ReduceL2, "root of the sum of squares over axes", GG_REDUCE_TYPES, false, 0, a + x * x, sqrt(a),
             0, GG_WRAP_ADD(a, GG_WRAP_MUL(x, x)), (int64_t)sqrt((double)(uint64_t)a));
