#include "move.h"

/* 4-bit numbers have a byte each in memory; a cast between i4 and u4 extends or drops the sign. */
static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0];
	if (gg_dtype_bits(x->dtype) != 4)
		return gg_eval_copy(e);
	for (int64_t i = 0; i < gg_count(x); i++)
		gg_set_i64(&e->out[0], i, gg_get_i64(x, i));
	return true;
}

static bool infer(gg_infer *f)
{
	gg_dtype from = f->in[0].dtype, to = gg_get_dtype(f->n, "to");
	if (!to || to == GG_STRING)
		return gg_unsupported(f, "bit cast to %s", gg_dtype_name(to));
	if (gg_dtype_bits(from) != gg_dtype_bits(to))
		return gg_fail(f, "%s has %d bits, %s has %d", gg_dtype_name(from), gg_dtype_bits(from),
		               gg_dtype_name(to), gg_dtype_bits(to));
	f->out[0].dtype = to;
	f->out[0].shape = f->in[0].shape;
	return true;
}

#define TYPES (GG_ANY & ~GG_DT(GG_STRING))
const gg_op gg_op_BitCast = {.name = "BitCast",
                             .doc = "the bits of x as another dtype of the same size",
                             .min_in = 1,
                             .max_in = 1,
                             .min_out = 1,
                             .max_out = 1,
                             .attrs = (const gg_attr_spec[]){{"to", GG_ATTR_DTYPE, true, 0}, {0}},
                             .flags = GG_MOVES,
                             .in = {{TYPES}},
                             .out = {{TYPES}},
                             .infer = infer,
                             .eval = eval};
