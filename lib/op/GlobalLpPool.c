#include "nnkit.h"

static bool infer(gg_infer *f)
{
	int64_t p = gg_get_int(f->n, "p");
	return p < 1 ? gg_fail(f, "attribute 'p' is %lld, expected at least 1", (long long)p)
	             : gg_infer_global_pool(f);
}

static bool eval(gg_eval *e) { return gg_eval_global_pool(e, &gg_pool_lp); }

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
                                  .eval = eval};
