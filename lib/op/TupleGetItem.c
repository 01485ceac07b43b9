#include "token.h"

static bool infer(gg_infer *f)
{
	int64_t i = gg_get_int(f->n, "index");
	if (i < 0 || i >= f->nin)
		return gg_fail(f, "index is %lld, the tuple has %d element%s", (long long)i, f->nin,
		               f->nin == 1 ? "" : "s");
	infer_copy(f, 0, (int)i);
	return all_given(f, 0);
}

static bool eval(gg_eval *e) { return eval_one(e, 0, (int)gg_get_int(e->n, "index")); }

const gg_op gg_op_TupleGetItem = {.name = "TupleGetItem",
                                  .domain = "gg",
                                  .doc = "one of the inputs, which are the elements of a tuple",
                                  .min_in = 1,
                                  .max_in = -1,
                                  .min_out = 1,
                                  .max_out = 1,
                                  .attrs = (const gg_attr_spec[]){{"index", GG_ATTR_INT, true}, {0}},
                                  .flags = GG_MOVES,
                                  .in = {{GG_ANY}},
                                  .out = {{GG_ANY}},
                                  .infer = infer,
                                  .eval = eval};
