#include "optimiser.h"

enum { RATE, ALPHA, BETA, EPSILON, L2, POST };

/* X, G, V, H to X, V, H */
static void step(double *v, const double *p)
{
	double x = v[0], g = p[L2] * x + v[1];
	double m = p[ALPHA] * v[2] + (1 - p[ALPHA]) * g, h = p[BETA] * v[3] + (1 - p[BETA]) * g * g;
	v[0] = (1 - p[POST]) * (x - p[RATE] * m / (sqrt(h) + p[EPSILON]));
	v[1] = m;
	v[2] = h;
}

static bool eval(gg_eval *e)
{
	double t = (double)gg_get_i64(&e->in[1], 0), rate = gg_get_f64(&e->in[0], 0);
	double alpha = gg_get_float(e->n, "alpha"), beta = gg_get_float(e->n, "beta");
	if (t > 0)
		rate *= sqrt(1 - pow(beta, t)) / (1 - pow(alpha, t));
	const double p[] = {rate,
	                    alpha,
	                    beta,
	                    gg_get_float(e->n, "epsilon"),
	                    gg_get_float(e->n, "norm_coefficient"),
	                    gg_get_float(e->n, "norm_coefficient_post")};
	return optimiser_eval(e, 4, 3, step, p);
}

static bool infer(gg_infer *f)
{
	return optimiser_scalars(f) && optimiser_infer(f, 4, (const int[]){0, 2, 3, -1});
}

const gg_op gg_op_Adam = {
    OPTIMISER(Adam, "one step of Adam: rate, step count, weights, gradients, first and second moments"),
    .attrs = (const gg_attr_spec[]){{"alpha", GG_ATTR_FLOAT, false, "0.9"},
                                    {"beta", GG_ATTR_FLOAT, false, "0.999"},
                                    {"epsilon", GG_ATTR_FLOAT, false, "1e-06"},
                                    {"norm_coefficient", GG_ATTR_FLOAT, false, "0"},
                                    {"norm_coefficient_post", GG_ATTR_FLOAT, false, "0"},
                                    {0}},
    .infer = infer, .eval = eval};
