#include "relu_v2.h"

static bool eval(gg_eval *e)
{
	for (int64_t i = 0; i < gg_count(&e->out[0]); i++)
		gg_set_f64(&e->out[0], i,
		           mask_bit(&e->in[2], i) ? gg_get_f64(&e->in[0], i) + gg_get_f64(&e->in[1], i) : 0);
	return true;
}

static bool infer(gg_infer *f)
{
	if (gg_shape_known(&f->in[0].shape) && gg_shape_known(&f->in[1].shape) &&
	    !gg_shape_eq(&f->in[0].shape, &f->in[1].shape))
		return gg_fail(f, "inputs have shapes %s and %s, expected equal ones",
		               gg_str(f, &f->in[0].shape), gg_str(f, &f->in[1].shape));
	return gg_infer_same(f) && check_mask(f, 2, &f->in[0].shape);
}

static bool expand(gg_diag *d, gg_node *n)
{
	gg_value *dy = mask_node(d, n, "Add", n->in[0].value, n->in[1].value);
	gg_value *dx = dy && mask_sizes_known(d, n, dy) ? expand_select(d, n, dy, n->in[2].value) : 0;
	return dx && mask_done(n, dx, 0);
}

const gg_op gg_op_AddReluGradV2 = {.name = "AddReluGradV2",
                                   .domain = "gg",
                                   .doc = "a + b where the mask of ReluV2 has its bit, else 0; equal shapes",
                                   .min_in = 3,
                                   .max_in = 3,
                                   .min_out = 1,
                                   .max_out = 1,
                                   .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_DT(GG_U32)}},
                                   .out = {{GG_FLOATS, 'T'}},
                                   .infer = infer,
                                   .eval = eval,
                                   .expand = expand};
