#include "opkit.h"
#include <math.h>

#define QUANTS \
	(GG_DT(GG_U8) | GG_DT(GG_I8) | GG_DT(GG_U16) | GG_DT(GG_I16) | GG_DT(GG_U4) | GG_DT(GG_I4) | \
	 GG_DT(GG_F8E4M3) | GG_DT(GG_F8E5M2))

static bool infer(gg_infer *f)
{
	gg_dtype zero = f->nin > 2 ? f->in[2].dtype : GG_NONE, want = gg_get_dtype(f->n, "output_dtype");
	gg_dtype precision = gg_get_dtype(f->n, "precision");
	f->out[0].dtype = zero ? zero : want ? want : GG_U8;
	if (zero && want && zero != want)
		return gg_fail(f, "output_dtype is %s, but the zero point is %s", gg_dtype_name(want),
		               gg_dtype_name(zero));
	if (!(QUANTS & GG_DT(f->out[0].dtype)))
		return gg_unsupported(f, "output_dtype %s", gg_dtype_name(f->out[0].dtype));
	if (precision && !(GG_FLOATS & GG_DT(precision)))
		return gg_unsupported(f, "precision %s", gg_dtype_name(precision));
	return gg_infer_quant(f);
}

/* Rounds half to even, adds the zero point, saturates; NaN becomes the zero point. */
static void store_int(gg_tensor *y, int64_t at, double v, double zero)
{
	int bits = gg_dtype_bits(y->dtype);
	bool is_signed = gg_dtype_class(y->dtype) == 'I';
	double lo = is_signed ? -ldexp(1, bits - 1) : 0, hi = ldexp(1, is_signed ? bits - 1 : bits) - 1;
	v = v != v ? zero : rint(v) + zero;
	gg_set_f64(y, at, v < lo ? lo : v > hi ? hi : v);
}

static void store_f8(gg_tensor *y, int64_t at, double v, bool saturate)
{
	uint8_t *p = y->data;
	p[at] = y->dtype == GG_F8E4M3 ? gg_f8e4m3_from(v, saturate) : gg_f8e5m2_from(v, saturate);
}

/* The quotient is rounded to the precision asked for, which is the scale's unless named. */
static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0], *scale = &e->in[1],
	                *zero = e->nin > 2 && e->in[2].dtype ? &e->in[2] : 0;
	gg_tensor *y = &e->out[0];
	gg_quant q = gg_quant_of(e);
	bool is_float = gg_dtype_class(y->dtype) == 'F', saturate = gg_get_int(e->n, "saturate");
	gg_dtype p = gg_get_dtype(e->n, "precision");
	p = p ? p : gg_dtype_class(scale->dtype) == 'F' ? scale->dtype : GG_F32;
	for (int64_t o = 0, at = 0; o < q.outer; o++) {
		for (int64_t k = 0; k < q.n; k++) {
			for (int64_t i = 0; i < q.inner; i++, at++) {
				int64_t s = o * q.so + k / q.block * q.sk + i * q.si;
				double by = gg_round_to(p, gg_get_f64(scale, s)),
				       z = zero ? gg_get_f64(zero, s) : 0;
				double v = gg_round_to(p, gg_round_to(p, gg_get_f64(x, at)) / by);
				if (is_float)
					store_f8(y, at, v + z, saturate);
				else
					store_int(y, at, v, z);
			}
		}
	}
	return true;
}

#define FLOATS (GG_DT(GG_F32) | GG_DT(GG_F16) | GG_DT(GG_BF16) | GG_DT(GG_I32))
const gg_op gg_op_QuantizeLinear = {.name = "QuantizeLinear",
                                    .doc = "x / scale rounded and shifted by the zero point",
                                    .min_in = 2,
                                    .max_in = 3,
                                    .min_out = 1,
                                    .max_out = 1,
                                    .attrs = (const gg_attr_spec[]){{"axis", GG_ATTR_INT, false, "1"},
                                                                    {"block_size", GG_ATTR_INT, false, "0"},
                                                                    {"output_dtype", GG_ATTR_DTYPE, false, 0},
                                                                    {"precision", GG_ATTR_DTYPE, false, 0},
                                                                    {"saturate", GG_ATTR_INT, false, "1"},
                                                                    {0}},
                                    .in = {{FLOATS}, {FLOATS}, {QUANTS}},
                                    .out = {{QUANTS}},
                                    .infer = infer,
                                    .eval = eval};
