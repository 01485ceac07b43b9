#include "pointwise.h"
#include "grad.h"

/* The integers of u64 are there already. */
static double f(double x, const double *attr) { return fabs(x); }
static int64_t i(int64_t x, const double *attr) { return (int64_t)(x < 0 ? 0 - (uint64_t)x : (uint64_t)x); }
static int64_t u(int64_t x, const double *attr) { return x; }
static bool eval(gg_eval *e) { return gg_map1(e, f, e->in[0].dtype == GG_U64 ? u : i, 0); }

GG_GRAD(grad) { gg_give(t, IN(0), OP("Mul", dy, OP("Sign", IN(0), 0))); }

const gg_op gg_op_Abs = {GG_POINTWISE_OP(Abs, "|x|", 1, 0),
                         .in = {{GG_NUMBERS, 'T'}},
                         .out = {{GG_NUMBERS, 'T'}},
                         .infer = gg_infer_same,
                         .eval = eval,
                         .grad = grad,
                         .expr = "fabs(x)"};
