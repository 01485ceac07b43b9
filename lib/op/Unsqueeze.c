#include "move.h"
#include "grad.h"

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape, *axes = &f->in[1].shape;
	gg_shape *out = &f->out[0].shape;
	bool known;
	uint32_t bits;
	f->out[0].dtype = f->in[0].dtype;
	if (axes->rank > 1)
		return gg_fail(f, "axes have rank %d, expected 1", axes->rank);
	if (s->rank < 0 || axes->rank < 0 || (axes->rank == 1 && !gg_dim_known(axes->dim[0])))
		return true;
	int64_t more = axes->rank ? axes->dim[0] : 1;
	if (s->rank + more > GG_MAX_RANK)
		return gg_unsupported(f, "rank %lld, at most %d is supported", (long long)(s->rank + more),
		                      GG_MAX_RANK);
	if (!gg_want_axes(f, 1, s->rank + (int)more, &known, &bits))
		return false;
	if (!known) {
		gg_unknown_dims(f, 0, s->rank + (int)more);
		return true;
	}
	out->rank = s->rank + (int)more;
	for (int i = 0, at = 0; i < out->rank; i++)
		out->dim[i] = bits >> i & 1 ? 1 : s->dim[at++];
	gg_view_content(f);
	return true;
}

const gg_op gg_op_Unsqueeze = {.name = "Unsqueeze",
                               .doc = "x with dims of 1 put in at axes of the result",
                               .min_in = 2,
                               .max_in = 2,
                               .min_out = 1,
                               .max_out = 1,
                               .flags = GG_VIEW,
                               .in = {{GG_ANY, 'T'}, {GG_DT(GG_I64)}},
                               .out = {{GG_ANY, 'T'}},
                               .infer = infer,
                               .eval = gg_eval_copy,
                               .grad = gg_grad_reshape};
