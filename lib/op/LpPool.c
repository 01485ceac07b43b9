#include "nnkit.h"
#include "grad.h"

static bool infer(gg_infer *f)
{
	int64_t p = gg_get_int(f->n, "p");
	return p < 1 ? gg_fail(f, "attribute 'p' is %lld, expected at least 1", (long long)p)
	             : gg_infer_pool(f);
}

static bool eval(gg_eval *e) { return gg_eval_pool(e, &gg_pool_lp); }

/* |x|^(p-1) sign(x) / y^(p-1), 0 where y is, summed over the windows: a mean times their size */
GG_GRAD(grad)
{
	gg_value *x = IN(0), *less = NUM(dy, (double)gg_get_int(n, "p") - 1);
	gg_value *none = OP("Equal", OUT, NUM(dy, 0));
	gg_value *g = gg_grad_masked(t, none, OP("Div", dy, OP("Pow", OUT, less)), false);
	gg_value *each = OP("Mul", OP("Pow", OP("Abs", x, 0), less), OP("Sign", x, 0));
	const gg_attr *kernel = gg_get_list(n, "kernel_shape");
	double size = 1;
	for (int i = 0; kernel && i < kernel->n; i++)
		size *= (double)kernel->ints[i];
	if (gg_get_int(n, "ceil_mode")) {
		gg_grad_lacks(t, n, "with ceil_mode");
		return;
	}
	g = gg_grad_node(t, n, "AveragePoolGrad", OP("Mul", g, NUM(g, size)), gg_put_shape(t, x), 0);
	if (g)
		gg_set_attr_int(g->producer, "count_include_pad", 1);
	gg_give(t, x, OP("Mul", each, g));
}

const gg_op gg_op_LpPool = {.name = "LpPool",
                            .doc = "Lp norm of each window",
                            .min_in = 1,
                            .max_in = 1,
                            .min_out = 1,
                            .max_out = 1,
                            .attrs = (const gg_attr_spec[]){GG_WINDOW_ATTRS(true),
                                                            {"ceil_mode", GG_ATTR_INT, .def = "0"},
                                                            {"p", GG_ATTR_INT, .def = "2"},
                                                            {0}},
                            .in = {{GG_FLOATS, 'T'}},
                            .out = {{GG_FLOATS, 'T'}},
                            .infer = infer,
                            .eval = eval,
                            .grad = grad};
