/* The gradients of a convolution: dy with the weight gives the input's, dy with the input the weight's.
 * The last input is the shape of the result; the attributes are the convolution's. */
#ifndef GG_OP_CONVGRAD_H
#define GG_OP_CONVGRAD_H

#include "gradkit.h"
#include <string.h>
#include <stdlib.h>

/* The shape of dy is what a convolution of x by w gives. */
static inline bool check_dy(gg_infer *f, const gg_shape *x, const gg_shape *w)
{
	const gg_shape *dy = &f->in[0].shape;
	gg_window win;
	if (!gg_window_conv(f->d, f->n, x, w, &win))
		return false;
	if (x->rank < 0 || w->rank < 0)
		return true;
	gg_shape want = gg_window_shape(&win, x->dim[0], w->dim[0]);
	return shapes_agree(dy, &want) ||
	       gg_fail(f, "dy has shape %s, the convolution's is %s", gg_str(f, dy), gg_str(f, &want));
}

/* A node of a convolution's kind, with its window's numbers; attributes, then gg_infer_node. */
static inline gg_node *plain_conv(gg_node *n, const char *op, gg_value *a, gg_value *b, const gg_window *w,
                                  const int64_t *stride, const int64_t *dilation)
{
	int64_t pads[2 * GG_MAX_RANK];
	const char *name = gg_fresh_name(n->graph, n->out[0]->name);
	gg_node *k = gg_add_node(n->graph, n, gg_op_find(op), 2, (gg_value *[]){a, b}, 1, &name);
	for (int i = 0; i < w->nd; i++) {
		pads[i] = w->begin[i];
		pads[w->nd + i] = w->end[i];
	}
	gg_merge_loc(k, n);
	gg_set_attr_ints(k, "strides", w->nd, stride);
	gg_set_attr_ints(k, "dilations", w->nd, dilation);
	gg_set_attr_ints(k, "pads", 2 * w->nd, pads);
	if (w->group != 1)
		gg_set_attr_int(k, "group", w->group);
	return k;
}

/* All sizes along the spatial axes are numbers. */
static inline bool spatial_known(const gg_window *w)
{
	for (int i = 0; i < w->nd; i++)
		if (!gg_dim_known(w->in[i]) || !gg_dim_known(w->kernel[i]) || !gg_dim_known(w->out[i]))
			return false;
	return w->nd > 0;
}

#define GG_CONV_GRAD \
	.domain = "gg", .min_in = 3, .max_in = 3, .min_out = 1, .max_out = 1, \
	.attrs = (const gg_attr_spec[]){GG_CONV_ATTRS, {0}}, \
	.in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_DT(GG_I64)}}, .out = {{GG_FLOATS, 'T'}}

#endif
