#include "groupnorm.h"
#include "grad.h"

static bool infer(gg_infer *f)
{
	const gg_shape *x = &f->in[0].shape;
	int64_t groups = gg_get_int(f->n, "num_groups"), code = gg_get_int(f->n, "stash_type");
	gg_dtype stash = gg_dtype_from_onnx(code);
	if (!infer_channels(f))
		return false;
	if (groups < 1)
		return gg_fail(f, "attribute 'num_groups' is %lld, expected at least 1", (long long)groups);
	if (!stash || !(GG_FLOATS & GG_DT(stash)))
		return gg_unsupported(f, "stash_type %lld", (long long)code);
	if (x->rank >= 0 && gg_dim_known(x->dim[1]) && x->dim[1] % groups)
		return gg_fail(f, "input has %lld channels, not a multiple of num_groups %lld",
		               (long long)x->dim[1], (long long)groups);
	return true;
}

static bool eval(gg_eval *e) { return normalize_groups(e, gg_get_int(e->n, "num_groups")); }

/* With the elements of a group as the last axis of three. */
GG_GRAD(grad)
{
	static const int64_t last[] = {2};
	int64_t dim[] = {0, gg_get_int(n, "num_groups"), -1};
	gg_value *x = IN(0), *as = gg_put_ints(t, 3, dim), *inverse;
	gg_value *hat = gg_grad_normal(t, OP("Reshape", x, as), gg_get_float(n, "epsilon"), 0, 1, last,
	                               &inverse);
	if (gg_grad_wanted(IN(1)))
		gg_give(t, IN(1), gg_grad_channel_sum(t, OP("Mul", dy, gg_put_reshape(t, hat, x))));
	if (gg_grad_wanted(IN(2)))
		gg_give(t, IN(2), gg_grad_channel_sum(t, dy));
	if (!gg_grad_wanted(x))
		return;
	gg_value *g = OP("Reshape", OP("Mul", dy, gg_grad_channels(t, IN(1), x)), as);
	gg_give(t, x, gg_put_reshape(t, gg_grad_normalised(t, g, hat, inverse, 1, last), x));
}

const gg_op gg_op_GroupNormalization = {
    .name = "GroupNormalization",
    .doc = "groups of channels normalised over themselves and space, then scale and bias",
    .min_in = 3,
    .max_in = 3,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"epsilon", GG_ATTR_FLOAT, .def = "1e-05"},
                                    {"num_groups", GG_ATTR_INT, .required = true},
                                    {"stash_type", GG_ATTR_INT, .def = "1"},
                                    {0}},
    .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
    .out = {{GG_FLOATS, 'T'}},
    .infer = infer,
    .eval = eval,
    .grad = grad};
