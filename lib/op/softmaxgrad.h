/* The gradients of Softmax and LogSoftmax, row by row along one axis. */
#ifndef GG_OP_SOFTMAXGRAD_H
#define GG_OP_SOFTMAXGRAD_H

#include "gradkit.h"
#include <math.h>
#include <stdlib.h>

static inline bool infer_softmaxgrad(gg_infer *f)
{
	int axis;
	const gg_shape *dy = &f->in[0].shape, *y = &f->in[1].shape;
	f->out[0].shape = dy->rank < 0 ? *y : *dy;
	if (!shapes_agree(dy, y))
		return gg_fail(f, "dy has shape %s, y has %s", gg_str(f, dy), gg_str(f, y));
	return f->out[0].shape.rank < 0 ||
	       gg_axis(f, "axis", gg_get_int(f->n, "axis"), f->out[0].shape.rank, &axis);
}

/* dy becomes dx; elements are `inner` apart. */
typedef void softmaxgrad_row(int64_t n, int64_t inner, double *dy, const double *y);

static inline bool eval_softmaxgrad(gg_eval *e, softmaxgrad_row *row)
{
	const gg_shape *s = &e->in[0].shape;
	int a = (int)gg_eval_axis(gg_get_int(e->n, "axis"), s->rank);
	int64_t n = s->dim[a], outer = gg_span(s, 0, a), inner = gg_span(s, a + 1, s->rank);
	double *dy = gg_doubles(&e->in[0]), *y = gg_doubles(&e->in[1]);
	for (int64_t i = 0; i < outer * inner; i++)
		row(n, inner, dy + i / inner * n * inner + i % inner, y + i / inner * n * inner + i % inner);
	gg_store_all(&e->out[0], dy);
	free(dy);
	free(y);
	return true;
}

#define GG_SOFTMAX_GRAD \
	.domain = "gg", .min_in = 2, .max_in = 2, .min_out = 1, .max_out = 1, \
	.attrs = (const gg_attr_spec[]){{"axis", GG_ATTR_INT, .def = "-1"}, {0}}, \
	.in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}}, .out = {{GG_FLOATS, 'T'}}, .infer = infer_softmaxgrad

#endif
