#include "nnkit.h"
#include "grad.h"
#include <math.h>
#include <stdlib.h>

static bool infer(gg_infer *f)
{
	int64_t size = gg_get_int(f->n, "size");
	int rank = f->in[0].shape.rank;
	f->out[0].shape = f->in[0].shape;
	if (rank >= 0 && rank < 2)
		return gg_fail(f, "input has rank %d, expected at least 2", rank);
	return size >= 1 || gg_fail(f, "attribute 'size' is %lld, expected at least 1", (long long)size);
}

/* Channel c is divided by what the channels c - (size-1)/2 .. c + ceil((size-1)/2) sum up to. */
static bool eval(gg_eval *e)
{
	const gg_shape *s = &e->in[0].shape;
	double alpha = gg_get_float(e->n, "alpha"), beta = gg_get_float(e->n, "beta"),
	       bias = gg_get_float(e->n, "bias");
	int64_t size = gg_get_int(e->n, "size"), channels = s->dim[1], plane = gg_span(s, 2, s->rank);
	int64_t before = (size - 1) / 2, after = size - 1 - before;
	if (!gg_count(&e->in[0]))
		return true;
	double *x = gg_doubles(&e->in[0]), *y = gg_doubles(&e->in[0]);
	for (int64_t r = 0; r < s->dim[0] * channels; r++) {
		int64_t c = r % channels, lo = c > before ? c - before : 0,
		        hi = after < channels - c ? c + after : channels - 1;
		const double *base = x + (r - c) * plane;
		for (int64_t i = 0; i < plane; i++) {
			double squares = 0;
			for (int64_t k = lo; k <= hi; k++)
				squares += base[k * plane + i] * base[k * plane + i];
			y[r * plane + i] /= pow(bias + alpha / (double)size * squares, beta);
		}
	}
	gg_store_all(&e->out[0], y);
	free(x);
	free(y);
	return true;
}

/* The mean over near channels, as many before as after or one less; back: seen from the other channel. */
static gg_value *near(gg_builder *t, gg_value *v, int64_t size, bool back)
{
	int64_t kernel[] = {size, 1}, lo = (size - 1) / 2, hi = size - 1 - lo;
	int64_t pads[] = {back ? hi : lo, 0, back ? lo : hi, 0}, dim[] = {0, 1, v ? v->shape.dim[1] : 0, -1};
	gg_value *x = OP("Reshape", v, gg_put_ints(t, 4, dim)), *y = gg_put(t, "AveragePool", 1, &x, 0);
	if (y) {
		gg_set_attr_ints(y->producer, "kernel_shape", 2, kernel);
		gg_set_attr_ints(y->producer, "pads", 4, pads);
		gg_set_attr_int(y->producer, "count_include_pad", 1);
	}
	y = gg_put_done(t, y);
	return y ? gg_put_reshape(t, y, v) : 0;
}

/* s = bias + alpha near(x^2): dy s^-beta - 2 alpha beta x near(dy x s^(-beta-1)) */
GG_GRAD(grad)
{
	gg_value *x = IN(0);
	double alpha = gg_get_float(n, "alpha"), beta = gg_get_float(n, "beta");
	int64_t size = gg_get_int(n, "size");
	if (x->shape.rank < 2 || !gg_dim_known(x->shape.dim[1])) {
		gg_grad_lacks(t, n, "the number of channels is not known");
		return;
	}
	gg_value *s = OP("Mul", near(t, OP("Mul", x, x), size, false), NUM(x, alpha));
	s = OP("Add", s, NUM(x, gg_get_float(n, "bias")));
	gg_value *g = OP("Mul", dy, OP("Pow", s, NUM(x, -beta)));
	gg_value *along = near(t, OP("Div", OP("Mul", g, x), s), size, true);
	along = OP("Mul", OP("Mul", x, along), NUM(x, 2 * alpha * beta));
	gg_give(t, x, OP("Sub", g, along));
}

const gg_op gg_op_LRN = {.name = "LRN",
                         .doc = "x / (bias + alpha / size * sum of squares over near channels) ^ beta",
                         .min_in = 1,
                         .max_in = 1,
                         .min_out = 1,
                         .max_out = 1,
                         .attrs = (const gg_attr_spec[]){{"alpha", GG_ATTR_FLOAT, .def = "0.0001"},
                                                         {"beta", GG_ATTR_FLOAT, .def = "0.75"},
                                                         {"bias", GG_ATTR_FLOAT, .def = "1"},
                                                         {"size", GG_ATTR_INT, .required = true},
                                                         {0}},
                         .in = {{GG_FLOATS, 'T'}},
                         .out = {{GG_FLOATS, 'T'}},
                         .infer = infer,
                         .eval = eval,
                         .grad = grad};
