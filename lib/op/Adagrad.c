#include "optimiser.h"

enum { RATE, EPSILON, L2 };

/* X, G, H to X, H */
static void step(double *v, const double *p)
{
	double x = v[0], g = p[L2] * x + v[1], h = v[2] + g * g;
	v[0] = x - p[RATE] * g / (sqrt(h) + p[EPSILON]);
	v[1] = h;
}

static bool eval(gg_eval *e)
{
	double t = (double)gg_get_i64(&e->in[1], 0);
	const double p[] = {gg_get_f64(&e->in[0], 0) / (1 + t * gg_get_float(e->n, "decay_factor")),
	                    gg_get_float(e->n, "epsilon"), gg_get_float(e->n, "norm_coefficient")};
	return optimiser_eval(e, 3, 2, step, p);
}

static bool infer(gg_infer *f)
{
	return optimiser_scalars(f) && optimiser_infer(f, 3, (const int[]){0, 2, -1});
}

const gg_op gg_op_Adagrad = {
    OPTIMISER(Adagrad, "one step of Adagrad: rate, step count, weights, gradients, sums of squares"),
    .attrs = (const gg_attr_spec[]){{"decay_factor", GG_ATTR_FLOAT, false, "0"},
                                    {"epsilon", GG_ATTR_FLOAT, false, "1e-06"},
                                    {"norm_coefficient", GG_ATTR_FLOAT, false, "0"},
                                    {0}},
    .infer = infer, .eval = eval};
