#include "move.h"
#include <string.h>

static bool infer(gg_infer *f)
{
	gg_shape s;
	f->out[0].dtype = f->in[0].dtype;
	f->out[0].shape = f->in[0].shape;
	if (!gg_broadcast(&f->in[1].shape, &f->in[0].shape, &s) ||
	    (gg_shape_known(&f->in[0].shape) && gg_shape_known(&f->in[1].shape) &&
	     !gg_shape_eq(&f->in[0].shape, &f->in[1].shape)))
		return gg_fail(f, "%s cannot become the value of %s", gg_str(f, &f->in[1].shape),
		               gg_str(f, &f->in[0].shape));
	return true;
}

static bool eval(gg_eval *e)
{
	size_t n = gg_nbytes(&e->out[0]);
	if (n != gg_nbytes(&e->in[1]))
		return gg_fail(e, "the new value has another size");
	if (n && e->out[0].data != e->in[1].data)
		memmove(e->out[0].data, e->in[1].data, n);
	return true;
}

const gg_op gg_op_Assign = {.name = "Assign",
                            .domain = "gg",
                            .doc = "the new value of a variable",
                            .min_in = 2,
                            .max_in = 2,
                            .min_out = 1,
                            .max_out = 1,
                            .in = {{GG_ANY, 'T'}, {GG_ANY, 'T'}},
                            .out = {{GG_ANY, 'T'}},
                            .aliases = (const signed char[]){0, 0, -1},
                            .infer = infer,
                            .eval = eval};
