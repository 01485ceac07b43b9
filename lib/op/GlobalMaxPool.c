#include "nnkit.h"
#include "grad.h"

static bool eval(gg_eval *e) { return gg_eval_global_pool(e, &gg_pool_max); }

/* Shared by the elements that are the greatest. */
GG_GRAD(grad)
{
	int64_t axis[GG_MAX_RANK];
	int count = 0;
	gg_value *x = IN(0), *here = gg_put_cast(t, OP("Equal", x, OUT), (gg_dtype)x->dtype);
	for (int i = 2; i < x->shape.rank; i++)
		axis[count++] = i;
	gg_value *many = gg_put_reduce(t, "ReduceSum", here, count, axis, true);
	gg_give(t, x, OP("Mul", here, OP("Div", dy, many)));
}

const gg_op gg_op_GlobalMaxPool = {.name = "GlobalMaxPool",
                                   .doc = "maximum over all spatial axes",
                                   .min_in = 1,
                                   .max_in = 1,
                                   .min_out = 1,
                                   .max_out = 1,

                                   .in = {{GG_FLOATS, 'T'}},
                                   .out = {{GG_FLOATS, 'T'}},
                                   .infer = gg_infer_global_pool,
                                   .eval = eval,
                                   .grad = grad};
