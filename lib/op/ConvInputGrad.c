#include "convgrad.h"
#include "grad.h"

static bool infer(gg_infer *f)
{
	const gg_shape *dy = &f->in[0].shape, *w = &f->in[1].shape;
	return infer_shape_input(f, 2, dy->rank >= 0 ? dy->rank : w->rank) &&
	       check_dy(f, &f->out[0].shape, w);
}

/* The convolution that it undoes, from the small side to the large one. */
static bool eval(gg_eval *e)
{
	gg_window w;
	gg_tensor *dx = &e->out[0];
	int64_t count = gg_count(dx);
	if (!gg_window_conv(e->d, e->n, &dx->shape, &e->in[1].shape, &w))
		return false;
	for (int i = 0; i < w.nd; i++) {
		gg_dim in = w.in[i];
		w.in[i] = w.out[i];
		w.out[i] = in;
	}
	double *dy = gg_doubles(&e->in[0]), *k = gg_doubles(&e->in[1]);
	double *acc = gg_xcalloc((size_t)count + 1, sizeof *acc);
	if (count)
		gg_convolve(&w, true, dx->shape.dim[0], e->in[0].shape.dim[1], dx->shape.dim[1], dy, k, acc);
	gg_store_all(dx, acc);
	free(dy);
	free(k);
	free(acc);
	return true;
}

/* A transposed convolution, whose last elements no window reached. */
static bool expand(gg_diag *d, gg_node *n)
{
	gg_window w;
	int64_t rest[GG_MAX_RANK];
	if (!gg_window_conv(d, n, &n->out[0]->shape, &gg_in(n, 1)->shape, &w) || !spatial_known(&w))
		return false;
	for (int i = 0; i < w.nd; i++) {
		rest[i] = w.in[i] + w.begin[i] + w.end[i] - (w.out[i] - 1) * w.stride[i] -
		          (w.kernel[i] - 1) * w.dilation[i] - 1;
		if (rest[i] < 0 || w.out[i] < 1)
			return false;
	}
	gg_node *k = plain_conv(n, "ConvTranspose", gg_in(n, 0), gg_in(n, 1), &w, w.stride, w.dilation);
	gg_set_attr_ints(k, "output_padding", w.nd, rest);
	if (!gg_infer_node(d, k))
		return false;
	gg_replace_value(n->out[0], k->out[0]);
	gg_remove_node(n);
	return true;
}

/* Linear in both of its operands. */
GG_GRAD(grad)
{
	if (gg_grad_wanted(IN(0)))
		gg_give(t, IN(0), gg_grad_node(t, n, "Conv", dy, IN(1), 0));
	if (gg_grad_wanted(IN(1)))
		gg_give(t, IN(1), gg_grad_node(t, n, "ConvWeightGrad", IN(0), dy, IN(1)));
}

const gg_op gg_op_ConvInputGrad = {
    .name = "ConvInputGrad",
    .doc = "the gradient of a convolution's input: dy, weight, shape of the input",
    GG_CONV_GRAD,
    .infer = infer,
    .eval = eval,
    .grad = grad,
    .expand = expand};
