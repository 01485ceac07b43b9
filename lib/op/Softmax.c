#include "nnkit.h"
#include "grad.h"
#include <math.h>

static void row(double *v, int64_t n, const gg_node *node)
{
	double top = -INFINITY, sum = 0;
	for (int64_t i = 0; i < n; i++)
		top = v[i] > top ? v[i] : top;
	for (int64_t i = 0; i < n; i++)
		sum += v[i] = exp(v[i] - top);
	for (int64_t i = 0; i < n; i++)
		v[i] /= sum;
}

static bool eval(gg_eval *e) { return gg_eval_rows(e, gg_get_int(e->n, "axis"), row); }

GG_GRAD(grad) { gg_give(t, IN(0), gg_grad_node(t, n, "SoftmaxGrad", dy, OUT, 0)); }

const gg_op gg_op_Softmax = {.name = "Softmax",
                             .doc = "exp(x) / sum of exp(x) along one axis",
                             .min_in = 1,
                             .max_in = 1,
                             .min_out = 1,
                             .max_out = 1,
                             .attrs = (const gg_attr_spec[]){{"axis", GG_ATTR_INT, .def = "-1"}, {0}},
                             .in = {{GG_FLOATS, 'T'}},
                             .out = {{GG_FLOATS, 'T'}},
                             .infer = gg_infer_rows,
                             .eval = eval,
                             .grad = grad};
