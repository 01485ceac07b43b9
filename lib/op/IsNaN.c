#include "pointwise.h"

enum { TYPES = GG_FLOATS | GG_DT(GG_F8E4M3) | GG_DT(GG_F8E5M2) };
static double f(double x, const double *attr) { return x != x; }
static bool eval(gg_eval *e) { return gg_map1(e, f, 0, 0); }

const gg_op gg_op_IsNaN = {GG_POINTWISE_OP(IsNaN, "whether x is NaN", 1, 0),
                           .in = {{TYPES}},
                           .out = {{GG_DT(GG_BOOL)}},
                           .infer = gg_infer_same,
                           .eval = eval,
                           .expr = "x != x"};
