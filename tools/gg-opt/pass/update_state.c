#include "../pass.h"
#include <string.h>

enum { EFFECT = 1 };

/* Marks nodes that have an effect or come after one: their place in the order means something. */
static void mark_effects(gg_graph *g)
{
	for (gg_node *n = g->first; n; n = n->next) {
		n->mark = (gg_node_flags(n) & GG_EFFECT) || n->op->aliases ? EFFECT : 0;
		for (int i = 0; i < n->nin; i++)
			if (n->in[i].value && n->in[i].value->producer)
				n->mark |= n->in[i].value->producer->mark;
		for (int i = 0; i < n->nafter; i++)
			n->mark |= n->after[i]->mark;
	}
}

static const char *why_not(const gg_value *v)
{
	if (!v || !v->producer)
		return "the value is a parameter, an input or a constant";
	if (!gg_one_use(v))
		return "the value has another reader";
	if (v->producer->mark)
		return "the value comes from an effect, or after one";
	return 0;
}

/* Needs nothing.
 * Breaks nothing: what is left without a reader goes with dead_code. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	mark_effects(g);
	for (gg_node *n = g->first; n; n = n->next) {
		if (strcmp(n->op->name, "UpdateState"))
			continue;
		for (int i = n->nin - 1; i >= 2; i--) {
			const char *why = why_not(n->in[i].value);
			if (why)
				gg_refused(p, n, why);
			else if (gg_apply(p, n))
				gg_remove_input_slot(n, i);
		}
	}
	return true;
}

const gg_pass gg_pass_update_state = {
    .name = "update_state",
    .help = "a token waits for no value that only it reads",
    .explain =
        "UpdateState(u, a0, a1, ...): drops a1, ... where only this node reads them, so that nodes kept for\n"
        "their order alone go. a0 stays always. Refused for parameters, inputs and constants, values with\n"
        "another reader, and values that come from an effect (Print, an update of state) or after one.",
    .ops = "UpdateState",
    .pipeline = "hardware:90 final:10",
    .exact = true,
    .run = run,
};
