#include "pointwise.h"

static int64_t i(int64_t x, const double *attr) { return !x; }
static bool eval(gg_eval *e) { return gg_map1(e, 0, i, 0); }

const gg_op gg_op_Not = {GG_POINTWISE_OP(Not, "whether x is false", 1, 0), .in = {{GG_DT(GG_BOOL), 'T'}},
                         .out = {{GG_DT(GG_BOOL), 'T'}}, .infer = gg_infer_same, .eval = eval};
