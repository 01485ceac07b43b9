#include "move.h"
#include "grad.h"

/* Without axes every dim of 1 goes, which can be told only when all dims are numbers. */
static bool all_ones(const gg_shape *s, uint32_t *bits)
{
	for (int i = 0; i < s->rank; i++) {
		if (!gg_dim_known(s->dim[i]))
			return false;
		*bits |= (uint32_t)(s->dim[i] == 1) << i;
	}
	return true;
}

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape;
	gg_shape *out = &f->out[0].shape;
	bool given = f->nin > 1 && f->in[1].dtype != GG_NONE, known = false;
	uint32_t bits = 0;
	f->out[0].dtype = f->in[0].dtype;
	if (s->rank < 0)
		return true;
	if (given && !gg_want_axes(f, 1, s->rank, &known, &bits))
		return false;
	if (!given)
		known = all_ones(s, &bits);
	if (!known) {
		const gg_shape *axes = given ? &f->in[1].shape : &gg_shape_unknown;
		if (axes->rank == 1 && gg_dim_known(axes->dim[0]) && axes->dim[0] <= s->rank)
			gg_unknown_dims(f, 0, s->rank - (int)axes->dim[0]);
		return true;
	}
	out->rank = 0;
	for (int i = 0; i < s->rank; i++) {
		if (!(bits >> i & 1))
			out->dim[out->rank++] = s->dim[i];
		else if (gg_dim_known(s->dim[i]) && s->dim[i] != 1)
			return gg_fail(f, "axis %d of %s is not 1", i, gg_str(f, s));
	}
	gg_view_content(f);
	return true;
}

const gg_op gg_op_Squeeze = {.name = "Squeeze",
                             .doc = "x without its dims of 1, or without those that axes name",
                             .min_in = 1,
                             .max_in = 2,
                             .min_out = 1,
                             .max_out = 1,
                             .flags = GG_VIEW,
                             .in = {{GG_ANY, 'T'}, {GG_DT(GG_I64)}},
                             .out = {{GG_ANY, 'T'}},
                             .optional = 1 << 1,
                             .infer = infer,
                             .eval = gg_eval_copy,
                             .grad = gg_grad_reshape};
