#include "intmatmul.h"

static bool infer(gg_infer *f)
{
	f->out[0].dtype = GG_I32;
	return gg_infer_matmul(f) && along_fits(f, 2, "zero point of a", &f->in[0].shape, true) &&
	       along_fits(f, 3, "zero point of b", &f->in[1].shape, false);
}

static bool eval(gg_eval *e)
{
	const gg_tensor *za = e->nin > 2 && e->in[2].dtype ? &e->in[2] : 0,
	                *zb = e->nin > 3 && e->in[3].dtype ? &e->in[3] : 0;
	gg_tensor a = less_zero(e, e->in[0], za, true), b = less_zero(e, e->in[1], zb, false);
	gg_matmul(&a, &b, &e->out[0]);
	return true;
}

const gg_op gg_op_MatMulInteger = {.name = "MatMulInteger",
                                   .doc = "matrix product of bytes less their zero points, in i32",
                                   .min_in = 2,
                                   .max_in = 4,
                                   .min_out = 1,
                                   .max_out = 1,
                                   .in = {{GG_BYTES, 'A'}, {GG_BYTES, 'B'}, {GG_BYTES, 'A'}, {GG_BYTES, 'B'}},
                                   .out = {{GG_DT(GG_I32)}},
                                   .infer = infer,
                                   .eval = eval};
