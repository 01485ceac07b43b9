#include "gradkit.h"
#include <math.h>
#include <stdlib.h>

static bool infer(gg_infer *f)
{
	int axis;
	const gg_shape *dy = &f->in[0].shape, *x = &f->in[1].shape, *scale = &f->in[2].shape;
	gg_shape both;
	f->out[0].shape = *x;
	for (int i = 1; i < f->nout; i++)
		f->out[i].shape = *scale;
	if (!shapes_agree(dy, x))
		return gg_fail(f, "dy has shape %s, x has %s", gg_str(f, dy), gg_str(f, x));
	if (x->rank < 0 || scale->rank < 0)
		return true;
	if (!gg_axis(f, "axis", gg_get_int(f->n, "axis"), x->rank, &axis))
		return false;
	return (scale->rank <= x->rank && gg_broadcast(x, scale, &both)) ||
	       gg_fail(f, "scale has shape %s, which cannot be broadcast to %s", gg_str(f, scale),
	               gg_str(f, x));
}

/* scale spread over x: where each element's is. */
static int64_t *places(const gg_shape *x, const gg_shape *scale, int64_t count)
{
	int64_t idx[GG_MAX_RANK] = {0}, stride[GG_MAX_RANK], at = 0;
	int64_t *place = gg_xaligned((size_t)count * sizeof *place);
	gg_bcast_strides(scale, x, stride);
	do {
		place[at] = 0;
		for (int i = 0; i < x->rank; i++)
			place[at] += idx[i] * stride[i];
		at++;
	} while (gg_next_index(x, idx));
	return place;
}

/* One row: dy becomes dx; its parts of the sums of scale and bias. */
static void row(int64_t n, double epsilon, double *dy, const double *x, const double *scale,
                const int64_t *place, double *dscale, double *dbias)
{
	double mean, var, less = 0, along = 0;
	gg_moments(x, n, &mean, &var);
	double inverse = 1 / sqrt(var + epsilon);
	for (int64_t i = 0; i < n; i++) {
		double hat = (x[i] - mean) * inverse;
		dscale[place[i]] += dy[i] * hat;
		dbias[place[i]] += dy[i];
		dy[i] *= scale[place[i]];
		less += dy[i] / (double)n;
		along += dy[i] * hat / (double)n;
	}
	for (int64_t i = 0; i < n; i++)
		dy[i] = inverse * (dy[i] - less - (x[i] - mean) * inverse * along);
}

static bool eval(gg_eval *e)
{
	const gg_shape *s = &e->in[1].shape, *k = &e->in[2].shape;
	int axis = (int)gg_eval_axis(gg_get_int(e->n, "axis"), s->rank);
	int64_t rows = gg_span(s, 0, axis), n = gg_span(s, axis, s->rank), scales = gg_count(&e->in[2]);
	double *dy = gg_doubles(&e->in[0]), *x = gg_doubles(&e->in[1]), *scale = gg_doubles(&e->in[2]);
	double *sums = gg_xcalloc((size_t)(2 * scales) + 1, sizeof *sums);
	int64_t *place = rows && n ? places(s, k, rows * n) : 0;
	for (int64_t r = 0; r < (place ? rows : 0); r++)
		row(n, gg_get_float(e->n, "epsilon"), dy + r * n, x + r * n, scale, place + r * n, sums,
		    sums + scales);
	for (int i = 0; i < 3; i++)
		if (gg_wanted(e, i))
			gg_store_all(&e->out[i], i ? sums + (i - 1) * scales : dy);
	free(dy);
	free(x);
	free(scale);
	free(sums);
	free(place);
	return true;
}

/* Sums what broadcasting repeated. */
static gg_value *like(gg_kit k, gg_value *v, gg_value *small)
{
	int64_t axis[GG_MAX_RANK];
	int count = 0, extra = v ? v->shape.rank - small->shape.rank : 0;
	for (int i = 0; v && i < v->shape.rank; i++)
		if (i < extra || (small->shape.dim[i - extra] == 1 && v->shape.dim[i] != 1))
			axis[count++] = i;
	v = v && count ? kit_reduce(k, "ReduceSum", v, count, axis, true) : v;
	return extra ? kit_op(k, "Reshape", v, kit_one(k, "Shape", small)) : v;
}

static bool expand(gg_diag *d, gg_node *n)
{
	gg_kit k = {d, n};
	gg_value *dy = gg_in(n, 0), *x = gg_in(n, 1), *scale = gg_in(n, 2), *out[3];
	int64_t over[GG_MAX_RANK];
	int count = 0;
	if (x->shape.rank < 1 || scale->shape.rank < 0)
		return false;
	for (int64_t i = gg_eval_axis(gg_get_int(n, "axis"), x->shape.rank); i < x->shape.rank; i++)
		over[count++] = i;
	gg_value *c = kit_op(k, "Sub", x, kit_reduce(k, "ReduceMean", x, count, over, true));
	gg_value *var = kit_reduce(k, "ReduceMean", kit_op(k, "Mul", c, c), count, over, true);
	var = kit_op(k, "Add", var, kit_number(k, (gg_dtype)x->dtype, gg_get_float(n, "epsilon")));
	gg_value *inverse = kit_one(k, "Reciprocal", kit_one(k, "Sqrt", var)),
	         *hat = kit_op(k, "Mul", c, inverse);
	gg_value *g = kit_op(k, "Mul", dy, scale);
	gg_value *along = kit_reduce(k, "ReduceMean", kit_op(k, "Mul", g, hat), count, over, true);
	out[0] = kit_op(k, "Sub", g, kit_reduce(k, "ReduceMean", g, count, over, true));
	out[0] = kit_op(k, "Mul", kit_op(k, "Sub", out[0], kit_op(k, "Mul", hat, along)), inverse);
	out[1] = like(k, kit_op(k, "Mul", dy, hat), scale);
	out[2] = like(k, dy, scale);
	if (out[2] == dy)
		out[2] = kit_one(k, "Identity", dy);
	return kit_replace(k, out);
}

const gg_op gg_op_LayerNormGrad = {
    .name = "LayerNormGrad",
    .domain = "gg",
    .doc = "the gradients of LayerNormalization, of the bias as if it had the scale's shape: dy, x, scale",
    .min_in = 3,
    .max_in = 3,
    .min_out = 1,
    .max_out = 3,
    .attrs = (const gg_attr_spec[]){{"axis", GG_ATTR_INT, .def = "-1"},
                                    {"epsilon", GG_ATTR_FLOAT, .def = "1e-05"},
                                    {0}},
    .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
    .out = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
    .infer = infer,
    .eval = eval,
    .expand = expand};
