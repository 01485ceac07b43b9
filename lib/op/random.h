/* What the random ops share. */
#ifndef GG_OP_RANDOM_H
#define GG_OP_RANDOM_H

#include "opkit.h"

#define GG_RANDOM_ATTRS(A, DEF_A, B, DEF_B) \
	{A, GG_ATTR_FLOAT, false, DEF_A}, {B, GG_ATTR_FLOAT, false, DEF_B}, \
	{ \
		"seed", GG_ATTR_FLOAT, false, 0 \
	}

static inline bool random_dtype(gg_infer *f, gg_dtype t, gg_dtypes allowed)
{
	f->out[0].dtype = t;
	return GG_DT(t) & allowed ? true : gg_unsupported(f, "dtype %s", gg_dtype_name(t));
}

/* The shape is an attribute. */
static inline bool random_infer(gg_infer *f)
{
	const gg_attr *s = gg_get_list(f->n, "shape");
	if (s->n > GG_MAX_RANK)
		return gg_unsupported(f, "rank %d, at most %d is supported", s->n, GG_MAX_RANK);
	for (int i = 0; i < s->n; i++)
		if (s->ints[i] < 0 || !gg_dim_number(s->ints[i]))
			return gg_fail(f, "shape has size %lld", (long long)s->ints[i]);
	f->out[0].shape = gg_shape_of(s->n, s->ints);
	return random_dtype(f, gg_get_dtype(f->n, "dtype"), GG_FLOATS);
}

/* Dtype and shape of the input, unless the attribute names a dtype. */
static inline bool random_infer_like(gg_infer *f, gg_dtypes allowed)
{
	gg_dtype t = gg_get_dtype(f->n, "dtype");
	f->out[0].shape = f->in[0].shape;
	return random_dtype(f, t ? t : f->in[0].dtype, allowed);
}

static inline bool random_normal(gg_eval *e)
{
	gg_fill_normal(&e->out[0], gg_random_seed(e), gg_get_float(e->n, "mean"),
	               gg_get_float(e->n, "scale"));
	return true;
}

static inline bool random_uniform(gg_eval *e)
{
	gg_fill_uniform(&e->out[0], gg_random_seed(e), gg_get_float(e->n, "low"), gg_get_float(e->n, "high"));
	return true;
}

#endif
