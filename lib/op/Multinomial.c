#include "random.h"
#include <math.h>

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape;
	int64_t samples = gg_get_int(f->n, "sample_size");
	if (s->rank >= 0 && s->rank != 2)
		return gg_fail(f, "input has rank %d, expected 2", s->rank);
	if (samples < 0 || !gg_dim_number(samples))
		return gg_fail(f, "sample_size is %lld", (long long)samples);
	if (s->rank == 2)
		f->out[0].shape = (gg_shape){2, {s->dim[0], samples}};
	return random_dtype(f, gg_get_dtype(f->n, "dtype"), GG_INDICES);
}

/* The class whose share of the total weight holds r; classes lie side by side in order. */
static int64_t draw(const double *weight, int64_t n, double r)
{
	int64_t last = 0;
	for (int64_t k = 0; k < n; k++) {
		if (weight[k] > 0)
			last = k;
		if (r < weight[k])
			return k;
		r -= weight[k];
	}
	return last;
}

static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0];
	int64_t rows = x->shape.dim[0], n = x->shape.dim[1], samples = e->out[0].shape.dim[1];
	double *weight = gg_alloc_n(e->a, (size_t)n, sizeof *weight);
	uint64_t seed = gg_random_seed(e);
	if (n == 0 && rows * samples > 0)
		return gg_fail(e, "there is no class to draw from");
	for (int64_t i = 0; i < rows; i++) {
		double most = -INFINITY, sum = 0;
		gg_load_f64(x->dtype, x->data, i * n, n, weight);
		for (int64_t k = 0; k < n; k++)
			most = fmax(most, weight[k]);
		for (int64_t k = 0; k < n; k++)
			sum += weight[k] = exp(weight[k] - most);
		for (int64_t k = 0; k < samples; k++) {
			int64_t at = i * samples + k;
			gg_set_i64(&e->out[0], at, draw(weight, n, sum * gg_uniform(seed, (uint64_t)at)));
		}
	}
	return true;
}

const gg_op gg_op_Multinomial = {.name = "Multinomial",
                                 .doc = "classes drawn by their log probabilities in each row",
                                 .min_in = 1,
                                 .max_in = 1,
                                 .min_out = 1,
                                 .max_out = 1,
                                 .attrs = (const gg_attr_spec[]){{"dtype", GG_ATTR_DTYPE, false, "i32"},
                                                                 {"sample_size", GG_ATTR_INT, false, "1"},
                                                                 {"seed", GG_ATTR_FLOAT, false, 0},
                                                                 {0}},
                                 .flags = GG_RANDOM,
                                 .in = {{GG_FLOATS}},
                                 .out = {{GG_INDICES}},
                                 .infer = infer,
                                 .eval = eval};
