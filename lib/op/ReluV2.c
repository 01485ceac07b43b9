#include "relu_v2.h"

static bool eval(gg_eval *e)
{
	for (int64_t i = 0; i < gg_count(&e->in[0]); i++) {
		double x = gg_get_f64(&e->in[0], i);
		gg_set_f64(&e->out[0], i, x < 0 ? 0 : x);
	}
	pack_mask(&e->out[0], &e->out[1]);
	return true;
}

static bool infer(gg_infer *f)
{
	f->out[0].shape = f->in[0].shape;
	infer_mask(f, 1, &f->in[0].shape);
	return true;
}

static bool expand(gg_diag *d, gg_node *n)
{
	gg_value *x = n->in[0].value, *mask = 0;
	gg_value *y = gg_expand_node(d, n, "Relu", 1, &x);
	if (!y)
		return false;
	if (n->out[1] && n->out[1]->uses && (!mask_sizes_known(d, n, x) || !(mask = expand_pack(d, n, x))))
		return false;
	return mask_done(n, y, mask);
}

const gg_op gg_op_ReluV2 = {.name = "ReluV2",
                            .domain = "gg",
                            .doc = "Relu(x), and a bit for each element that is above 0",
                            .min_in = 1,
                            .max_in = 1,
                            .min_out = 2,
                            .max_out = 2,
                            .in = {{GG_FLOATS, 'T'}},
                            .out = {{GG_FLOATS, 'T'}, {GG_DT(GG_U32)}},
                            .infer = infer,
                            .eval = eval,
                            .expand = expand};
