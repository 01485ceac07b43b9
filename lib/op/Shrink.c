#include "pointwise.h"
#include "grad.h"

/* Attribute a is bias, b is lambd. */
static double f(double x, const double *attr)
{
	const double a = attr[0], b = attr[1];
	return x < -b ? x + a : x > b ? x - a : 0;
}

/* Integers too go through double. */
static bool eval(gg_eval *e)
{
	double attr[GG_EXPR_ATTRS];
	int64_t n = gg_count(&e->in[0]);
	gg_expr_attrs(e->n, attr);
	for (int64_t k = 0; k < n; k++)
		gg_set_f64(&e->out[0], k, f(gg_get_f64(&e->in[0], k), attr));
	return true;
}

GG_GRAD(grad)
{
	gg_value *kept = OP("Greater", OP("Abs", IN(0), 0), NUM(dy, gg_get_float(n, "lambd")));
	gg_give(t, IN(0), gg_grad_masked(t, kept, dy, true));
}

const gg_op gg_op_Shrink = {
    GG_POINTWISE_OP(Shrink, "x moved toward 0 by bias where |x| is above lambd, else 0", 1, 0),
    .attrs = GG_ATTRS({"bias", GG_ATTR_FLOAT, false, "0"}, {"lambd", GG_ATTR_FLOAT, false, "0.5"}),
    .in = {{GG_NUMBERS, 'T'}},
    .out = {{GG_NUMBERS, 'T'}},
    .infer = gg_infer_same,
    .eval = eval,
    .grad = grad,
    .expr = "x < -b ? x + a : x > b ? x - a : 0"};
