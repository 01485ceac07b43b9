#include "relu_v2.h"

static bool eval(gg_eval *e)
{
	gg_tensor *y = &e->out[0];
	for (int64_t i = 0; i < gg_count(y); i++) {
		gg_set_f64(y, i, gg_get_f64(&e->in[0], i) + gg_get_f64(&e->in[1], i));
		gg_set_f64(y, i, gg_get_f64(y, i) < 0 ? 0 : gg_get_f64(y, i));
	}
	pack_mask(y, &e->out[1]);
	return true;
}

static bool infer(gg_infer *f)
{
	if (gg_shape_known(&f->in[0].shape) && gg_shape_known(&f->in[1].shape) &&
	    !gg_shape_eq(&f->in[0].shape, &f->in[1].shape))
		return gg_fail(f, "inputs have shapes %s and %s, expected equal ones",
		               gg_str(f, &f->in[0].shape), gg_str(f, &f->in[1].shape));
	f->out[0].shape = f->in[0].shape;
	infer_mask(f, 1, &f->in[0].shape);
	return true;
}

static bool expand(gg_diag *d, gg_node *n)
{
	gg_value *x = mask_node(d, n, "Add", n->in[0].value, n->in[1].value), *mask = 0;
	gg_value *y = x ? gg_expand_node(d, n, "Relu", 1, &x) : 0;
	if (!y)
		return false;
	if (n->out[1] && n->out[1]->uses && (!mask_sizes_known(d, n, x) || !(mask = expand_pack(d, n, x))))
		return false;
	return mask_done(n, y, mask);
}

const gg_op gg_op_AddReluV2 = {.name = "AddReluV2",
                               .domain = "gg",
                               .doc = "ReluV2(a + b), of equal shapes",
                               .min_in = 2,
                               .max_in = 2,
                               .min_out = 2,
                               .max_out = 2,
                               .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
                               .out = {{GG_FLOATS, 'T'}, {GG_DT(GG_U32)}},
                               .infer = infer,
                               .eval = eval,
                               .expand = expand};
