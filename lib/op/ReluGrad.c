#include "pointwise.h"
#include "grad.h"

static double f(double x, double y, const double *attr) { return y > 0 ? x : 0; }
static bool eval(gg_eval *e) { return gg_map2(e, f, 0, 0); }

/* Where(y > 0, dy, 0) */
static bool expand(gg_diag *d, gg_node *n)
{
	double room = 0;
	gg_tensor none = {.dtype = (gg_dtype)gg_in(n, 0)->dtype, .data = &room};
	gg_value *zero = gg_add_tensor(n->graph, "zero", &none);
	gg_value *test = gg_expand_node(d, n, "Greater", 2, (gg_value *[]){gg_in(n, 1), zero});
	gg_value *y = test ? gg_expand_node(d, n, "Where", 3, (gg_value *[]){test, gg_in(n, 0), zero}) : 0;
	if (!y)
		return false;
	gg_replace_value(n->out[0], y);
	gg_remove_node(n);
	return true;
}

GG_GRAD(grad) { gg_give_like(t, n, IN(0), OP("ReluGrad", dy, IN(1))); }

const gg_op gg_op_ReluGrad = {GG_POINTWISE_OP(ReluGrad, "dy where y > 0, else 0: dy, y", 2, 0),
                              .domain = "gg",
                              .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
                              .out = {{GG_FLOATS, 'T'}},
                              .infer = gg_infer_broadcast,
                              .eval = eval,
                              .grad = grad,
                              .expand = expand,
                              .expr = "y > 0 ? x : 0"};
