#include "pointwise.h"
#include "grad.h"

static double f(double x, const double *attr) { return x / (1 + exp(-attr[0] * x)); }
static bool eval(gg_eval *e)
{
	double attr[GG_EXPR_ATTRS];
	gg_expr_attrs(e->n, attr);
	return gg_map1(e, f, 0, attr);
}

const gg_op gg_op_QuickGelu = {GG_POINTWISE_OP(QuickGelu, "x * sigmoid(alpha * x)", 1, 0),
                               .domain = "com.microsoft",
                               .attrs = GG_ATTRS({"alpha", GG_ATTR_FLOAT, false, "1.702"}),
                               .in = {{GG_FLOATS, 'T'}},
                               .out = {{GG_FLOATS, 'T'}},
                               .infer = gg_infer_same,
                               .eval = eval,
                               .grad = gg_grad_swish,
                               .expr = "x / (1 + exp(-a * x))"};
