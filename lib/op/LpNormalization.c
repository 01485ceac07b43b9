#include "nnkit.h"
#include "grad.h"
#include <math.h>

/* A row of norm 0 stays 0. */
static void row(double *v, int64_t n, const gg_node *node)
{
	bool squares = gg_get_int(node, "p") == 2;
	double sum = 0;
	for (int64_t i = 0; i < n; i++)
		sum += squares ? v[i] * v[i] : fabs(v[i]);
	double norm = squares ? sqrt(sum) : sum;
	for (int64_t i = 0; i < n && norm != 0; i++)
		v[i] /= norm;
}

static bool infer(gg_infer *f)
{
	int64_t p = gg_get_int(f->n, "p");
	return p == 1 || p == 2 ? gg_infer_rows(f)
	                        : gg_fail(f, "attribute 'p' is %lld, expected 1 or 2", (long long)p);
}

static bool eval(gg_eval *e) { return gg_eval_rows(e, gg_get_int(e->n, "axis"), row); }

/* (dy - u sum(dy y)) / norm, u = y, or sign(x) for p = 1; 0 where the norm is */
GG_GRAD(grad)
{
	gg_value *x = IN(0);
	int64_t axis = gg_get_int(n, "axis"), two = gg_get_int(n, "p") == 2;
	gg_value *norm = gg_put_reduce(t, two ? "ReduceL2" : "ReduceL1", x, 1, &axis, true);
	gg_value *sum = gg_put_reduce(t, "ReduceSum", OP("Mul", dy, OUT), 1, &axis, true);
	gg_value *along = OP("Mul", two ? OUT : OP("Sign", x, 0), sum);
	gg_value *g = OP("Div", OP("Sub", dy, along), norm);
	gg_give(t, x, gg_grad_masked(t, OP("Equal", norm, NUM(dy, 0)), g, false));
}

const gg_op gg_op_LpNormalization = {
    .name = "LpNormalization",
    .doc = "x / Lp norm along one axis",
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"axis", GG_ATTR_INT, .def = "-1"}, {"p", GG_ATTR_INT, .def = "2"}, {0}},
    .in = {{GG_FLOATS, 'T'}},
    .out = {{GG_FLOATS, 'T'}},
    .infer = infer,
    .eval = eval,
    .grad = grad};
