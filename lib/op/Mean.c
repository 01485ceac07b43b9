#include "pointwise.h"
#include "grad.h"

static double f(double x, double y, const double *attr) { return x + y; }
static bool eval(gg_eval *e) { return gg_map_fold(e, f, 0, e->nin); }

GG_GRAD(grad) { gg_grad_sum(t, n, OP("Mul", dy, NUM(dy, 1.0 / gg_nargs(n)))); }

const gg_op gg_op_Mean = {GG_VARIADIC(Mean, "the mean of the inputs, broadcast", GG_FLOATS),
                          .infer = gg_infer_broadcast, .eval = eval, .grad = grad};
