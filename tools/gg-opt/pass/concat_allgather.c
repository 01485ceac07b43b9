#include "../collectives.h"
#include <string.h>

static const char *why_not(const gg_node *n)
{
	if (!gg_get_int(n, "fusion"))
		return "its fusion number is 0";
	if (gg_nargs(n) < 2)
		return "it gathers one value, which lies in order already";
	if (gg_get_int(n, "rank_size") < 2)
		return "rank_size is not given, or 1";
	if (gg_get_int(n, "rank_size") > GG_MAX_PARTS / gg_nargs(n))
		return "there would be too many parts";
	return 0;
}

/* Parts by rank, then by input, as they lie in the buffer of one transfer. */
static bool split(gg_pass_run *p, gg_node *n)
{
	gg_graph *g = n->graph;
	int nin = gg_nargs(n), ranks = (int)gg_get_int(n, "rank_size"), nout = nin * ranks;
	gg_value **in = gg_alloc_n(&p->scratch, (size_t)nin, sizeof *in);
	gg_value **part = gg_alloc_n(&p->scratch, (size_t)ranks, sizeof *part);
	const char **name = gg_alloc_n(&p->scratch, (size_t)nout, sizeof *name);
	for (int i = 0; i < nin; i++)
		in[i] = n->in[i].value;
	for (int o = 0; o < nout; o++)
		name[o] = gg_fresh_name(g, gg_printf(&p->scratch, "%s.r%d", in[o % nin]->name, o / nin));
	gg_node *parts = gg_add_node(g, n, n->op, nin, in, nout, name);
	gg_copy_attrs(parts, n);
	gg_set_attr_int(parts, "fused", 1);
	gg_merge_loc(parts, n);
	hand_on_order(n, parts);
	if (!gg_infer_node(p->d, parts))
		return false;
	for (int i = 0; i < nin; i++) {
		if (!n->out[i] || !n->out[i]->uses)
			continue;
		for (int r = 0; r < ranks; r++)
			part[r] = parts->out[r * nin + i];
		const char *whole = gg_fresh_name(g, n->out[i]->name);
		gg_node *concat = gg_add_node(g, n, gg_op_find("Concat"), ranks, part, 1, &whole);
		gg_set_attr_int(concat, "axis", 0);
		gg_merge_loc(concat, n);
		if (!gg_infer_node(p->d, concat))
			return false;
		gg_replace_value(n->out[i], concat->out[0]);
	}
	gg_remove_node(n);
	return true;
}

/* Needs shapes.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		if (strcmp(n->op->name, "AllGather") || gg_get_int(n, "fused") || n->nout != gg_nargs(n))
			continue;
		const char *why = why_not(n);
		if (why)
			gg_refused(p, n, why);
		else if (gg_apply(p, n) && !split(p, n))
			return false;
	}
	return true;
}

const gg_pass gg_pass_concat_allgather = {
    .name = "concat_allgather",
    .help = "an AllGather of several values gives parts by rank, which Concat joins",
    .explain =
        "y0, y1 = AllGather(x0, x1){rank_size=R} => p... = AllGather(x0, x1){fused=1}, R parts of each,\n"
        "rank by rank; yi = Concat(p[i], p[i + 2], ...){axis=0}\n"
        "Refused where the fusion number is 0, rank_size is not given or 1, or one value is gathered.",
    .ops = "AllGather",
    .pipeline = "hardware:170",
    .exact = true,
    .run = run,
};
