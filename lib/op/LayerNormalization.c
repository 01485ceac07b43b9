#include "norm.h"
#include "grad.h"

static bool infer(gg_infer *f)
{
	const gg_shape *x = &f->in[0].shape;
	int axis = 0;
	gg_dtype stash;
	if (!infer_trailing(f, &axis) || !check_stash(f, &stash))
		return false;
	for (int i = 1; i < f->nout; i++) {
		f->out[i].dtype = stash;
		f->out[i].shape = *x;
		for (int k = axis; k < x->rank; k++)
			f->out[i].shape.dim[k] = 1;
	}
	return true;
}

static bool eval(gg_eval *e)
{
	const gg_shape *s = &e->in[0].shape;
	int axis = (int)gg_eval_axis(gg_get_int(e->n, "axis"), s->rank);
	int64_t rows = gg_span(s, 0, axis), n = gg_span(s, axis, s->rank);
	double epsilon = gg_get_float(e->n, "epsilon"), mean, var;
	double *x = gg_doubles(&e->in[0]);
	for (int64_t r = 0; r < rows; r++) {
		double *v = x + r * n;
		gg_moments(v, n, &mean, &var);
		double inverse = 1 / sqrt(var + epsilon);
		for (int64_t i = 0; i < n; i++)
			v[i] = (v[i] - mean) * inverse;
		if (gg_wanted(e, 1))
			gg_set_f64(&e->out[1], r, mean);
		if (gg_wanted(e, 2))
			gg_set_f64(&e->out[2], r, inverse);
	}
	if (gg_count(&e->in[0]))
		scale_shift(e, x);
	gg_store_all(&e->out[0], x);
	free(x);
	return true;
}

/* Of the mean and of i = 1 / deviation: 1 / n, and -i^3 (x - mean) / n. */
static void statistics(gg_builder *t, gg_node *n, gg_value *dmean, gg_value *dinverse)
{
	gg_value *x = IN(0);
	gg_dtype type = (gg_dtype)x->dtype;
	int64_t axis, over[GG_MAX_RANK];
	int count = 0;
	if ((!dmean && !dinverse) || !gg_grad_axis(t, n, x, &axis))
		return;
	for (int64_t i = axis; i < x->shape.rank; i++)
		over[count++] = i;
	gg_value *mean = gg_put_reduce(t, "ReduceMean", x, count, over, true), *d = OP("Sub", x, mean);
	gg_value *each = OP("Div", gg_put_count(t, mean), gg_put_count(t, x));
	if (dmean)
		gg_give(t, x, gg_put_expand(t, OP("Mul", gg_put_cast(t, dmean, type), each), x));
	if (dinverse) {
		gg_value *i = gg_put_cast(t, n->out[2], type), *cube = OP("Mul", i, OP("Mul", i, i));
		gg_value *g = OP("Mul", OP("Mul", gg_put_cast(t, dinverse, type), each), cube);
		gg_give(t, x, OP("Neg", OP("Mul", g, d), 0));
	}
}

/* A bias of another shape than the scale's is no business of the primitive's. */
GG_GRAD(grad)
{
	gg_value *in[] = {dy, IN(0), IN(1)}, *bias = IN(2);
	bool apart = gg_grad_wanted(bias) && !gg_shape_eq(&bias->shape, &IN(1)->shape);
	gg_node *k = dy ? gg_grad_three(t, n, "LayerNormGrad", 3, in) : 0;
	for (int i = 0; k && i < k->nout; i++)
		if (!(apart && i == 2))
			gg_give(t, IN(i), k->out[i]);
	if (apart)
		gg_give_like(t, n, bias, dy);
	statistics(t, n, gg_grad_out(n, 1), gg_grad_out(n, 2));
}

const gg_op gg_op_LayerNormalization = {
    .name = "LayerNormalization",
    .doc = "mean 0 and variance 1 over the axes from 'axis' on, then scale and bias",
    .min_in = 2,
    .max_in = 3,
    .min_out = 1,
    .max_out = 3,
    .attrs = (const gg_attr_spec[]){{"axis", GG_ATTR_INT, .def = "-1"},
                                    {"epsilon", GG_ATTR_FLOAT, .def = "1e-05"},
                                    {"stash_type", GG_ATTR_INT, .def = "1"},
                                    {0}},
    .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
    .out = {{GG_FLOATS, 'T'}, {GG_FLOATS}, {GG_FLOATS}},
    .infer = infer,
    .eval = eval,
    .grad = grad};
