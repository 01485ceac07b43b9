#include "momentum.h"

static bool match(gg_node *n, momentum_match *m)
{
	if (!match_decay(gg_in(n, 3), m->var, &m->decay, &m->g, &m->inner[1]))
		return false;
	m->inner[0] = gg_in(n, 3);
	return true;
}

/* Needs nothing.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g) { return momentum_run(p, g, match, "FusedWeightApplyMomentum"); }

const gg_pass gg_pass_momentum_weight = {
    .name = "momentum_weight",
    .help = "ApplyMomentum of a decayed gradient becomes one op",
    .explain = "ApplyMomentum(var, acc, lr, Add(Mul(var, wd), g), momentum)\n"
               "  => FusedWeightApplyMomentum(wd, var, acc, lr, g, momentum)\n"
               "acc = momentum acc + (wd var + g);  var -= lr acc\n"
               "Add may be AddN or Sum of two; operands may stand in either order." MOMENTUM_GUARDS,
    .ops = "ApplyMomentum",
    .pipeline = "optimize:70",
    .run = run,
};
