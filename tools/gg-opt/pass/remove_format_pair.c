#include "perm.h"

static bool is_reorder(const gg_node *n) { return n && !strcmp(n->op->name, "Reorder"); }

/* The value that n gives back, or NULL: not a pair. */
static gg_value *undone(gg_pass_run *p, const gg_node *n)
{
	const gg_node *inner = n->in[0].value->producer;
	if (is_reorder(n) && is_reorder(inner)) {
		gg_value *x = inner->in[0].value;
		if (x->layout == n->out[0]->layout)
			return x;
		gg_refused(p, n, "the layout after both conversions is not the one before them");
	}
	if (is_transpose(n) && is_transpose(inner)) {
		perm a = perm_of(inner), b = perm_of(n), both = perm_compose(&a, &b);
		if (perm_is_identity(&both))
			return inner->in[0].value;
		gg_refused(p, n, "the two permutations together move axes");
	}
	return 0;
}

/* Needs nothing.
 * Breaks nothing. The inner conversion stays for its other readers; dead_code takes it else. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		gg_value *x = is_reorder(n) || is_transpose(n) ? undone(p, n) : 0, *y = n->out[0];
		if (!x)
			continue;
		if (!gg_can_replace(y, x)) {
			gg_refused(p, n, "its result is a declared output, and its input has a name to keep");
			continue;
		}
		if (!gg_apply(p, n))
			return true;
		gg_node *inner = n->in[0].value->producer;
		if (x->producer)
			gg_merge_loc(x->producer, n);
		gg_replace_value(y, x);
		gg_remove_node(n);
		if (!inner->out[0]->nuses)
			gg_remove_node(inner);
	}
	return true;
}

const gg_pass gg_pass_remove_format_pair = {
    .name = "remove_format_pair",
    .help = "remove two conversions of layout, or Transposes, that undo each other",
    .explain =
        "Reorder(Reorder(x)) => x where the last layout is that of x;\n"
        "Transpose(Transpose(x) {perm=p}) {perm=q} => x where p[q[i]] = i for every axis i.\n"
        "Permutations decide, not shapes: with equal extents two shapes agree though the axes do not.\n"
        "The first conversion stays while others read it. Refused between two declared names.",
    .ops = "Reorder Transpose",
    .pipeline = "hardware:70",
    .exact = true,
    .run = run,
};
