#include "opkit.h"
#include <math.h>

/* Each step is rounded to f32, as its definition by plain f32 ops does. */
static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0];
	const float *v = x->data;
	int64_t n = gg_count(x);
	float least = 0, most = 0;
	for (int64_t i = 0; i < n; i++) {
		least = v[i] < least ? v[i] : least;
		most = v[i] > most ? v[i] : most;
	}
	float scale = most == least ? 1 : (most - least) / 255;
	float zero = rintf(fminf(fmaxf(0 - least / scale, 0), 255));
	for (int64_t i = 0; i < n; i++) {
		float q = rintf(v[i] / scale) + zero;
		((uint8_t *)e->out[0].data)[i] = q > 255 ? 255 : q > 0 ? (uint8_t)q : 0;
	}
	gg_set_f64(&e->out[1], 0, scale);
	gg_set_f64(&e->out[2], 0, zero);
	return true;
}

static bool infer(gg_infer *f)
{
	f->out[0].shape = f->in[0].shape;
	f->out[1].shape = f->out[2].shape = (gg_shape){.rank = 0};
	return true;
}

const gg_op gg_op_DynamicQuantizeLinear = {
    .name = "DynamicQuantizeLinear",
    .doc = "x as u8, with the scale and zero point that its range asks for",
    .min_in = 1,
    .max_in = 1,
    .min_out = 3,
    .max_out = 3,
    .in = {{GG_DT(GG_F32)}},
    .out = {{GG_DT(GG_U8)}, {GG_DT(GG_F32)}, {GG_DT(GG_U8)}},
    .infer = infer,
    .eval = eval};
