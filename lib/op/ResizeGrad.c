#include "gradkit.h"
#include "resize.h"
#include "grad.h"
#include <math.h>
#include <stdlib.h>

enum { DY = RESIZE_X, LISTS = RESIZE_SHAPE };

/* Resize's own rule, on the shape that dy came from. */
static bool infer(gg_infer *f)
{
	const gg_shape *dy = &f->in[DY].shape;
	gg_info in[LISTS], y = {.shape = gg_shape_unknown};
	gg_infer forward = *f;
	if (!infer_shape_input(f, RESIZE_SHAPE, dy->rank))
		return false;
	memcpy(in, f->in, sizeof in);
	in[RESIZE_X].shape = f->out[0].shape;
	forward.nin = LISTS;
	forward.in = in;
	forward.out = &y;
	return gg_op_find("Resize")->infer(&forward) &&
	       (shapes_agree(dy, &y.shape) ||
	        gg_fail(f, "dy has shape %s, the resized input has %s", gg_str(f, dy), gg_str(f, &y.shape)));
}

static bool eval(gg_eval *e)
{
	gg_tensor in[LISTS];
	gg_eval forward = *e;
	if (!gg_count(&e->in[DY])) {
		memset(e->out[0].data, 0, (size_t)gg_count(&e->out[0]) * gg_dtype_size(e->out[0].dtype));
		return true;
	}
	if (!gg_count(&e->out[0]))
		return gg_fail(e, "an empty input cannot be resized to a size above 0");
	memcpy(in, e->in, sizeof in);
	in[RESIZE_X] = e->out[0];
	forward.nin = LISTS;
	forward.in = in;
	forward.out = &e->in[DY];
	double *dx = gg_resize_back(&forward, gg_doubles(&e->in[DY]));
	gg_store_all(&e->out[0], dx);
	free(dx);
	return true;
}

/* ---- in plain ops ------------------------------------------------------------------------------------ */
/* What one axis does is a matrix: Resize of the unit matrix. */
static gg_value *matrix(gg_builder *t, gg_node *n, int64_t in, int64_t out, const float *scale)
{
	static const int64_t first[] = {0};
	float none = 0;
	gg_tensor s = {.dtype = GG_F32, .shape = {.rank = 1, .dim = {0}}, .data = &none};
	gg_value *like = OP("Expand", NUM(OUT, 0), gg_put_ints(t, 2, (int64_t[]){in, in}));
	gg_value *unit = OP("EyeLike", like, 0), *empty = unit ? gg_add_tensor(t->g, "empty", &s) : 0;
	gg_value *list[] = {unit, empty, empty, 0};
	if (scale) {
		s.data = (void *)(uintptr_t)scale;
		s.shape.dim[0] = 1;
		list[RESIZE_SCALES] = unit ? gg_add_tensor(t->g, "scale", &s) : 0;
	} else {
		list[RESIZE_SIZES] = gg_put_ints(t, 1, &out);
	}
	gg_value *y = gg_put(t, "Resize", scale ? 3 : 4, list, 0);
	if (y) {
		gg_copy_attrs(y->producer, n);
		gg_set_attr_ints(y->producer, "axes", 1, first);
	}
	return gg_put_done(t, y);
}

/* dy times the matrix of the axis, which is the last one meanwhile. */
static gg_value *back(gg_builder *t, gg_value *dy, int64_t axis, gg_value *m)
{
	int64_t perm[GG_MAX_RANK];
	int last = dy ? dy->shape.rank - 1 : 0;
	for (int i = 0; i <= last; i++)
		perm[i] = i == axis ? last : i == last ? axis : i;
	dy = dy ? gg_put_permute(t, dy, last + 1, perm) : 0;
	dy = OP("MatMul", dy, m);
	return dy ? gg_put_permute(t, dy, last + 1, perm) : 0;
}

/* The sizes are known, each axis stands alone, and no matrix is larger than the tensors. */
static bool has_matrices(const gg_node *n)
{
	const gg_shape *dy = &gg_in(n, DY)->shape, *dx = &n->out[0]->shape;
	if (!gg_shape_known(dx) || !gg_shape_known(dy) ||
	    !strcmp(gg_get_string(n, "coordinate_transformation_mode"), "tf_crop_and_resize") ||
	    strcmp(gg_get_string(n, "keep_aspect_ratio_policy"), "stretch") != 0)
		return false;
	double small = (double)gg_span(dx, 0, dx->rank), large = (double)gg_span(dy, 0, dy->rank);
	for (int i = 0; i < dx->rank; i++)
		if ((double)dx->dim[i] * (double)dy->dim[i] > fmax(small, large))
			return false;
	return true;
}

static bool expand(gg_diag *d, gg_node *n)
{
	gg_builder b = {.d = d, .g = n->graph, .at = n}, *t = &b;
	gg_value *dy = gg_in(n, DY), *s = IN(RESIZE_SCALES);
	const gg_attr *axes = gg_get_list(n, "axes");
	gg_tensor scales = {0};
	bool by_scales = s && gg_is_const(s) && gg_value_tensor(d, s, &scales) && gg_count(&scales) > 0;
	if (!has_matrices(n) || (!by_scales && !IN(RESIZE_SIZES)))
		return false;
	int r = dy->shape.rank, count = axes ? axes->n : r;
	for (int i = 0; i < count; i++) {
		int64_t k = axes ? gg_eval_axis(axes->ints[i], r) : i;
		int64_t in = OUT->shape.dim[k], out = gg_in(n, DY)->shape.dim[k];
		float scale = by_scales ? (float)gg_get_f64(&scales, i) : 1;
		if (in != out || scale != 1)
			dy = back(t, dy, k, matrix(t, n, in, out, by_scales ? &scale : 0));
	}
	dy = dy == gg_in(n, DY) ? OP("Identity", dy, 0) : dy;
	return kit_replace((gg_kit){d, n}, &dy);
}

/* Linear in dy: the way there again. */
GG_GRAD(grad) { gg_give(t, IN(DY), gg_resize_put(t, n, dy, 0)); }

const gg_op gg_op_ResizeGrad = {
    .name = "ResizeGrad",
    .domain = "gg",
    .doc = "the gradient of Resize: dy, roi, scales, sizes, shape of the input",
    .min_in = 5,
    .max_in = 5,
    .min_out = 1,
    .max_out = 1,
    .attrs = RESIZE_ATTRS,
    .in = {{GG_FLOATS, 'T'}, {RESIZE_ROI_TYPES}, {GG_DT(GG_F32)}, {GG_DT(GG_I64)}, {GG_DT(GG_I64)}},
    .out = {{GG_FLOATS, 'T'}},
    .optional = 1 << RESIZE_ROI | 1 << RESIZE_SCALES | 1 << RESIZE_SIZES,
    .infer = infer,
    .eval = eval,
    .expand = expand,
    .grad = grad};
