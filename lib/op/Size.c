#include "move.h"

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape;
	f->out[0].dtype = GG_I64;
	f->out[0].shape = gg_shape_of(0, NULL);
	if (s->rank >= 0) {
		gg_dim *d = gg_alloc(f->a, sizeof *d);
		*d = gg_shape_count_dim(s, 0, s->rank);
		f->out[0].content = d;
	}
	return true;
}

static bool eval(gg_eval *e)
{
	gg_set_i64(&e->out[0], 0, gg_count(&e->in[0]));
	return true;
}

const gg_op gg_op_Size = {.name = "Size",
                          .doc = "the number of elements of x",
                          .min_in = 1,
                          .max_in = 1,
                          .min_out = 1,
                          .max_out = 1,
                          .flags = GG_MOVES,
                          .in = {{GG_ANY}},
                          .out = {{GG_DT(GG_I64)}},
                          .infer = infer,
                          .eval = eval};
