#include "relu_v2.h"

static bool eval(gg_eval *e)
{
	for (int64_t i = 0; i < gg_count(&e->in[0]); i++)
		gg_set_f64(&e->out[0], i, mask_bit(&e->in[1], i) ? gg_get_f64(&e->in[0], i) : 0);
	return true;
}

static bool infer(gg_infer *f) { return gg_infer_same(f) && check_mask(f, 1, &f->in[0].shape); }

static bool expand(gg_diag *d, gg_node *n)
{
	gg_value *dy = n->in[0].value;
	gg_value *dx = mask_sizes_known(d, n, dy) ? expand_select(d, n, dy, n->in[1].value) : 0;
	return dx && mask_done(n, dx, 0);
}

const gg_op gg_op_ReluGradV2 = {.name = "ReluGradV2",
                                .domain = "gg",
                                .doc = "dy where the mask of ReluV2 has its bit, else 0",
                                .min_in = 2,
                                .max_in = 2,
                                .min_out = 1,
                                .max_out = 1,
                                .in = {{GG_FLOATS, 'T'}, {GG_DT(GG_U32)}},
                                .out = {{GG_FLOATS, 'T'}},
                                .infer = infer,
                                .eval = eval,
                                .expand = expand};
