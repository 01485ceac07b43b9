#include "poolgrad.h"
#include <string.h>

static bool infer(gg_infer *f) { return infer_shape_input(f, 1, f->in[0].shape.rank) && check_pool_dy(f); }

static bool eval(gg_eval *e) { return gg_eval_pool_grad(e, &gg_pool_average); }

/* What each window counts: its taps inside, which pooling ones with pads counted says. */
static gg_value *per_window(gg_kit k, gg_value *dy, double taps)
{
	gg_dtype t = (gg_dtype)dy->dtype;
	gg_value *count = kit_number(k, t, taps), *ones;
	if (!gg_get_int(k.n, "count_include_pad")) {
		ones = kit_op(k, "Expand", kit_number(k, t, 1), gg_in(k.n, 1));
		gg_node *p = kit_node(k, "AveragePool", 1, &ones);
		if (p) {
			gg_copy_attrs(p, k.n);
			gg_set_attr_int(p, "count_include_pad", 1);
		}
		count = kit_op(k, "Mul", kit_done(k, p), count);
	}
	return kit_op(k, "Div", dy, count);
}

/* Each window's part spread over its taps: a transposed convolution by ones. Not where windows stick
 * out of the padded input. */
static bool expand(gg_diag *d, gg_node *n)
{
	gg_kit k = {d, n};
	const gg_shape *s = &n->out[0]->shape;
	int64_t rest[GG_MAX_RANK], pads[2 * GG_MAX_RANK], dim[GG_MAX_RANK];
	double taps = 1;
	gg_window w;
	if (s->rank < 3 || !gg_dim_known(s->dim[1]) || !gg_window_pool(d, n, s, &w))
		return false;
	dim[0] = s->dim[1];
	dim[1] = 1;
	for (int i = 0; i < w.nd; i++) {
		if (!gg_dim_known(w.in[i]))
			return false;
		rest[i] = w.in[i] + w.begin[i] + w.end[i] - (w.out[i] - 1) * w.stride[i] -
		          (w.kernel[i] - 1) * w.dilation[i] - 1;
		if (rest[i] < 0 || w.out[i] < 1)
			return false;
		pads[i] = w.begin[i];
		pads[w.nd + i] = w.end[i];
		dim[2 + i] = w.kernel[i];
		taps *= (double)w.kernel[i];
	}
	gg_value *ones = kit_op(k, "Expand", kit_number(k, (gg_dtype)n->out[0]->dtype, 1),
	                        kit_ints(k, w.nd + 2, dim));
	gg_value *each = per_window(k, gg_in(n, 0), taps);
	gg_node *p = kit_node(k, "ConvTranspose", 2, (gg_value *[]){each, ones});
	if (p) {
		gg_set_attr_int(p, "group", dim[0]);
		gg_set_attr_ints(p, "strides", w.nd, w.stride);
		gg_set_attr_ints(p, "dilations", w.nd, w.dilation);
		gg_set_attr_ints(p, "pads", 2 * w.nd, pads);
		gg_set_attr_ints(p, "output_padding", w.nd, rest);
	}
	gg_value *y = kit_done(k, p);
	return kit_replace(k, &y);
}

const gg_op gg_op_AveragePoolGrad = {
    .name = "AveragePoolGrad",
    .domain = "gg",
    .doc = "the gradient of AveragePool: dy, shape of the input",
    .min_in = 2,
    .max_in = 2,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){GG_WINDOW_ATTRS(true),
                                    {"ceil_mode", GG_ATTR_INT, .def = "0"},
                                    {"count_include_pad", GG_ATTR_INT, .def = "0"},
                                    {0}},
    .in = {{GG_FLOATS, 'T'}, {GG_DT(GG_I64)}},
    .out = {{GG_FLOATS, 'T'}},
    .infer = infer,
    .eval = eval,
    .expand = expand};
