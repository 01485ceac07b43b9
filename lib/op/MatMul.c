#include "opkit.h"

static bool eval(gg_eval *e)
{
	gg_matmul(&e->in[0], &e->in[1], &e->out[0]);
	return true;
}

#define TYPES (GG_FLOATS | GG_DT(GG_I32) | GG_DT(GG_I64) | GG_DT(GG_U32) | GG_DT(GG_U64))
const gg_op gg_op_MatMul = {.name = "MatMul",
                            .doc = "matrix product of a and b, as NumPy's matmul",
                            .min_in = 2,
                            .max_in = 2,
                            .min_out = 1,
                            .max_out = 1,
                            .in = {{TYPES, 'T'}, {TYPES, 'T'}},
                            .out = {{TYPES, 'T'}},
                            .infer = gg_infer_matmul,
                            .eval = eval};
