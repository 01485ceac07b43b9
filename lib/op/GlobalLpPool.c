#include "nnkit.h"
#include "grad.h"

static bool infer(gg_infer *f)
{
	int64_t p = gg_get_int(f->n, "p");
	return p < 1 ? gg_fail(f, "attribute 'p' is %lld, expected at least 1", (long long)p)
	             : gg_infer_global_pool(f);
}

static bool eval(gg_eval *e) { return gg_eval_global_pool(e, &gg_pool_lp); }

/* |x|^(p-1) sign(x) / y^(p-1), 0 where y is */
GG_GRAD(grad)
{
	gg_value *x = IN(0), *less = NUM(dy, (double)gg_get_int(n, "p") - 1);
	gg_value *none = OP("Equal", OUT, NUM(dy, 0));
	gg_value *g = gg_grad_masked(t, none, OP("Div", dy, OP("Pow", OUT, less)), false);
	gg_value *each = OP("Mul", OP("Pow", OP("Abs", x, 0), less), OP("Sign", x, 0));
	gg_give(t, x, OP("Mul", each, g));
}

const gg_op gg_op_GlobalLpPool = {.name = "GlobalLpPool",
                                  .doc = "Lp norm over all spatial axes",
                                  .min_in = 1,
                                  .max_in = 1,
                                  .min_out = 1,
                                  .max_out = 1,
                                  .attrs = (const gg_attr_spec[]){{"p", GG_ATTR_INT, .def = "2"}, {0}},
                                  .in = {{GG_FLOATS, 'T'}},
                                  .out = {{GG_FLOATS, 'T'}},
                                  .infer = infer,
                                  .eval = eval,
                                  .grad = grad};
