#include "optimiser.h"
#include <string.h>

enum { RATE, ALPHA, BETA, L2, NESTEROV };

/* X, G, V to X, V */
static void step(double *v, const double *p)
{
	double x = v[0], g = p[L2] * x + v[1], m = p[ALPHA] * v[2] + p[BETA] * g;
	v[0] = x - p[RATE] * (p[NESTEROV] != 0 ? g + p[ALPHA] * m : m);
	v[1] = m;
}

/* In the first step beta counts as 1. */
static bool eval(gg_eval *e)
{
	bool nesterov = !strcmp(gg_get_string(e->n, "mode"), "nesterov");
	double beta = gg_get_i64(&e->in[1], 0) > 0 ? gg_get_float(e->n, "beta") : 1;
	const double p[] = {gg_get_f64(&e->in[0], 0), gg_get_float(e->n, "alpha"), beta,
	                    gg_get_float(e->n, "norm_coefficient"), nesterov};
	return optimiser_eval(e, 3, 2, step, p);
}

static bool infer(gg_infer *f)
{
	const char *mode = gg_get_string(f->n, "mode");
	if (!mode || (strcmp(mode, "standard") && strcmp(mode, "nesterov")))
		return gg_fail(f, "mode '%s' is neither standard nor nesterov", mode ? mode : "");
	return optimiser_scalars(f) && optimiser_infer(f, 3, (const int[]){0, 2, -1});
}

const gg_op gg_op_Momentum = {
    OPTIMISER(Momentum, "one step with momentum: rate, step count, weights, gradients, momenta"),
    .attrs = (const gg_attr_spec[]){{"alpha", GG_ATTR_FLOAT, true, 0},
                                    {"beta", GG_ATTR_FLOAT, true, 0},
                                    {"mode", GG_ATTR_STRING, true, 0},
                                    {"norm_coefficient", GG_ATTR_FLOAT, true, 0},
                                    {0}},
    .infer = infer, .eval = eval};
