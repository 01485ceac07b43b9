#include "nnkit.h"
#include "grad.h"
#include <stdlib.h>

static bool infer(gg_infer *f)
{
	const gg_shape *x = &f->in[0].shape, *k = &f->in[1].shape;
	gg_window w;
	if (!gg_window_conv_transpose(f->d, f->n, x, k, &w))
		return false;
	gg_dim channels = k->rank < 0 ? gg_unknown_dim(f, 0, 1) : gg_dim_mul(k->dim[1], w.group);
	f->out[0].shape = gg_window_shape(&w, x->rank < 0 ? gg_unknown_dim(f, 0, 0) : x->dim[0], channels);
	for (int i = 0; x->rank < 0 && i < w.nd; i++)
		if (!gg_dim_number(w.out[i]))
			f->out[0].shape.dim[i + 2] = gg_unknown_dim(f, 0, i + 2);
	return !gg_given(f, 2) || gg_check_vector(f, 2, "bias", channels);
}

static bool eval(gg_eval *e)
{
	gg_window w;
	gg_tensor *y = &e->out[0];
	if (!gg_window_conv_transpose(e->d, e->n, &e->in[0].shape, &e->in[1].shape, &w))
		return false;
	int64_t channels = y->shape.dim[1], count = gg_count(y), plane = gg_span(&y->shape, 2, y->shape.rank);
	double *x = gg_doubles(&e->in[0]), *k = gg_doubles(&e->in[1]);
	double *acc = gg_xaligned((size_t)count * sizeof *acc);
	for (int64_t i = 0; i < count; i++)
		acc[i] = gg_has(e, 2) ? gg_get_f64(&e->in[2], i / plane % channels) : 0;
	gg_convolve(&w, true, y->shape.dim[0], e->in[0].shape.dim[1], channels, x, k, acc);
	gg_store_all(y, acc);
	free(x);
	free(k);
	free(acc);
	return true;
}

/* The transpose of a convolution with the same taps. */
GG_GRAD(grad)
{
	if (gg_find_attr(n, "output_shape") || strcmp(gg_get_string(n, "auto_pad"), "NOTSET")) {
		gg_grad_lacks(t, n, "with output_shape or auto_pad");
		return;
	}
	if (gg_grad_wanted(IN(0)))
		gg_give(t, IN(0), gg_grad_node(t, n, "Conv", dy, IN(1), 0));
	if (gg_grad_wanted(IN(1)))
		gg_give(t, IN(1), gg_grad_node(t, n, "ConvWeightGrad", IN(0), dy, IN(1)));
	if (gg_grad_wanted(IN(2)))
		gg_give(t, IN(2), gg_grad_channel_sum(t, dy));
}

const gg_op gg_op_ConvTranspose = {
    .name = "ConvTranspose",
    .doc = "the transpose of a convolution: each input element spreads over a window of the output",
    .min_in = 2,
    .max_in = 3,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){GG_CONV_ATTRS,
                                    {"output_padding", GG_ATTR_INTS},
                                    {"output_shape", GG_ATTR_INTS},
                                    {0}},
    .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
    .out = {{GG_FLOATS, 'T'}},
    .infer = infer,
    .eval = eval,
    .grad = grad};
