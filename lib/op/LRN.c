#include "nnkit.h"
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
                         .eval = eval};
