#include "adam_match.h"

/* p - lr (wd p + u) */
static bool match_sum(adam_match *k)
{
	gg_value *move = gg_in(k->root, 1), *both;
	gg_node *sum;
	k->in[PARAM] = gg_in(k->root, 0);
	if (!scaled(move, &k->in[LR], &both) || !(sum = sum_of_two(both)))
		return false;
	for (int i = 0; i < 2; i++)
		if ((k->in[DECAY] = times(gg_in(sum, i), k->in[PARAM])) &&
		    match_direction(k, gg_in(sum, 1 - i))) {
			within(k, gg_in(sum, i));
			within(k, both);
			within(k, move);
			return true;
		}
	return false;
}

/* factor p - lr u */
static bool match_factor(adam_match *k)
{
	gg_value *kept = gg_in(k->root, 0), *move = gg_in(k->root, 1), *u;
	gg_node *mul = made_by(kept, "Mul");
	*k = (adam_match){.root = k->root, .factor = true};
	if (!mul || !scaled(move, &k->in[LR], &u) || !match_direction(k, u))
		return false;
	int i = gg_in(mul, 0)->shape.rank == 0 ? 0
	                                       : 1; /* the factor; else the parameter is looked for first */
	k->in[DECAY] = gg_in(mul, i);
	k->in[PARAM] = gg_in(mul, 1 - i);
	within(k, kept);
	within(k, move);
	return true;
}

static bool match(adam_match *k) { return match_sum(k) || match_factor(k); }

/* Needs to run before fused_adam, whose pattern it holds.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g) { return adam_run(p, g, match, "FusedAdamWeightDecay"); }

const gg_pass gg_pass_adam_weight_decay = {
    .name = "adam_weight_decay",
    .help = "the nodes of an Adam step with weight decay become one op",
    .explain =
        "Sub(p, Mul(lr, Add(Mul(wd, p), u))) => FusedAdamWeightDecay(beta1, ..., lr, p, m, v, g, wd [, "
        "correction])\n"
        "Sub(Mul(p, factor), Mul(lr, u)) => the same with factor for wd and {decay=\"factor\"}, as AdamW "
        "has it\n" ADAM_FORMS
        "A decay that is a tensor is refused: the op has one for all elements.\n" ADAM_GUARDS,
    .ops = "Sqrt",
    .pipeline = "optimize:20",
    .run = run,
};
