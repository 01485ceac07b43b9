#include "adam_match.h"

static bool match(adam_match *k)
{
	gg_value *move = gg_in(k->root, 1), *u;
	if (!scaled(move, &k->in[LR], &u) || !match_direction(k, u))
		return false;
	k->in[PARAM] = gg_in(k->root, 0);
	within(k, move);
	return true;
}

/* Needs adam_weight_decay before it, whose pattern holds this one.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g) { return adam_run(p, g, match, "FusedAdam"); }

const gg_pass gg_pass_fused_adam = {
    .name = "fused_adam",
    .help = "the nodes of an Adam step become one op",
    .explain = "Sub(p, Mul(lr, u)) => FusedAdam(beta1, 1-beta1, beta2, 1-beta2, eps, lr, p, m, v, g [, "
               "correction])\n" ADAM_FORMS ADAM_GUARDS,
    .ops = "Sqrt",
    .pipeline = "optimize:30",
    .run = run,
};
