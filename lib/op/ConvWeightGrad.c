#include "convgrad.h"
#include "grad.h"

static bool infer(gg_infer *f)
{
	const gg_shape *dy = &f->in[0].shape, *x = &f->in[1].shape;
	return infer_shape_input(f, 2, dy->rank >= 0 ? dy->rank : x->rank) &&
	       check_dy(f, x, &f->out[0].shape);
}

static bool eval(gg_eval *e)
{
	gg_window w;
	gg_tensor *dw = &e->out[0];
	const gg_shape *x = &e->in[1].shape;
	if (!gg_window_conv(e->d, e->n, x, &dw->shape, &w))
		return false;
	double *dy = gg_doubles(&e->in[0]), *in = gg_doubles(&e->in[1]);
	double *acc = gg_xcalloc((size_t)gg_count(dw) + 1, sizeof *acc);
	if (gg_count(dw))
		gg_convolve_weight(&w, x->dim[0], x->dim[1], dw->shape.dim[0], in, dy, acc);
	gg_store_all(dw, acc);
	free(dy);
	free(in);
	free(acc);
	return true;
}

/* x [N,gC,..] as [C,gN,..]: each group's channels are the batch. */
static gg_value *grouped(gg_kit k, gg_value *x, const gg_window *w)
{
	int64_t dim[GG_MAX_RANK] = {-1, w->group, x->shape.dim[1] / w->group},
	        perm[] = {2, 1, 0, 3, 4, 5, 6, 7};
	memcpy(dim + 3, w->in, (size_t)w->nd * sizeof *dim);
	x = kit_permute(k, kit_reshape(k, x, w->nd + 3, dim), perm);
	dim[1] = dim[2];
	dim[2] = -1;
	return kit_reshape(k, x, w->nd + 2, dim + 1);
}

/* The first elements along the spatial axes. */
static gg_value *cut(gg_kit k, gg_value *v, const gg_window *w)
{
	int64_t start[GG_MAX_RANK] = {0}, axis[GG_MAX_RANK];
	for (int i = 0; i < w->nd; i++)
		axis[i] = 2 + i;
	gg_value *in[] = {v, kit_ints(k, w->nd, start), kit_ints(k, w->nd, w->kernel),
	                  kit_ints(k, w->nd, axis)};
	return kit_done(k, kit_node(k, "Slice", 4, in));
}

/* Batch and channels change places: x [C,N,..] by dy [M,N,..] gives [C,M,..], of which the first
 * elements are the weight's. */
static bool expand(gg_diag *d, gg_node *n)
{
	static const int64_t swap[] = {1, 0, 2, 3, 4, 5, 6, 7};
	gg_kit k = {d, n};
	gg_window w;
	gg_value *dy = gg_in(n, 0), *x = gg_in(n, 1), *dw = n->out[0];
	if (!gg_window_conv(d, n, &x->shape, &dw->shape, &w) || !spatial_known(&w) || w.nd > 5 ||
	    !gg_dim_known(x->shape.dim[1]))
		return false;
	x = w.group == 1 ? kit_permute(k, x, swap) : grouped(k, x, &w);
	dy = kit_permute(k, dy, swap);
	gg_node *c = x && dy ? plain_conv(n, "Conv", x, dy, &w, w.dilation, w.stride) : 0;
	gg_value *y = kit_permute(k, kit_done(k, c), swap);
	if (y && !gg_shape_eq(&y->shape, &dw->shape))
		y = cut(k, y, &w);
	return kit_replace(k, &y);
}

/* Linear in both of its operands. */
GG_GRAD(grad)
{
	if (gg_grad_wanted(IN(0)))
		gg_give(t, IN(0), gg_grad_node(t, n, "Conv", IN(1), dy, 0));
	if (gg_grad_wanted(IN(1)))
		gg_give(t, IN(1), gg_grad_node(t, n, "ConvInputGrad", IN(0), dy, IN(1)));
}

const gg_op gg_op_ConvWeightGrad = {
    .name = "ConvWeightGrad",
    .doc = "the gradient of a convolution's weight: dy, input, shape of the weight",
    GG_CONV_GRAD,
    .infer = infer,
    .eval = eval,
    .grad = grad,
    .expand = expand};
