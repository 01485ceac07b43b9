#include "../pass.h"
#include <string.h>

static const char *why_not(const gg_node *n, const gg_value *x)
{
	if (!x->producer || strcmp(x->producer->op->name, "MakeTuple") || x->index >= x->producer->nin)
		return "the tuple is not made by MakeTuple";
	if (n->nfollow)
		return "a node waits for the item";
	if (!gg_can_replace(n->out[0], x->producer->in[x->index].value))
		return "the item is a declared output, and what it holds has a name to keep";
	return 0;
}

/* Needs nothing.
 * Breaks nothing: the tuple stays for its other readers. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		if (strcmp(n->op->name, "TupleGetItem"))
			continue;
		if (!gg_infer_node(p->d, n))
			return false;
		gg_value *x = n->in[gg_get_int(n, "index")].value;
		const char *why = why_not(n, x);
		if (why)
			gg_refused(p, n, why);
		if (why || !gg_apply(p, n))
			continue;
		gg_merge_loc(x->producer, n);
		gg_replace_value(n->out[0], x->producer->in[x->index].value);
		gg_remove_node(n);
	}
	return true;
}

const gg_pass gg_pass_getitem_tuple = {
    .name = "getitem_tuple",
    .help = "an item of a tuple just made is its element",
    .explain = "TupleGetItem(MakeTuple(x0, x1, ...)){index=i} => xi\n"
               "Refused when the tuple comes from elsewhere, a node waits for the item, or the item is a "
               "declared\noutput and the element an input, a constant or another output.",
    .ops = "TupleGetItem",
    .pipeline = "hardware:180",
    .exact = true,
    .run = run,
};
