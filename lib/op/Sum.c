#include "pointwise.h"
#include "grad.h"

static double f(double x, double y, const double *attr) { return x + y; }
static bool eval(gg_eval *e) { return gg_map_fold(e, f, 0, 1); }

const gg_op gg_op_Sum = {GG_VARIADIC(Sum, "the sum of the inputs, broadcast", GG_FLOATS),
                         .infer = gg_infer_broadcast, .eval = eval, .grad = gg_grad_sum, .expr = "x + y"};
