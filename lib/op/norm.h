/* Normalisation over the trailing axes: what LayerNormalization and RMSNormalization share. */
#ifndef GG_OP_NORM_H
#define GG_OP_NORM_H

#include "nnkit.h"
#include <math.h>
#include <stdlib.h>

/* The axis is in range, and input i broadcasts to the data's shape without growing it. */
static inline bool infer_trailing(gg_infer *f, int *axis)
{
	const gg_shape *x = &f->in[0].shape;
	gg_shape both;
	f->out[0].shape = *x;
	if (x->rank < 0)
		return true;
	if (!gg_axis(f, "axis", gg_get_int(f->n, "axis"), x->rank, axis))
		return false;
	for (int i = 1; i < f->nin; i++) {
		const gg_shape *s = &f->in[i].shape;
		if (!gg_given(f, i) || s->rank < 0)
			continue;
		bool fits = s->rank <= x->rank && gg_broadcast(x, s, &both);
		for (int k = 0; fits && k < x->rank; k++)
			fits = !gg_dim_known(x->dim[k]) || !gg_dim_known(both.dim[k]) ||
			       x->dim[k] == both.dim[k];
		if (!fits)
			return gg_fail(f, "%s has shape %s, which cannot be broadcast to %s",
			               i == 1 ? "scale" : "bias", gg_str(f, s), gg_str(f, x));
	}
	return true;
}

static inline bool check_stash(gg_infer *f, gg_dtype *out)
{
	int64_t code = gg_get_int(f->n, "stash_type");
	*out = gg_dtype_from_onnx(code);
	return ((GG_FLOATS & GG_DT(*out)) && *out) || gg_unsupported(f, "stash_type %lld", (long long)code);
}

/* Scale and bias, spread over the data's shape, on values already normalised. */
static inline void scale_shift(gg_eval *e, double *v)
{
	const gg_shape *s = &e->in[0].shape;
	int64_t idx[GG_MAX_RANK] = {0}, stride[2][GG_MAX_RANK], at = 0;
	bool has_bias = gg_has(e, 2);
	double *scale = gg_doubles(&e->in[1]), *bias = has_bias ? gg_doubles(&e->in[2]) : 0;
	gg_bcast_strides(&e->in[1].shape, s, stride[0]);
	if (has_bias)
		gg_bcast_strides(&e->in[2].shape, s, stride[1]);
	do {
		int64_t k = 0, b = 0;
		for (int i = 0; i < s->rank; i++) {
			k += idx[i] * stride[0][i];
			b += has_bias ? idx[i] * stride[1][i] : 0;
		}
		v[at] = v[at] * scale[k] + (has_bias ? bias[b] : 0);
		at++;
	} while (gg_next_index(s, idx));
	free(scale);
	free(bias);
}

#endif
