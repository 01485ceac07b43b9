#include "pointwise.h"
#include "grad.h"

/* NaN stays NaN. */
#define SIGN(x) x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x
static double f(double x, const double *attr) { return SIGN(x); }
static int64_t i(int64_t x, const double *attr) { return SIGN(x); }
static int64_t u(int64_t x, const double *attr) { return x != 0; }
static bool eval(gg_eval *e) { return gg_map1(e, f, e->in[0].dtype == GG_U64 ? u : i, 0); }

const gg_op gg_op_Sign = {GG_POINTWISE_OP(Sign, "-1, 0 or 1, as x is below, at or above 0", 1, 0),
                          .in = {{GG_NUMBERS, 'T'}},
                          .out = {{GG_NUMBERS, 'T'}},
                          .infer = gg_infer_same,
                          .eval = eval,
                          .grad = gg_grad_zero,
                          .expr = "x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x"};
