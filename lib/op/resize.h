/* What Resize shares with its gradient and with backends. */
#ifndef GG_OP_RESIZE_H
#define GG_OP_RESIZE_H

#include "op.h"

/* Inputs and attributes of both ops; ResizeGrad has dy in X's place, and one more input. */
enum { RESIZE_X, RESIZE_ROI, RESIZE_SCALES, RESIZE_SIZES, RESIZE_SHAPE };
#define RESIZE_ROI_TYPES (GG_DT(GG_F64) | GG_DT(GG_F32) | GG_DT(GG_F16))
#define RESIZE_ATTRS \
	(const gg_attr_spec[]) \
	{ \
		{"antialias", GG_ATTR_INT, .def = "0"}, {"axes", GG_ATTR_INTS}, \
		    {"coordinate_transformation_mode", GG_ATTR_STRING, .def = "\"half_pixel\""}, \
		    {"cubic_coeff_a", GG_ATTR_FLOAT, .def = "-0.75"}, \
		    {"exclude_outside", GG_ATTR_INT, .def = "0"}, \
		    {"extrapolation_value", GG_ATTR_FLOAT, .def = "0"}, \
		    {"keep_aspect_ratio_policy", GG_ATTR_STRING, .def = "\"stretch\""}, \
		    {"mode", GG_ATTR_STRING, .def = "\"nearest\""}, \
		    {"nearest_mode", GG_ATTR_STRING, .def = "\"round_prefer_floor\""}, \
		{ \
			0 \
		} \
	}

/* Where each element of an axis of the output reads the input's axis: twice, at at[2*o] and at[2*o+1], with
 * their weights. e: scales, sizes and roi with their data, shapes of the input and the output. False: more
 * than two elements, or some outside. */
bool gg_resize_axis(gg_eval *e, int axis, int64_t *at, float *weight);

/* The same in full, for any mode: element o reads `count` elements, at[o * count] and so on, and at[o *
 * count] is -1 where it is outside and has extrapolation_value. In e->a. */
typedef struct gg_resize_taps {
	int64_t count;
	int64_t *at;
	double *weight; /* NULL: one element as it is */
	bool identity;  /* nothing to do, and nothing else is set */
} gg_resize_taps;
void gg_resize_taps_of(gg_eval *e, int axis, gg_resize_taps *t);

/* What comes back to the input when dy, which it frees, comes to the output; free() it. e: as Resize's. */
double *gg_resize_back(gg_eval *e, double *dy);

/* Resize of v, or with the shape of its input ResizeGrad, as n does it; what lies outside is 0. */
gg_value *gg_resize_put(struct gg_builder *t, gg_node *n, gg_value *v, gg_value *shape);

#endif
