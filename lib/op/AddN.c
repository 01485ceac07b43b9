#include "pointwise.h"
#include "grad.h"

static double f(double x, double y, const double *attr) { return x + y; }
static int64_t i(int64_t x, int64_t y, const double *attr) { return (int64_t)((uint64_t)x + (uint64_t)y); }
static bool eval(gg_eval *e) { return gg_map_fold(e, f, i, 1); }

static bool infer(gg_infer *n)
{
	for (int k = 1; k < n->nin; k++)
		if (gg_shape_known(&n->in[0].shape) && gg_shape_known(&n->in[k].shape) &&
		    !gg_shape_eq(&n->in[0].shape, &n->in[k].shape))
			return gg_fail(n, "input %d has shape %s, input 0 %s", k, gg_str(n, &n->in[k].shape),
			               gg_str(n, &n->in[0].shape));
	return gg_infer_broadcast(n);
}

/* Sum has floats only. */
static bool expand(gg_diag *d, gg_node *n)
{
	int nin = gg_nargs(n);
	gg_value **in = gg_alloc_n(&n->graph->m->arena, (size_t)nin, sizeof *in), *v = gg_in(n, 0);
	for (int k = 0; k < nin; k++)
		in[k] = gg_in(n, k);
	if (gg_dtype_class((gg_dtype)v->dtype) == 'F')
		v = gg_expand_node(d, n, "Sum", nin, in);
	else if (nin == 1)
		v = gg_expand_node(d, n, "Identity", 1, in);
	for (int k = 1; v && k < nin && gg_dtype_class((gg_dtype)v->dtype) != 'F'; k++)
		v = gg_expand_node(d, n, "Add", 2, (gg_value *[]){v, in[k]});
	if (!v)
		return false;
	gg_replace_value(n->out[0], v);
	gg_remove_node(n);
	return true;
}

const gg_op gg_op_AddN = {GG_VARIADIC(AddN, "the sum of inputs of one shape", GG_NUMBERS),
                          .domain = "gg",
                          .infer = infer,
                          .eval = eval,
                          .grad = gg_grad_sum,
                          .expand = expand,
                          .expr = "x + y"};
