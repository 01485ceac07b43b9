#include "nnkit.h"
#include "grad.h"

static bool eval(gg_eval *e) { return gg_eval_global_pool(e, &gg_pool_average); }

GG_GRAD(grad)
{
	gg_value *each = OP("Div", gg_put_count(t, OUT), gg_put_count(t, IN(0)));
	gg_give(t, IN(0), gg_put_expand(t, OP("Mul", dy, each), IN(0)));
}

const gg_op gg_op_GlobalAveragePool = {.name = "GlobalAveragePool",
                                       .doc = "mean over all spatial axes",
                                       .min_in = 1,
                                       .max_in = 1,
                                       .min_out = 1,
                                       .max_out = 1,

                                       .in = {{GG_FLOATS, 'T'}},
                                       .out = {{GG_FLOATS, 'T'}},
                                       .infer = gg_infer_global_pool,
                                       .eval = eval,
                                       .grad = grad};
