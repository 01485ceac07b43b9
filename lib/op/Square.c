#include "pointwise.h"

static double f(double x, const double *attr) { return x * x; }
static bool eval(gg_eval *e) { return gg_map1(e, f, 0, 0); }

static bool expand(gg_diag *d, gg_node *n)
{
	gg_value *y = gg_expand_node(d, n, "Mul", 2, (gg_value *[]){gg_in(n, 0), gg_in(n, 0)});
	if (!y)
		return false;
	gg_replace_value(n->out[0], y);
	gg_remove_node(n);
	return true;
}

const gg_op gg_op_Square = {GG_POINTWISE_OP(Square, "x * x", 1, 0),
                            .domain = "gg",
                            .in = {{GG_FLOATS, 'T'}},
                            .out = {{GG_FLOATS, 'T'}},
                            .infer = gg_infer_same,
                            .eval = eval,
                            .expand = expand,
                            .expr = "x * x"};
