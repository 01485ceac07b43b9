#include "perm.h"

static bool same_conversion(const gg_node *a, const gg_node *b)
{
	if (!a || a->op != b->op || a == b || a->graph != b->graph)
		return false;
	if (!is_transpose(a))
		return a->out[0]->layout == b->out[0]->layout;
	perm p = perm_of(a), q = perm_of(b);
	return perm_eq(&p, &q);
}

/* The first equal conversion of the same value before n. */
static gg_node *earlier(const gg_node *n)
{
	gg_node *first = 0;
	for (gg_use *u = n->in[0].value->uses; u; u = u->next)
		if (same_conversion(u->node, n) && u->node->order < (first ? first : n)->order)
			first = u->node;
	return first;
}

/* Needs nothing.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	gg_graph_number(g);
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		bool converts = !strcmp(n->op->name, "Reorder") || is_transpose(n);
		gg_node *first = converts ? earlier(n) : 0;
		if (!first)
			continue;
		if (!gg_can_replace(n->out[0], first->out[0])) {
			gg_refused(p, n, "both results are declared outputs");
			continue;
		}
		if (!gg_apply(p, n))
			return true;
		gg_merge_loc(first, n);
		gg_replace_value(n->out[0], first->out[0]);
		gg_remove_node(n);
	}
	return true;
}

const gg_pass gg_pass_remove_redundant_format = {
    .name = "remove_redundant_format",
    .help = "read an equal earlier conversion of the same value instead of a second one",
    .explain =
        "a = Reorder(x), b = Reorder(x) of one layout, or a = Transpose(x), b = Transpose(x) of one\n"
        "permutation => readers of b read a, the first of them. Refused when both are declared outputs.",
    .ops = "Reorder Transpose",
    .pipeline = "hardware:80",
    .exact = true,
    .run = run,
};
