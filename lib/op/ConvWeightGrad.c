#include "convgrad.h"

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

static gg_value *shaped(gg_diag *d, gg_node *n, gg_value *v, int count, const int64_t *dim)
{
	gg_tensor t = {.dtype = GG_I64, .shape = {.rank = 1, .dim = {count}}, .data = (void *)(uintptr_t)dim};
	return gg_expand_node(d, n, "Reshape", 2, (gg_value *[]){v, gg_add_tensor(n->graph, "shape", &t)});
}

static gg_value *permuted(gg_diag *d, gg_node *n, gg_value *v, const int64_t *perm)
{
	const char *name = gg_fresh_name(n->graph, n->out[0]->name);
	gg_node *k = gg_add_node(n->graph, n, gg_op_find("Transpose"), 1, &v, 1, &name);
	gg_merge_loc(k, n);
	gg_set_attr_ints(k, "perm", v->shape.rank, perm);
	return gg_infer_node(d, k) ? k->out[0] : 0;
}

/* x [N,gC,..] as [C,gN,..]: each group's channels are the batch. */
static gg_value *grouped(gg_diag *d, gg_node *n, gg_value *x, const gg_window *w)
{
	int64_t dim[GG_MAX_RANK] = {-1, w->group, x->shape.dim[1] / w->group},
	        perm[] = {2, 1, 0, 3, 4, 5, 6, 7};
	memcpy(dim + 3, w->in, (size_t)w->nd * sizeof *dim);
	x = shaped(d, n, x, w->nd + 3, dim);
	x = x ? permuted(d, n, x, perm) : 0;
	dim[1] = dim[2];
	dim[2] = -1;
	return x ? shaped(d, n, x, w->nd + 2, dim + 1) : 0;
}

/* Batch and channels change places: x [C,N,..] by dy [M,N,..] gives [C,M,..], of which the first
 * elements are the weight's. */
static bool expand(gg_diag *d, gg_node *n)
{
	static const int64_t swap[] = {1, 0, 2, 3, 4, 5, 6, 7};
	gg_window w;
	gg_value *dy = gg_in(n, 0), *x = gg_in(n, 1), *in[4], *dw = n->out[0];
	if (!gg_window_conv(d, n, &x->shape, &dw->shape, &w) || !spatial_known(&w) || w.nd > 5 ||
	    !gg_dim_known(x->shape.dim[1]))
		return false;
	x = w.group == 1 ? permuted(d, n, x, swap) : grouped(d, n, x, &w);
	dy = x ? permuted(d, n, dy, swap) : 0;
	if (!dy)
		return false;
	gg_node *k = plain_conv(n, "Conv", x, dy, &w, w.dilation, w.stride);
	in[0] = gg_infer_node(d, k) ? permuted(d, n, k->out[0], swap) : 0;
	if (in[0] && !gg_shape_eq(&in[0]->shape, &dw->shape)) {
		int64_t bound[3][GG_MAX_RANK] = {0};
		for (int i = 0; i < w.nd; i++) {
			bound[1][i] = w.kernel[i];
			bound[2][i] = 2 + i;
		}
		for (int i = 0; i < 3; i++) {
			gg_tensor t = {
			    .dtype = GG_I64, .shape = {.rank = 1, .dim = {w.nd}}, .data = bound[i]};
			in[i + 1] = gg_add_tensor(n->graph, "bound", &t);
		}
		in[0] = gg_expand_node(d, n, "Slice", 4, in);
	}
	if (!in[0])
		return false;
	gg_replace_value(dw, in[0]);
	gg_remove_node(n);
	return true;
}

const gg_op gg_op_ConvWeightGrad = {
    .name = "ConvWeightGrad",
    .doc = "the gradient of a convolution's weight: dy, input, shape of the weight",
    GG_CONV_GRAD,
    .infer = infer,
    .eval = eval,
    .expand = expand};
