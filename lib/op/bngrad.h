/* The gradients of a batch normalisation, alone or with the Relu behind it: g is dy, or dy where the Relu's
 * output y is positive.
 *
 *     dbias = sum of g       dscale = sum of g xhat
 *     dx = scale / sqrt(var + eps) (g - mean of g - xhat mean of (g xhat))     without means in inference */
#ifndef GG_OP_BNGRAD_H
#define GG_OP_BNGRAD_H

#include "gradkit.h"
#include <math.h>
#include <stdlib.h>

/* dy, [y,] x, scale, ...: x is input `at`. */
static inline bool infer_bngrad(gg_infer *f, int at)
{
	static const char *const names[] = {"scale", "mean", "variance"};
	const gg_shape *x = &f->in[at].shape;
	bool training = gg_get_int(f->n, "training_mode");
	gg_dim channels = x->rank < 0 ? gg_unknown_dim(f, 1, 0) : x->rank < 2 ? 1 : x->dim[1];
	if (x->rank == 0)
		return gg_fail(f, "x has rank 0, expected at least 1");
	for (int i = 0; i < at; i++)
		if (!shapes_agree(&f->in[i].shape, x))
			return gg_fail(f, "input %d has shape %s, x has %s", i, gg_str(f, &f->in[i].shape),
			               gg_str(f, x));
	for (int i = 0; i < 3; i++)
		if (!gg_check_vector(f, at + 1 + i, names[i], channels))
			return false;
	if (training == gg_given(f, at + 2) || training == gg_given(f, at + 3))
		return gg_fail(f, training ? "mean and variance are of inference only"
		                           : "mean and variance are missing");
	for (int i = 0; i < f->nout; i++) {
		f->out[i].dtype = i == 1 || i == 2 ? f->in[at + 1].dtype : f->in[0].dtype;
		f->out[i].shape = i == 1 || i == 2 ? gg_shape_of(1, &channels) : *x;
	}
	return true;
}

/* One channel: g becomes dx. */
static inline void bngrad_channel(gg_eval *e, int at, int64_t c, int64_t batch, int64_t channels,
                                  int64_t plane, double *g, const double *x)
{
	bool training = gg_get_int(e->n, "training_mode");
	double n = (double)(batch * plane), mean = 0, var = 0, sum = 0, dot = 0;
	double scale = gg_get_f64(&e->in[at + 1], c);
#define EACH(STATEMENT) \
	for (int64_t b = 0; b < batch; b++) \
		for (int64_t i = (b * channels + c) * plane, end = i + plane; i < end; i++) { \
			STATEMENT; \
		}
	if (training) {
		EACH (mean += x[i] / n)
			EACH (var += (x[i] - mean) * (x[i] - mean) / n)
	} else {
		mean = gg_get_f64(&e->in[at + 2], c);
		var = gg_get_f64(&e->in[at + 3], c);
	}
	double inverse = 1 / sqrt(var + gg_get_float(e->n, "epsilon"));
	EACH (sum += g[i]; dot += g[i] * (x[i] - mean) * inverse)
		double k = scale * inverse, less = training ? sum / n : 0,
		       along = training ? dot * inverse / n : 0;
	EACH (g[i] = k * (g[i] - less - (x[i] - mean) * along))
#undef EACH
		if (gg_wanted(e, 1))
			gg_set_f64(&e->out[1], c, dot);
	if (gg_wanted(e, 2))
		gg_set_f64(&e->out[2], c, sum);
}

static inline bool eval_bngrad(gg_eval *e, bool relu)
{
	int at = relu ? 2 : 1;
	const gg_shape *s = &e->in[at].shape;
	int64_t channels = s->rank < 2 ? 1 : s->dim[1], plane = gg_span(s, 2, s->rank),
	        n = gg_count(&e->in[at]);
	double *g = gg_doubles(&e->in[0]), *x = gg_doubles(&e->in[at]);
	for (int64_t i = 0; relu && i < n; i++)
		g[i] = gg_get_f64(&e->in[1], i) > 0 ? g[i] : 0;
	if (gg_wanted(e, 3))
		gg_store_all(&e->out[3], g);
	for (int64_t c = 0; c < channels; c++)
		bngrad_channel(e, at, c, s->dim[0], channels, plane, g, x);
	if (gg_wanted(e, 0))
		gg_store_all(&e->out[0], g);
	free(g);
	free(x);
	return true;
}

/* Per-channel v as [1,C,1,...], in x's dtype. */
static inline gg_value *bngrad_spread(gg_kit k, gg_value *v, const gg_value *x)
{
	int64_t dim[GG_MAX_RANK];
	for (int i = 0; i < x->shape.rank; i++)
		dim[i] = i == 1 ? -1 : 1;
	return kit_cast(k, kit_reshape(k, v, x->shape.rank, dim), (gg_dtype)x->dtype);
}

/* g is the gradient behind the normalisation, dz what output 3 becomes. */
static inline bool expand_bngrad(gg_kit k, gg_value *g, int at, gg_value *dz)
{
	int64_t axis[GG_MAX_RANK];
	int count = 0;
	gg_value *x = gg_in(k.n, at), *scale = gg_in(k.n, at + 1), *mean, *var, *out[4] = {0, 0, 0, dz};
	gg_dtype t = (gg_dtype)x->dtype, s = (gg_dtype)scale->dtype;
	bool training = gg_get_int(k.n, "training_mode");
	if (x->shape.rank < 2)
		return false;
	for (int i = 0; i < x->shape.rank; i++)
		if (i != 1)
			axis[count++] = i;
	mean = training ? kit_reduce(k, "ReduceMean", x, count, axis, true)
	                : bngrad_spread(k, gg_in(k.n, at + 2), x);
	gg_value *d = kit_op(k, "Sub", x, mean);
	var = training ? kit_reduce(k, "ReduceMean", kit_op(k, "Mul", d, d), count, axis, true)
	               : bngrad_spread(k, gg_in(k.n, at + 3), x);
	var = kit_op(k, "Add", var, kit_number(k, t, gg_get_float(k.n, "epsilon")));
	gg_value *inverse = kit_one(k, "Reciprocal", kit_one(k, "Sqrt", var));
	gg_value *hat = kit_op(k, "Mul", d, inverse), *along = kit_op(k, "Mul", g, hat);
	out[1] = kit_cast(k, kit_reduce(k, "ReduceSum", along, count, axis, false), s);
	out[2] = kit_cast(k, kit_reduce(k, "ReduceSum", g, count, axis, false), s);
	if (training) {
		gg_value *m = kit_reduce(k, "ReduceMean", along, count, axis, true);
		g = kit_op(k, "Sub", g, kit_reduce(k, "ReduceMean", g, count, axis, true));
		g = kit_op(k, "Sub", g, kit_op(k, "Mul", hat, m));
	}
	out[0] = kit_op(k, "Mul", kit_op(k, "Mul", g, bngrad_spread(k, scale, x)), inverse);
	return kit_replace(k, out);
}

/* Of the ops behind whose Relu stands: dy, y, x, scale, and in inference mean and variance. */
#define GG_BNGRAD_RELU \
	.min_in = 4, .max_in = 6, .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, \
	                                 {GG_FLOATS, 'S'}, {GG_FLOATS, 'U'}, {GG_FLOATS, 'U'}}, \
	GG_BNGRAD
#define GG_BNGRAD \
	.domain = "gg", .min_out = 1, \
	.attrs = (const gg_attr_spec[]){{"epsilon", GG_ATTR_FLOAT, .def = "1e-05"}, \
	                                {"training_mode", GG_ATTR_INT, .def = "0"}, \
	                                {0}}, \
	.out = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'S'}, {GG_FLOATS, 'S'}, {GG_FLOATS, 'T'}}

#endif
