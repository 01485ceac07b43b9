#include "move.h"
#include "grad.h"

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape;
	int64_t axis = gg_get_int(f->n, "axis");
	f->out[0].dtype = f->in[0].dtype;
	if (s->rank < 0) {
		gg_unknown_dims(f, 0, 2);
		return true;
	}
	if (axis < -s->rank || axis > s->rank)
		return gg_fail(f, "axis %lld, but rank is %d", (long long)axis, s->rank);
	int at = (int)(axis < 0 ? axis + s->rank : axis);
	f->out[0].shape = gg_shape_of(
	    2, (gg_dim[]){gg_shape_count_dim(s, 0, at), gg_shape_count_dim(s, at, s->rank)});
	gg_view_content(f);
	return true;
}

const gg_op gg_op_Flatten = {.name = "Flatten",
                             .doc = "x as a matrix: the dims before axis, the dims from it on",
                             .min_in = 1,
                             .max_in = 1,
                             .min_out = 1,
                             .max_out = 1,
                             .attrs = (const gg_attr_spec[]){{"axis", GG_ATTR_INT, false, "1"}, {0}},
                             .flags = GG_VIEW,
                             .in = {{GG_ANY, 'T'}},
                             .out = {{GG_ANY, 'T'}},
                             .infer = infer,
                             .eval = gg_eval_copy,
                             .grad = gg_grad_reshape};
