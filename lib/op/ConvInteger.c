#include "nnkit.h"
#include <stdlib.h>

static bool infer(gg_infer *f)
{
	const gg_shape *w = &f->in[1].shape;
	int rank = gg_given(f, 2) ? f->in[2].shape.rank : 0;
	if (rank > 1 || (rank == 1 && gg_dim_known(f->in[2].shape.dim[0]) && f->in[2].shape.dim[0] != 1))
		return gg_fail(f, "zero point of the input has shape %s, expected a scalar",
		               gg_str(f, &f->in[2].shape));
	if (gg_given(f, 3) && f->in[3].shape.rank != 0 && w->rank >= 0 &&
	    !(f->in[3].shape.rank == 1 && f->in[3].shape.dim[0] == 1) &&
	    !gg_check_vector(f, 3, "zero point of the weight", w->dim[0]))
		return false;
	return gg_infer_conv(f, 0, 1);
}

/* Products of 8-bit numbers are exact in double for all but absurd windows; the sum wraps to i32. */
static bool eval(gg_eval *e)
{
	gg_window w;
	gg_tensor *y = &e->out[0];
	if (!gg_window_conv(e->d, e->n, &e->in[0].shape, &e->in[1].shape, &w))
		return false;
	int64_t nx = gg_count(&e->in[0]), nw = gg_count(&e->in[1]), ny = gg_count(y), cout = y->shape.dim[1];
	double *x = gg_doubles(&e->in[0]), *k = gg_doubles(&e->in[1]),
	       *acc = gg_xcalloc((size_t)ny + 1, sizeof *acc);
	bool per_channel = gg_has(e, 3) && gg_count(&e->in[3]) > 1;
	for (int64_t i = 0; gg_has(e, 2) && i < nx; i++)
		x[i] -= gg_get_f64(&e->in[2], 0);
	for (int64_t i = 0; gg_has(e, 3) && i < nw; i++)
		k[i] -= gg_get_f64(&e->in[3], per_channel ? i / (nw / cout) : 0);
	gg_convolve(&w, false, y->shape.dim[0], e->in[0].shape.dim[1], cout, x, k, acc);
	for (int64_t i = 0; i < ny; i++)
		gg_set_i64(y, i, (int64_t)acc[i]);
	free(x);
	free(k);
	free(acc);
	return true;
}

#define BYTES (GG_DT(GG_I8) | GG_DT(GG_U8))
const gg_op gg_op_ConvInteger = {.name = "ConvInteger",
                                 .doc = "convolution of 8-bit integers minus their zero points, in i32",
                                 .min_in = 2,
                                 .max_in = 4,
                                 .min_out = 1,
                                 .max_out = 1,
                                 .attrs = (const gg_attr_spec[]){GG_CONV_ATTRS, {0}},
                                 .in = {{BYTES, 'X'}, {BYTES, 'W'}, {BYTES, 'X'}, {BYTES, 'W'}},
                                 .out = {{GG_DT(GG_I32)}},
                                 .optional = 1 << 2,
                                 .infer = infer,
                                 .eval = eval};
