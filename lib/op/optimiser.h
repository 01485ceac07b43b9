/* What the optimisers of ai.onnx.preview.training share: inputs R, T, then groups of n tensors by
 * role (all X, all G, ...), outputs in groups likewise. Arithmetic is in double, rounded once. */
#ifndef GG_OP_OPTIMISER_H
#define GG_OP_OPTIMISER_H

#include "opkit.h"
#include <math.h>

/* from[i]: the input group whose dtype and shape output group i has; ends with -1. */
static inline bool optimiser_infer(gg_infer *f, int groups, const int *from)
{
	int n = (f->nin - 2) / groups, outs = 0;
	if (f->nin - 2 != n * groups || n == 0)
		return gg_fail(f, "%d tensors are not groups of %d", f->nin - 2, groups);
	while (from[outs] >= 0)
		outs++;
	if (f->nout != n * outs)
		return gg_fail(f, "%d outputs, expected %d for %d tensors", f->nout, n * outs, n);
	for (int i = 2; i < f->nin; i++) {
		const gg_info *x = &f->in[2 + (i - 2) % n];
		gg_shape both;
		if (f->in[i].dtype != x->dtype)
			return gg_fail(f, "input %d has dtype %s, its weight %s", i,
			               gg_dtype_name(f->in[i].dtype), gg_dtype_name(x->dtype));
		if (!gg_broadcast(&x->shape, &f->in[i].shape, &both) ||
		    (gg_shape_known(&x->shape) && gg_shape_known(&f->in[i].shape) &&
		     !gg_shape_eq(&x->shape, &f->in[i].shape)))
			return gg_fail(f, "input %d has shape %s, its weight %s", i,
			               gg_str(f, &f->in[i].shape), gg_str(f, &x->shape));
	}
	for (int i = 0; i < f->nout; i++) {
		f->out[i].dtype = f->in[2 + from[i / n] * n + i % n].dtype;
		f->out[i].shape = f->in[2 + from[i / n] * n + i % n].shape;
	}
	return true;
}

/* v: one element of each input group, replaced by one of each output group. */
typedef void optimiser_step(double *v, const double *p);

static inline bool optimiser_eval(gg_eval *e, int groups, int outs, optimiser_step *step, const double *p)
{
	int n = (e->nin - 2) / groups;
	for (int i = 0; i < n; i++) {
		int64_t count = gg_count(&e->in[2 + i]);
		for (int64_t k = 0; k < count; k++) {
			double v[4];
			for (int j = 0; j < groups; j++)
				v[j] = gg_get_f64(&e->in[2 + j * n + i], k);
			step(v, p);
			for (int j = 0; j < outs; j++)
				if (e->out[j * n + i].dtype)
					gg_set_f64(&e->out[j * n + i], k, v[j]);
		}
	}
	return true;
}

static inline bool optimiser_scalars(gg_infer *f)
{
	for (int i = 0; i < 2; i++)
		if (f->in[i].shape.rank >= 0 && gg_shape_known(&f->in[i].shape) &&
		    gg_shape_count(&f->in[i].shape) != 1)
			return gg_fail(f, "input %d has shape %s, expected a scalar", i,
			               gg_str(f, &f->in[i].shape));
	return true;
}

#define OPTIMISER_TYPES (GG_DT(GG_F32) | GG_DT(GG_F64))
#define OPTIMISER(NAME, DOC) \
	.name = #NAME, .domain = "ai.onnx.preview.training", .doc = DOC, .min_in = 3, .max_in = -1, \
	.min_out = 1, .max_out = -1, .in = {{OPTIMISER_TYPES}, {GG_DT(GG_I64)}, {OPTIMISER_TYPES}}, \
	.out = {{OPTIMISER_TYPES}}

#endif
