#include "token.h"

static bool infer(gg_infer *f)
{
	if (f->nin != f->nout)
		return gg_fail(f, "it has %d outputs for %d inputs", f->nout, f->nin);
	if (!all_given(f, 0))
		return false;
	for (int i = 0; i < f->nin; i++)
		infer_copy(f, i, i);
	return true;
}

static bool eval(gg_eval *e)
{
	for (int i = 0; i < e->nout; i++)
		eval_one(e, i, i);
	return true;
}

/* A tuple is the run of its elements: output i is input i. */
const gg_op gg_op_MakeTuple = {.name = "MakeTuple",
                               .domain = "gg",
                               .doc = "the inputs, as the elements of a tuple",
                               .min_in = 1,
                               .max_in = -1,
                               .min_out = 1,
                               .max_out = -1,
                               .flags = GG_MOVES,
                               .in = {{GG_ANY}},
                               .out = {{GG_ANY}},
                               .infer = infer,
                               .eval = eval};
