/* InstanceNormalization and GroupNormalization: groups of channels normalised over themselves and
 * space, then one scale and bias a channel. */
#ifndef GG_OP_GROUPNORM_H
#define GG_OP_GROUPNORM_H

#include "nnkit.h"
#include <math.h>
#include <stdlib.h>

static inline bool infer_channels(gg_infer *f)
{
	const gg_shape *x = &f->in[0].shape;
	f->out[0].shape = *x;
	if (x->rank >= 0 && x->rank < 2)
		return gg_fail(f, "input has rank %d, expected at least 2", x->rank);
	gg_dim channels = x->rank < 0 ? gg_unknown_dim(f, 0, 1) : x->dim[1];
	return gg_check_vector(f, 1, "scale", channels) && gg_check_vector(f, 2, "bias", channels);
}

static inline bool normalize_groups(gg_eval *e, int64_t groups)
{
	const gg_shape *s = &e->in[0].shape;
	int64_t channels = s->dim[1], plane = gg_span(s, 2, s->rank);
	if (!gg_count(&e->in[0]))
		return true;
	int64_t n = channels / groups * plane;
	double epsilon = gg_get_float(e->n, "epsilon"), mean, var;
	double *x = gg_doubles(&e->in[0]), *scale = gg_doubles(&e->in[1]), *bias = gg_doubles(&e->in[2]);
	for (int64_t r = 0; r < s->dim[0] * groups; r++) {
		double *v = x + r * n;
		gg_moments(v, n, &mean, &var);
		double inverse = 1 / sqrt(var + epsilon);
		for (int64_t i = 0; i < n; i++) {
			int64_t c = (r * n + i) / plane % channels;
			v[i] = (v[i] - mean) * inverse * scale[c] + bias[c];
		}
	}
	gg_store_all(&e->out[0], x);
	free(x);
	free(scale);
	free(bias);
	return true;
}

#endif
