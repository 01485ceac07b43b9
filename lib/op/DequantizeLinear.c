#include "opkit.h"

#define QUANTS \
	(GG_DT(GG_U8) | GG_DT(GG_I8) | GG_DT(GG_U16) | GG_DT(GG_I16) | GG_DT(GG_U4) | GG_DT(GG_I4) | \
	 GG_DT(GG_I32) | GG_DT(GG_F8E4M3) | GG_DT(GG_F8E5M2))
#define SCALES (GG_DT(GG_F32) | GG_DT(GG_F16) | GG_DT(GG_BF16))

static bool infer(gg_infer *f)
{
	gg_dtype want = gg_get_dtype(f->n, "output_dtype");
	f->out[0].dtype = want ? want : f->in[1].dtype;
	if (want && !(SCALES & GG_DT(want)))
		return gg_unsupported(f, "output_dtype %s", gg_dtype_name(want));
	return gg_infer_quant(f);
}

static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0], *scale = &e->in[1],
	                *zero = e->nin > 2 && e->in[2].dtype ? &e->in[2] : 0;
	gg_quant q = gg_quant_of(e);
	for (int64_t o = 0, at = 0; o < q.outer; o++) {
		for (int64_t k = 0; k < q.n; k++) {
			for (int64_t i = 0; i < q.inner; i++, at++) {
				int64_t s = o * q.so + k / q.block * q.sk + i * q.si;
				double z = zero ? gg_get_f64(zero, s) : 0;
				gg_set_f64(&e->out[0], at, (gg_get_f64(x, at) - z) * gg_get_f64(scale, s));
			}
		}
	}
	return true;
}

const gg_op gg_op_DequantizeLinear = {
    .name = "DequantizeLinear",
    .doc = "(x - zero point) * scale",
    .min_in = 2,
    .max_in = 3,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"axis", GG_ATTR_INT, false, "1"},
                                    {"block_size", GG_ATTR_INT, false, "0"},
                                    {"output_dtype", GG_ATTR_DTYPE, false, 0},
                                    {0}},
    .in = {{QUANTS, 'Q'}, {SCALES}, {QUANTS, 'Q'}},
    .out = {{SCALES}},
    .infer = infer,
    .eval = eval};
