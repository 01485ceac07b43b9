#include "softmaxgrad.h"

static void row(int64_t n, int64_t inner, double *dy, const double *y)
{
	double dot = 0;
	for (int64_t k = 0; k < n; k++)
		dot += dy[k * inner];
	for (int64_t k = 0; k < n; k++)
		dy[k * inner] = dy[k * inner] - exp(y[k * inner]) * dot;
}

static bool eval(gg_eval *e) { return eval_softmaxgrad(e, row); }

static bool expand(gg_diag *d, gg_node *n)
{
	gg_kit k = {d, n};
	int64_t axis = gg_get_int(n, "axis");
	gg_value *dy = gg_in(n, 0), *sum = kit_reduce(k, "ReduceSum", dy, 1, &axis, true);
	gg_value *dx = kit_op(k, "Sub", dy, kit_op(k, "Mul", kit_one(k, "Exp", gg_in(n, 1)), sum));
	return kit_replace(k, &dx);
}

const gg_op gg_op_LogSoftmaxGrad = {.name = "LogSoftmaxGrad",
                                    .doc = "the gradient of LogSoftmax, dy - exp(y) sum of dy: dy, y",
                                    GG_SOFTMAX_GRAD,
                                    .eval = eval,
                                    .expand = expand};
