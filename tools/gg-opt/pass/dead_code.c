#include "../pass.h"

static bool is_read(const gg_node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && n->out[i]->uses)
			return true;
	return n->nfollow > 0;
}

static void drop_captures(gg_pass_run *p, gg_node *n)
{
	for (int i = n->nin - 1; i >= gg_nargs(n); i--)
		if (!gg_capture_is_read(n, i) && gg_apply(p, n))
			gg_remove_input_slot(n, i);
}

/* Needs nothing.
 * Breaks nothing: declared inputs stay, whether read or not. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	for (gg_node *n = g->last, *prev; n; n = prev) {
		prev = n->prev;
		drop_captures(p, n);
		if (!is_read(n) && !(gg_node_flags(n) & GG_EFFECT) && gg_apply(p, n))
			gg_remove_node(n);
	}
	gg_applied(p, gg_sweep_consts(g, gg_allowed(p)));
	return true;
}

const gg_pass gg_pass_dead_code = {
    .name = "dead_code",
    .help = "remove nodes, captures and constants that nobody reads",
    .explain =
        "A node goes when no output of it is read, no node waits for it, and its op has no effect beyond "
        "its\n"
        "outputs. A capture goes when no body reads it, a parameter or constant when nothing does. Declared\n"
        "inputs stay.",
    .pipeline = "common:90",
    .exact = true,
    .run = run,
};
