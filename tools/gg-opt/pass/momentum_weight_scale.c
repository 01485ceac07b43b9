#include "momentum.h"

static bool match(gg_node *n, momentum_match *m)
{
	gg_node *mul = made_by(gg_in(n, 3), "Mul");
	for (int i = 0; mul && i < 2; i++)
		if (match_decay(gg_in(mul, i), m->var, &m->decay, &m->g, &m->inner[2])) {
			m->scale = gg_in(mul, 1 - i);
			m->inner[0] = gg_in(n, 3);
			m->inner[1] = gg_in(mul, i);
			return true;
		}
	return false;
}

/* Needs nothing.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	return momentum_run(p, g, match, "FusedWeightScaleApplyMomentum");
}

const gg_pass gg_pass_momentum_weight_scale = {
    .name = "momentum_weight_scale",
    .help = "ApplyMomentum of a decayed and scaled gradient becomes one op",
    .explain = "ApplyMomentum(var, acc, lr, Mul(Add(Mul(var, wd), g), scale), momentum)\n"
               "  => FusedWeightScaleApplyMomentum(wd, scale, var, acc, lr, g, momentum)\n"
               "acc = momentum acc + (wd var + g) scale;  var -= lr acc\n"
               "Add may be AddN or Sum of two; operands may stand in either order." MOMENTUM_GUARDS,
    .ops = "ApplyMomentum",
    .pipeline = "optimize:50",
    .run = run,
};
