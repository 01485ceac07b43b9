#include "match.h"

/* Needs nothing.
 * Breaks nothing: its own result has no reduction left, so it does not fire twice. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		if (strcmp(n->op->name, "BCEWithLogitsLoss"))
			continue;
		const char *how = gg_get_string(n, "reduction");
		if (!strcmp(how, "none") || n->nfollow)
			continue;
		if (!gg_apply(p, n))
			return true;
		gg_value *in[4], *out = n->out[0];
		const char *name[2], *final = out->name;
		int nin = gg_nargs(n);
		for (int i = 0; i < nin; i++)
			in[i] = gg_in(n, i);
		name[0] = gg_fresh_name(g, final);
		gg_node *each = gg_add_node(g, n, n->op, nin, in, 1, &name[0]);
		name[1] = gg_fresh_name(g, final);
		gg_node *all = gg_add_node(g, n, gg_op_find(!strcmp(how, "sum") ? "ReduceSum" : "ReduceMean"),
		                           1, &each->out[0], 1, &name[1]);
		gg_set_attr_int(all, "keepdims", 0);
		gg_merge_loc(each, n);
		gg_merge_loc(all, n);
		for (int i = 0; i < n->nafter; i++)
			gg_add_after(each, n->after[i]);
		if (!gg_infer_node(p->d, each) || !gg_infer_node(p->d, all))
			return false;
		gg_replace_value(out, all->out[0]);
		gg_remove_node(n);
		if (all->out[0]->name != final)
			gg_rename(all->out[0], final);
	}
	return true;
}

const gg_pass gg_pass_bce_with_logits = {
    .name = "bce_with_logits",
    .help = "BCEWithLogitsLoss with a reduction becomes the loss of each element and a reduction",
    .explain = "BCEWithLogitsLoss(x, y, weight, pos_weight) {reduction=sum|mean}\n"
               "  => ReduceSum|ReduceMean(BCEWithLogitsLoss(x, y, weight, pos_weight) {reduction=none})\n"
               "over all axes, without them in the result. With reduction none it stays.",
    .ops = "BCEWithLogitsLoss",
    .pipeline = "optimize:130 run_op:10",
    .run = run,
};
