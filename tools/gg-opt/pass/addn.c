#include "match.h"

/* Needs the momentum fusions before it only for speed: they take either form.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	const gg_op *add = gg_op_find("Add");
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		if (strcmp(n->op->name, "AddN") || n->nafter || n->nfollow)
			continue;
		if (gg_nargs(n) != 2) {
			gg_refused(p, n, "looks like addn, but it has not two inputs");
			continue;
		}
		if (!gg_apply(p, n))
			return true;
		const char *final = n->out[0]->name, *name = gg_fresh_name(g, final);
		gg_node *k = gg_add_node(g, n, add, 2, (gg_value *[]){gg_in(n, 0), gg_in(n, 1)}, 1, &name);
		gg_merge_loc(k, n);
		if (!gg_infer_node(p->d, k))
			return false;
		gg_replace_value(n->out[0], k->out[0]);
		gg_remove_node(n);
		if (k->out[0]->name != final)
			gg_rename(k->out[0], final);
	}
	return true;
}

const gg_pass gg_pass_addn = {
    .name = "addn",
    .help = "AddN of two inputs becomes Add",
    .explain = "AddN(a, b) => Add(a, b)\nAddN with one input or more than two stays.",
    .ops = "AddN",
    .pipeline = "optimize:110",
    .exact = true,
    .run = run,
};
