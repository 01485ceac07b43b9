#include "../pass.h"
#include "../../../lib/fold.h"

/* Needs shapes where sizes are to be folded.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	const char *size = gg_pass_option(p, "size");
	int64_t limit = 65536;
	size_t folded = 0;
	if (size && (!gg_parse_int(size, &limit) || limit < 0))
		return gg_error(p->d, GG_USAGE, "size '%s' is not a number of bytes", size);
	if (!gg_fold_constants(p->d, g, limit, gg_allowed(p), &folded))
		return false;
	gg_applied(p, folded);
	return true;
}

const gg_pass gg_pass_fold_constants = {
    .name = "fold_constants",
    .help = "evaluate nodes whose inputs are all constant, where the graph does not grow",
    .explain = "A node whose inputs are constants, or whose integer result is known from shapes, is replaced "
               "by the\n"
               "value that its reference kernel gives. Parameters are not constants here, random ops never "
               "are, and a\n"
               "result larger than what it replaces is kept as a node.",
    .pipeline = "common:30",
    .options = "size=N: most bytes of a folded constant that is larger than what it replaces (65536)",
    .exact = true,
    .run = run,
};
