/* What If, Loop and Scan share. A body is inferred where it stands, on the values of the graph:
 * not when an executor asks for shapes of tensors. */
#ifndef GG_OP_BODY_H
#define GG_OP_BODY_H

#include "move.h"
#include <stdlib.h>
#include <string.h>

/* What two alternatives have in common. */
static inline gg_shape body_common(gg_infer *f, int out, const gg_shape *a, const gg_shape *b)
{
	if (a->rank < 0 || a->rank != b->rank)
		return gg_shape_unknown;
	gg_shape s = *a;
	for (int i = 0; i < s.rank; i++)
		if (a->dim[i] != b->dim[i])
			s.dim[i] = gg_unknown_dim(f, out, i);
	return s;
}

/* An expression over a size that only the body knows means nothing outside. */
static inline gg_shape body_outside(gg_infer *f, int out, const gg_shape *in_body)
{
	gg_shape s = *in_body;
	for (int i = 0; i < s.rank; i++)
		if (!gg_dim_known(s.dim[i]) && strchr(gg_dim_str(s.dim[i]), '?'))
			s.dim[i] = gg_unknown_dim(f, out, i);
	return s;
}

static inline bool body_arity(gg_infer *f, const gg_graph *b, int nin, int nout)
{
	int in = (int)b->nin - f->n->ncap, out = (int)b->nout;
	if (in != nin)
		return gg_fail(f, "body has %d inputs, expected %d", in, nin);
	return out == nout || gg_fail(f, "body has %d outputs, expected %d", out, nout);
}

/* Tells body input v its dtype, and (s) its shape as far as it did not know. */
static inline bool body_set(gg_infer *f, gg_value *v, gg_dtype t, const gg_shape *s)
{
	if (t && v->dtype && v->dtype != t)
		return gg_fail(f, "body input '%s' is %s, but gets %s", v->name, gg_dtype_name(v->dtype),
		               gg_dtype_name(t));
	v->dtype = (uint8_t)(t ? t : v->dtype);
	if (!s || s->rank < 0)
		return true;
	if (v->shape.rank < 0)
		v->shape = *s;
	bool fits = v->shape.rank == s->rank;
	for (int i = 0; fits && i < s->rank; i++) {
		fits = !gg_dim_known(v->shape.dim[i]) || !gg_dim_known(s->dim[i]) ||
		       v->shape.dim[i] == s->dim[i];
		if (gg_dim_known(s->dim[i]))
			v->shape.dim[i] = s->dim[i];
	}
	return fits || gg_fail(f, "body input '%s' has shape %s, but gets %s", v->name, gg_str(f, &v->shape),
	                       gg_str(f, s));
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Bytes of a value that outlives the run that made it; two of them, so that a new value may be
 * copied while old ones are still read. */
typedef struct body_slot {
	gg_tensor t;
	void *buf[2];
	size_t cap[2];
	int at;
} body_slot;

static inline void body_keep(body_slot *s, const gg_tensor *t)
{
	size_t n = gg_nbytes(t);
	s->at ^= 1;
	if (n > s->cap[s->at] || !s->buf[s->at]) {
		free(s->buf[s->at]);
		s->cap[s->at] = n + n / 2 + 64;
		s->buf[s->at] = gg_xaligned(s->cap[s->at]);
	}
	if (n)
		memcpy(s->buf[s->at], t->data, n);
	s->t = (gg_tensor){t->dtype, t->shape, s->buf[s->at]};
}

static inline void body_free(body_slot *s, int n)
{
	for (int i = 0; i < n; i++) {
		free(s[i].buf[0]);
		free(s[i].buf[1]);
	}
	free(s);
}

/* Room for output i of the shape found: where the executor has put it, or new. NULL with a message
 * when another shape was promised; *good tells NULL for "empty" or "not wanted" from that. */
static inline void *body_place(gg_eval *e, int i, const gg_shape *s, bool *good)
{
	gg_tensor *y = &e->out[i];
	void *p = NULL;
	*good = true;
	if (y->dtype == GG_NONE)
		return NULL;
	if (!gg_shape_known(&y->shape)) {
		p = gg_eval_alloc(e, i, s->rank, s->dim);
		*good = p || gg_count(y) == 0;
		return p;
	}
	if (gg_shape_eq(&y->shape, s))
		return y->data;
	*good = gg_fail(e, "output %d has shape %s, expected %s", i, gg_shape_str(e->a, s),
	                gg_shape_str(e->a, &y->shape));
	return NULL;
}

static inline bool body_give(gg_eval *e, int i, const gg_tensor *t)
{
	bool good;
	void *p = body_place(e, i, &t->shape, &good);
	if (p && gg_nbytes(t))
		memcpy(p, t->data, gg_nbytes(t));
	return good;
}

/* The shape of what no trip has made: dims that are not known are 0. */
static inline gg_shape body_nothing(const gg_value *v)
{
	gg_shape s = v->shape;
	s.rank = s.rank < 0 ? 0 : s.rank;
	for (int i = 0; i < s.rank; i++)
		s.dim[i] = gg_dim_known(s.dim[i]) ? s.dim[i] : 0;
	return s;
}

static inline gg_shape body_insert(const gg_shape *s, int axis, gg_dim n)
{
	gg_shape out = {.rank = s->rank + 1};
	for (int i = 0; i < out.rank; i++)
		out.dim[i] = i == axis ? n : s->dim[i - (i > axis)];
	return out;
}

#endif
