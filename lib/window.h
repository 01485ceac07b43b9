/* Windows: where a convolution or a pool reads, for every one of its spatial axes.
 *
 *     in    . . x x x x x x .      x the axis, . padding: begin before it, end after it
 *     out   k - k - k                window o covers in[o*stride - begin + j*dilation],
 *             k - k - k              j = 0 .. kernel-1
 *
 * One place turns attributes and shapes into these numbers, for shape rules, for reference
 * kernels and for backends: auto_pad, ceil_mode, output_shape and absent attributes are resolved
 * here. A transposed convolution is written down as the convolution it undoes: `in` is then the
 * large side's result, that is, out[i*stride - begin + j*dilation] gathers in[i]. */
#ifndef GG_WINDOW_H
#define GG_WINDOW_H

#include "op.h"

typedef struct gg_window {
	int nd; /* spatial axes; -1 when the rank is not known: nothing else holds then */
	gg_dim in[GG_MAX_RANK], kernel[GG_MAX_RANK], out[GG_MAX_RANK];
	int64_t stride[GG_MAX_RANK], dilation[GG_MAX_RANK];
	/* Padding, negative where it crops. Numbers only where in and kernel are: else auto_pad's are 0. */
	int64_t begin[GG_MAX_RANK], end[GG_MAX_RANK];
	int64_t group;
} gg_window;

/* Each reads the node's attributes and the shapes of its data and weight, checks that they fit
 * each other, and fills in w. Shapes may have symbols or be unknown. False: reported. */
bool gg_window_conv(gg_diag *d, const gg_node *n, const gg_shape *x, const gg_shape *weight, gg_window *w);
bool gg_window_conv_transpose(gg_diag *d, const gg_node *n, const gg_shape *x, const gg_shape *weight,
                              gg_window *w);
bool gg_window_pool(gg_diag *d, const gg_node *n, const gg_shape *x, gg_window *w);

/* Output shape: batch and channels of the op, then w->out. */
gg_shape gg_window_shape(const gg_window *w, gg_dim batch, gg_dim channels);

/* For kernels, all numbers: the taps j of window o that fall inside the axis are [*from, *to). */
void gg_window_taps(const gg_window *w, int axis, int64_t o, int64_t *from, int64_t *to);

/* The attribute rows of every op with windows. */
#define GG_WINDOW_ATTRS(KERNEL_REQUIRED) \
	{"auto_pad", GG_ATTR_STRING, .def = "\"NOTSET\""}, {"dilations", GG_ATTR_INTS}, \
	    {"kernel_shape", GG_ATTR_INTS, .required = KERNEL_REQUIRED}, {"pads", GG_ATTR_INTS}, \
	{ \
		"strides", GG_ATTR_INTS \
	}
#define GG_CONV_ATTRS \
	GG_WINDOW_ATTRS(false), { "group", GG_ATTR_INT, .def = "1" }

#endif
