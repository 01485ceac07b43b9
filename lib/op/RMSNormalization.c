#include "norm.h"
#include "grad.h"

static bool infer(gg_infer *f)
{
	int axis;
	gg_dtype stash;
	return infer_trailing(f, &axis) && check_stash(f, &stash);
}

static bool eval(gg_eval *e)
{
	const gg_shape *s = &e->in[0].shape;
	int axis = (int)gg_eval_axis(gg_get_int(e->n, "axis"), s->rank);
	int64_t rows = gg_span(s, 0, axis), n = gg_span(s, axis, s->rank);
	double epsilon = gg_get_float(e->n, "epsilon");
	double *x = gg_doubles(&e->in[0]);
	for (int64_t r = 0; r < rows; r++) {
		double *v = x + r * n, squares = 0;
		for (int64_t i = 0; i < n; i++)
			squares += v[i] * v[i];
		double rms = sqrt(squares / (double)n + epsilon);
		for (int64_t i = 0; i < n; i++)
			v[i] /= rms;
	}
	if (gg_count(&e->in[0]))
		scale_shift(e, x);
	gg_store_all(&e->out[0], x);
	free(x);
	return true;
}

/* (g - hat mean(g hat)) / rms, g = dy scale */
GG_GRAD(grad)
{
	int64_t axis, over[GG_MAX_RANK];
	int count = 0;
	gg_value *x = IN(0);
	gg_dtype type = (gg_dtype)x->dtype;
	if (!gg_grad_axis(t, n, x, &axis))
		return;
	for (int64_t i = axis; i < x->shape.rank; i++)
		over[count++] = i;
	gg_value *square = gg_put_reduce(t, "ReduceMean", OP("Mul", x, x), count, over, true);
	square = OP("Add", square, NUM(x, gg_get_float(n, "epsilon")));
	gg_value *inverse = OP("Reciprocal", OP("Sqrt", square, 0), 0), *hat = OP("Mul", x, inverse);
	dy = gg_put_cast(t, dy, type);
	if (gg_grad_wanted(IN(1)))
		gg_give_like(t, n, IN(1), gg_put_cast(t, OP("Mul", dy, hat), (gg_dtype)IN(1)->dtype));
	if (!gg_grad_wanted(x))
		return;
	gg_value *g = OP("Mul", dy, gg_put_cast(t, IN(1), type));
	gg_value *along = gg_put_reduce(t, "ReduceMean", OP("Mul", g, hat), count, over, true);
	gg_give(t, x, OP("Mul", OP("Sub", g, OP("Mul", hat, along)), inverse));
}

const gg_op gg_op_RMSNormalization = {
    .name = "RMSNormalization",
    .doc = "x / root mean square over the axes from 'axis' on, times scale",
    .min_in = 2,
    .max_in = 2,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"axis", GG_ATTR_INT, .def = "-1"},
                                    {"epsilon", GG_ATTR_FLOAT, .def = "1e-05"},
                                    {"stash_type", GG_ATTR_INT, .def = "1"},
                                    {0}},
    .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'V'}},
    .out = {{GG_FLOATS, 'V'}},
    .infer = infer,
    .eval = eval,
    .grad = grad};
