#include "pointwise.h"
#include "grad.h"

/* NaN wins. */
static double f(double x, double y, const double *attr) { return x < y || x != x ? x : y; }
static int64_t i(int64_t x, int64_t y, const double *attr) { return x < y ? x : y; }
static int64_t u(int64_t x, int64_t y, const double *attr) { return (uint64_t)x < (uint64_t)y ? x : y; }
static bool eval(gg_eval *e) { return gg_map_fold(e, f, e->in[0].dtype == GG_U64 ? u : i, 1); }

static bool dims(gg_dim x, gg_dim y, gg_dim *out)
{
	*out = gg_dim_min(x, y);
	return true;
}

static bool infer(gg_infer *f) { return gg_infer_arith(f, dims); }

const gg_op gg_op_Min = {.name = "Min",
                         .doc = "the least of the inputs, broadcast",
                         .min_in = 1,
                         .max_in = -1,
                         .min_out = 1,
                         .max_out = 1,
                         .flags = GG_POINTWISE | GG_INPLACE | GG_COMMUTES,
                         .in = {{GG_NUMBERS, 'T'}},
                         .out = {{GG_NUMBERS, 'T'}},
                         .infer = infer,
                         .eval = eval,
                         .grad = gg_grad_equal,
                         .expr = "x < y || x != x ? x : y"};
