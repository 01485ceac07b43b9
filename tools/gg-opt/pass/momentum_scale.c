#include "momentum.h"

static bool match(gg_node *n, momentum_match *m)
{
	gg_node *mul = made_by(gg_in(n, 3), "Mul");
	if (!mul || m->var->shape.rank < 1)
		return false;
	int i = gg_in(mul, 0)->shape.rank == 0 ? 0 : 1;
	m->scale = gg_in(mul, i);
	m->g = gg_in(mul, 1 - i);
	m->inner[0] = gg_in(n, 3);
	return true;
}

/* Needs momentum_weight_scale before it, whose pattern holds this one.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g) { return momentum_run(p, g, match, "FusedScaleApplyMomentum"); }

const gg_pass gg_pass_momentum_scale = {
    .name = "momentum_scale",
    .help = "ApplyMomentum of a scaled gradient becomes one op",
    .explain = "ApplyMomentum(var, acc, lr, Mul(g, scale), momentum)\n"
               "  => FusedScaleApplyMomentum(scale, var, acc, lr, g, momentum)\n"
               "acc = momentum acc + g scale;  var -= lr acc" MOMENTUM_GUARDS,
    .ops = "ApplyMomentum",
    .pipeline = "optimize:60",
    .run = run,
};
