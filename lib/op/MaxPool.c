#include "nnkit.h"
#include "grad.h"

static bool infer(gg_infer *f)
{
	int64_t order = gg_get_int(f->n, "storage_order");
	if (order != 0 && order != 1)
		return gg_fail(f, "attribute 'storage_order' is %lld, expected 0 or 1", (long long)order);
	if (!gg_infer_pool(f))
		return false;
	if (f->nout > 1)
		f->out[1].shape = f->out[0].shape;
	return true;
}

/* NaN wins. */
static bool eval(gg_eval *e) { return gg_eval_pool(e, &gg_pool_max); }

GG_GRAD(grad) { gg_give(t, IN(0), gg_grad_node(t, n, "MaxPoolGrad", dy, IN(0), 0)); }

#define TYPES (GG_FLOATS | GG_DT(GG_I8) | GG_DT(GG_U8))
const gg_op gg_op_MaxPool = {.name = "MaxPool",
                             .doc = "maximum of each window, and where it was",
                             .min_in = 1,
                             .max_in = 1,
                             .min_out = 1,
                             .max_out = 2,
                             .attrs = (const gg_attr_spec[]){GG_WINDOW_ATTRS(true),
                                                             {"ceil_mode", GG_ATTR_INT, .def = "0"},
                                                             {"storage_order", GG_ATTR_INT, .def = "0"},
                                                             {0}},
                             .in = {{TYPES, 'T'}},
                             .out = {{TYPES, 'T'}, {GG_DT(GG_I64)}},
                             .infer = infer,
                             .eval = eval,
                             .grad = grad};
