#include "nnkit.h"
#include "grad.h"

static bool infer(gg_infer *f)
{
	gg_dim channels = f->in[1].shape.rank < 0 ? gg_unknown_dim(f, 0, 1) : f->in[1].shape.dim[0];
	return gg_infer_conv(f, 0, 1) && (!gg_given(f, 2) || gg_check_vector(f, 2, "bias", channels));
}

static bool eval(gg_eval *e) { return gg_eval_conv(e, gg_has(e, 2) ? 2 : -1); }

GG_GRAD(grad)
{
	if (gg_grad_wanted(IN(2)))
		gg_give(t, IN(2), gg_grad_channel_sum(t, dy));
	if (gg_grad_wanted(IN(1)))
		gg_give(t, IN(1), gg_grad_node(t, n, "ConvWeightGrad", dy, IN(0), IN(1)));
	if (gg_grad_wanted(IN(0)))
		gg_give(t, IN(0), gg_grad_node(t, n, "ConvInputGrad", dy, IN(1), IN(0)));
}

const gg_op gg_op_Conv = {.name = "Conv",
                          .doc = "convolution over any number of spatial axes",
                          .min_in = 2,
                          .max_in = 3,
                          .min_out = 1,
                          .max_out = 1,
                          .attrs = (const gg_attr_spec[]){GG_CONV_ATTRS, {0}},
                          .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
                          .out = {{GG_FLOATS, 'T'}},
                          .infer = infer,
                          .eval = eval,
                          .grad = grad};
