#include "groupnorm.h"
#include "grad.h"

static bool eval(gg_eval *e) { return normalize_groups(e, e->in[0].shape.dim[1]); }

GG_GRAD(grad)
{
	int64_t over[GG_MAX_RANK];
	int count = 0;
	gg_value *x = IN(0);
	for (int i = 2; i < x->shape.rank; i++)
		over[count++] = i;
	if (!count) {
		gg_grad_lacks(t, n, "the rank of its input is not known");
		return;
	}
	gg_value *inverse, *hat = gg_grad_normal(t, x, gg_get_float(n, "epsilon"), 0, count, over, &inverse);
	if (gg_grad_wanted(IN(1)))
		gg_give(t, IN(1), gg_grad_channel_sum(t, OP("Mul", dy, hat)));
	if (gg_grad_wanted(IN(2)))
		gg_give(t, IN(2), gg_grad_channel_sum(t, dy));
	if (!gg_grad_wanted(x))
		return;
	gg_value *g = OP("Mul", dy, gg_grad_channels(t, IN(1), x));
	gg_give(t, x, gg_grad_normalised(t, g, hat, inverse, count, over));
}

const gg_op gg_op_InstanceNormalization = {
    .name = "InstanceNormalization",
    .doc = "each channel normalised over its space, then scale and bias",
    .min_in = 3,
    .max_in = 3,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"epsilon", GG_ATTR_FLOAT, .def = "1e-05"}, {0}},
    .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
    .out = {{GG_FLOATS, 'T'}},
    .infer = infer_channels,
    .eval = eval,
    .grad = grad};
