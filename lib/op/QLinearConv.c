#include "nnkit.h"
#include <math.h>
#include <stdlib.h>

enum { X, X_SCALE, X_ZERO, W, W_SCALE, W_ZERO, Y_SCALE, Y_ZERO, BIAS };

static bool infer(gg_infer *f)
{
	static const struct {
		int slot;
		const char *what;
		bool per_channel;
	} rows[] = {{X_SCALE, "scale of x", 0}, {X_ZERO, "zero point of x", 0},
	            {W_SCALE, "scale of w", 1}, {W_ZERO, "zero point of w", 1},
	            {Y_SCALE, "scale of y", 0}, {Y_ZERO, "zero point of y", 0}};
	const gg_shape *w = &f->in[W].shape;
	gg_dim channels = w->rank < 0 ? gg_unknown_dim(f, 0, 1) : w->dim[0];
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const gg_shape *s = &f->in[rows[i].slot].shape;
		bool scalar = s->rank == 0 || (s->rank == 1 && s->dim[0] == 1);
		if (!scalar &&
		    !gg_check_vector(f, rows[i].slot, rows[i].what, rows[i].per_channel ? channels : 1))
			return false;
	}
	return gg_infer_conv(f, X, W) && gg_check_vector(f, BIAS, "bias", channels);
}

static double channel(const gg_tensor *t, int64_t c) { return gg_get_f64(t, gg_count(t) > 1 ? c : 0); }

/* The bias has scale x_scale * w_scale and zero point 0. */
static bool eval(gg_eval *e)
{
	gg_window w;
	gg_tensor *y = &e->out[0];
	const gg_tensor *in = e->in;
	if (!gg_window_conv(e->d, e->n, &in[X].shape, &in[W].shape, &w))
		return false;
	int64_t nx = gg_count(&in[X]), nw = gg_count(&in[W]), ny = gg_count(y), cout = y->shape.dim[1];
	int64_t plane = gg_span(&y->shape, 2, y->shape.rank);
	double *x = gg_doubles(&in[X]), *k = gg_doubles(&in[W]),
	       *acc = gg_xcalloc((size_t)ny + 1, sizeof *acc);
	double lo = y->dtype == GG_I8 ? -128 : 0, hi = y->dtype == GG_I8 ? 127 : 255;
	for (int64_t i = 0; i < nx; i++)
		x[i] -= gg_get_f64(&in[X_ZERO], 0);
	for (int64_t i = 0; i < nw; i++)
		k[i] -= channel(&in[W_ZERO], i / (nw / cout));
	gg_convolve(&w, false, y->shape.dim[0], in[X].shape.dim[1], cout, x, k, acc);
	for (int64_t i = 0; i < ny; i++) {
		int64_t c = i / plane % cout;
		double sum = acc[i] + (gg_has(e, BIAS) ? gg_get_f64(&in[BIAS], c) : 0);
		double scale = gg_get_f64(&in[X_SCALE], 0) * channel(&in[W_SCALE], c) /
		               gg_get_f64(&in[Y_SCALE], 0);
		double v = rint(sum * scale) + gg_get_f64(&in[Y_ZERO], 0);
		gg_set_f64(y, i, v < lo ? lo : v > hi ? hi : v);
	}
	free(x);
	free(k);
	free(acc);
	return true;
}

#define BYTES (GG_DT(GG_I8) | GG_DT(GG_U8))
#define F32 GG_DT(GG_F32)
const gg_op gg_op_QLinearConv = {.name = "QLinearConv",
                                 .doc = "convolution of quantised tensors, quantised again",
                                 .min_in = 8,
                                 .max_in = 9,
                                 .min_out = 1,
                                 .max_out = 1,
                                 .attrs = (const gg_attr_spec[]){GG_CONV_ATTRS, {0}},
                                 .in = {{BYTES, 'X'},
                                        {F32},
                                        {BYTES, 'X'},
                                        {BYTES, 'W'},
                                        {F32},
                                        {BYTES, 'W'},
                                        {F32},
                                        {BYTES, 'Y'},
                                        {GG_DT(GG_I32)}},
                                 .out = {{BYTES, 'Y'}},
                                 .infer = infer,
                                 .eval = eval};
