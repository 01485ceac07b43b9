#include "../pass.h"
#include <string.h>

static const char *why_not(const gg_node *n)
{
	if (n->nfollow)
		return "a node waits for the tuple";
	for (int i = 0; i < n->nout; i++) {
		const gg_value *v = n->out[i], *x = n->in[i].value;
		if (v && !gg_can_replace(v, x))
			return "an element is a declared output, and what it holds has a name to keep";
		for (int k = 0; k < i && v && gg_is_output(v); k++)
			if (n->in[k].value == x && n->out[k] && gg_is_output(n->out[k]))
				return "two elements are declared outputs, and what they hold is one value";
	}
	return 0;
}

/* Needs nothing.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		bool tuple = !strcmp(n->op->name, "MakeTuple");
		if (tuple && !gg_infer_node(p->d, n))
			return false;
		const char *why = tuple ? why_not(n) : 0;
		if (why)
			gg_refused(p, n, why);
		if (!tuple || why || !gg_apply(p, n))
			continue;
		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				gg_replace_value(n->out[i], n->in[i].value);
		gg_remove_node(n);
	}
	return true;
}

const gg_pass gg_pass_flatten_tuple = {
    .name = "flatten_tuple",
    .help = "readers of a tuple read its elements",
    .explain = "t0, t1, ... = MakeTuple(a, b, ...): whoever reads t0 reads a, and so on; the node goes.\n"
               "Refused when a node waits for it, or an element is a declared output and what it holds is "
               "an\ninput, a constant, another output or held by two of them.",
    .ops = "MakeTuple TupleGetItem",
    .pipeline = "common:45",
    .exact = true,
    .run = run,
};
