/* BatchNormalization, and the same with a Relu after it. */
#ifndef GG_OP_BATCHNORM_H
#define GG_OP_BATCHNORM_H

#include "nnkit.h"
#include <math.h>
#include <stdlib.h>

static bool infer_batchnorm(gg_infer *f)
{
	static const char *const names[] = {"", "scale", "bias", "mean", "variance"};
	const gg_shape *x = &f->in[0].shape;
	bool training = gg_get_int(f->n, "training_mode");
	gg_dim channels = x->rank < 0 ? gg_unknown_dim(f, 0, 1) : x->rank < 2 ? 1 : x->dim[1];
	f->out[0].shape = *x;
	if (x->rank == 0)
		return gg_fail(f, "input has rank 0, expected at least 1");
	for (int i = 1; i < 5; i++) {
		if (!gg_check_vector(f, i, names[i], channels))
			return false;
		if (f->in[i].shape.rank == 1 && gg_dim_known(f->in[i].shape.dim[0]))
			channels = f->in[i].shape.dim[0];
	}
	for (int i = 1; i < f->nout; i++) {
		if (f->n->out[i] && !training)
			return gg_fail(f, "has output %d, which exists in training mode only", i);
		f->out[i].shape = gg_shape_of(1, &channels);
	}
	return true;
}

/* Mean and population variance of channel c over batch and space. */
static void channel_moments(const double *x, int64_t batch, int64_t channels, int64_t plane, int64_t c,
                            double *mean, double *var)
{
	double sum = 0, squares = 0, n = (double)(batch * plane);
	for (int64_t b = 0; b < batch; b++)
		for (int64_t i = 0; i < plane; i++)
			sum += x[(b * channels + c) * plane + i];
	*mean = sum / n;
	for (int64_t b = 0; b < batch; b++)
		for (int64_t i = 0; i < plane; i++) {
			double y = x[(b * channels + c) * plane + i] - *mean;
			squares += y * y;
		}
	*var = squares / n;
}

/* running = old * momentum + new * (1 - momentum); the outputs may overwrite inputs 3 and 4. */
static void update(gg_eval *e, int i, int64_t c, double now)
{
	double m = gg_get_float(e->n, "momentum");
	if (gg_wanted(e, i))
		gg_set_f64(&e->out[i], c, gg_get_f64(&e->in[i + 2], c) * m + now * (1 - m));
}

static bool eval_batchnorm(gg_eval *e, bool relu)
{
	const gg_shape *s = &e->in[0].shape;
	bool training = gg_get_int(e->n, "training_mode");
	double epsilon = gg_get_float(e->n, "epsilon");
	int64_t batch = s->dim[0], channels = s->rank < 2 ? 1 : s->dim[1], plane = gg_span(s, 2, s->rank);
	double *x = gg_doubles(&e->in[0]);
	for (int64_t c = 0; c < channels; c++) {
		double mean, var, scale = gg_get_f64(&e->in[1], c), bias = gg_get_f64(&e->in[2], c);
		if (training) {
			channel_moments(x, batch, channels, plane, c, &mean, &var);
			update(e, 1, c, mean);
			update(e, 2, c, var);
		} else {
			mean = gg_get_f64(&e->in[3], c);
			var = gg_get_f64(&e->in[4], c);
		}
		double k = scale / sqrt(var + epsilon);
		for (int64_t b = 0; b < batch; b++)
			for (int64_t i = 0; i < plane; i++) {
				double *p = &x[(b * channels + c) * plane + i];
				*p = (*p - mean) * k + bias;
				*p = relu && *p < 0 ? 0 : *p;
			}
	}
	gg_store_all(&e->out[0], x);
	free(x);
	return true;
}

#define GG_BATCHNORM \
	.min_in = 5, .max_in = 5, .min_out = 1, .max_out = 3, \
	.attrs = (const gg_attr_spec[]){{"epsilon", GG_ATTR_FLOAT, .def = "1e-05"}, \
	                                {"momentum", GG_ATTR_FLOAT, .def = "0.9"}, \
	                                {"training_mode", GG_ATTR_INT, .def = "0"}, \
	                                {0}}, \
	.in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'S'}, {GG_FLOATS, 'S'}, {GG_FLOATS, 'U'}, {GG_FLOATS, 'U'}}, \
	.out = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'U'}, {GG_FLOATS, 'U'}}, .infer = infer_batchnorm, \
	.aliases = (const signed char[]) \
	{ \
		1, 3, 2, 4, -1 \
	}

#endif
