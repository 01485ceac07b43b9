#include "match.h"

/* Needs nothing.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	for (gg_node *n = g->first; n; n = n->next) {
		gg_value *cast = gg_in(n, 3);
		gg_node *by = made_by(cast, "Cast");
		if (strcmp(n->op->name, "ApplyMomentum") || !by)
			continue;
		if (before_cast(cast) == cast) {
			gg_refused(p, n, "looks like momentum_cast, but the cast rounds or is not to f32");
			continue;
		}
		if (!gg_apply(p, n))
			return true;
		gg_set_input(n, 3, gg_in(by, 0));
		gg_merge_loc(n, by);
		if (!cast->uses)
			gg_remove_node(by);
	}
	return true;
}

const gg_pass gg_pass_momentum_cast = {
    .name = "momentum_cast",
    .help = "ApplyMomentum reads a half precision gradient without a cast",
    .explain = "ApplyMomentum(var, acc, lr, Cast(g), momentum) => ApplyMomentum(var, acc, lr, g, momentum)\n"
               "where g is f16 or bf16 and the cast is to f32. The kernel widens g itself and a widening "
               "cast is exact, "
               "so the\n"
               "result is the same to the bit. Refused: any other cast. Other readers of the cast keep it. "
               "(The pass of "
               "MindSpore\n"
               "called ReplaceMomentumCast means this, but its guard never lets it act.)",
    .ops = "ApplyMomentum",
    .pipeline = "optimize:100",
    .exact = true,
    .run = run,
};
