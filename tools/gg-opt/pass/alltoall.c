#include "../collectives.h"
#include <string.h>

static const char *why_not(const gg_node *n)
{
	int64_t size = gg_group_size(n);
	if (n->in[0].value->shape.rank < 0)
		return "the rank of its input is not known";
	if (!size)
		return "the size of its group is not known: it has no rank_size";
	if (size > GG_MAX_PARTS)
		return "the group is too large";
	return 0; /* that split_count is the size of a known group, the op's rule sees to */
}

static gg_node *add(gg_pass_run *p, gg_node *before, const char *op, int nin, gg_value *const *in, int nout,
                    const char *base)
{
	const char **name = gg_alloc_n(&p->scratch, (size_t)nout, sizeof *name);
	for (int i = 0; i < nout; i++)
		name[i] = gg_fresh_name(before->graph,
		                        gg_printf(&p->scratch, nout > 1 ? "%s.%d" : "%s", base, i));
	gg_node *n = gg_add_node(before->graph, before, gg_op_find(op), nin, in, nout, name);
	gg_merge_loc(n, before);
	return n;
}

static bool split(gg_pass_run *p, gg_node *n)
{
	int rank = n->in[0].value->shape.rank, parts = (int)gg_get_int(n, "split_count");
	int64_t from = gg_get_int(n, "split_dim"), to = gg_get_int(n, "concat_dim");
	int64_t *ids = gg_alloc_n(&p->scratch, (size_t)parts, sizeof *ids);
	const char *y = n->out[0]->name;
	for (int i = 0; i < parts; i++)
		ids[i] = i;
	gg_node *cut = add(p, n, "Split", 1, (gg_value *[]){n->in[0].value}, parts,
	                   gg_printf(&p->scratch, "%s.send", y));
	gg_set_attr_int(cut, "axis", from < 0 ? from + rank : from);
	gg_set_attr_int(cut, "num_outputs", parts);
	gg_node *swap = add(p, n, "AllToAllv", parts, cut->out, parts, gg_printf(&p->scratch, "%s.recv", y));
	gg_set_attr_string(swap, "group", gg_get_string(n, "group"));
	gg_set_attr_int(swap, "rank_size", parts);
	gg_set_attr_ints(swap, "send_rank_ids", parts, ids);
	gg_set_attr_ints(swap, "recv_rank_ids", parts, ids);
	gg_node *join = add(p, n, "Concat", parts, swap->out, 1, y);
	gg_set_attr_int(join, "axis", to < 0 ? to + rank : to);
	if (!gg_infer_node(p->d, cut) || !gg_infer_node(p->d, swap) || !gg_infer_node(p->d, join))
		return false;
	hand_on_order(n, swap);
	gg_replace_value(n->out[0], join->out[0]);
	gg_remove_node(n);
	return true;
}

/* Needs ranks of shapes.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		if (strcmp(n->op->name, "AllToAll"))
			continue;
		const char *why = why_not(n);
		if (why)
			gg_refused(p, n, why);
		else if (gg_apply(p, n) && !split(p, n))
			return false;
	}
	return true;
}

const gg_pass gg_pass_alltoall = {
    .name = "alltoall",
    .help = "AllToAll becomes Split, AllToAllv and Concat",
    .explain = "AllToAll(x){split_count=N, split_dim=s, concat_dim=c, group}\n"
               "=> Concat(AllToAllv(Split(x){axis=s, num_outputs=N}){send_rank_ids=recv_rank_ids=[0 .. N-1], "
               "group}){axis=c}\n"
               "Ids count within the group. Refused where the size of the group is not known (another than N "
               "is an error), or "
               "the\nrank of x is not known.",
    .ops = "AllToAll",
    .pipeline = "optimize:40",
    .exact = true,
    .run = run,
};
