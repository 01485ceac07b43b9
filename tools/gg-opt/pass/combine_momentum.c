#include "match.h"
#include <stdlib.h>

enum { MOST = 8 }; /* whose state the combined op updates in place */

static const struct kind {
	const char *op, *combined;
	int var, grad, width; /* slots of an update's inputs, and how many */
} kinds[] = {
    {"FusedScaleApplyMomentum", "CombineMomentum", 1, 4, 6},
    {"FusedWeightScaleApplyMomentum", "CombineMomentumWeight", 2, 5, 7},
};

/* The state alone may take a result: the combined node stands where the last of its members stood. */
static bool only_state(const gg_node *n)
{
	for (int i = 0; i < n->nout; i++)
		for (const gg_use *u = n->out[i] ? n->out[i]->uses : 0; u; u = u->next)
			if (u->node)
				return false;
	return true;
}

static bool together(const struct kind *k, const gg_node *a, const gg_node *b)
{
	return gg_in(a, k->var)->dtype == gg_in(b, k->var)->dtype &&
	       gg_in(a, k->grad)->dtype == gg_in(b, k->grad)->dtype;
}

/* One reads, or updates too, what the other updates in place. */
static bool crosses(const struct kind *k, const gg_node *a, const gg_node *b)
{
	for (int i = 0; i < k->width; i++)
		for (int s = k->var; s < k->var + 2; s++)
			if (gg_in(a, i) == gg_in(b, s) || gg_in(b, i) == gg_in(a, s))
				return true;
	return false;
}

static bool crosses_any(const struct kind *k, gg_node *const *member, int count, const gg_node *n)
{
	for (int i = 0; i < count; i++)
		if (crosses(k, member[i], n))
			return true;
	return false;
}

static bool combine(gg_pass_run *p, const struct kind *k, gg_node **member, int count)
{
	gg_node *last = member[count - 1], *n;
	gg_value **in = gg_alloc_n(&p->scratch, (size_t)(count * k->width), sizeof *in);
	const char *name[2 * MOST], *final[2 * MOST];
	for (int i = 0; i < count; i++) {
		for (int s = 0; s < k->width; s++)
			in[i * k->width + s] = gg_in(member[i], s);
		for (int o = 0; o < 2; o++) {
			gg_value *v = gg_out(member[i], o);
			final[2 * i + o] = v ? v->name : 0;
			name[2 * i + o] = v ? gg_fresh_name(last->graph, v->name) : 0;
		}
	}
	n = gg_add_node(last->graph, last, gg_op_find(k->combined), count * k->width, in, 2 * count, name);
	if (!gg_infer_node(p->d, n))
		return false;
	for (int i = 0; i < count; i++) {
		gg_merge_loc(n, member[i]);
		for (int o = 0; o < 2; o++)
			if (final[2 * i + o])
				gg_replace_value(member[i]->out[o], n->out[2 * i + o]);
		gg_remove_node(member[i]);
	}
	for (int i = 0; i < n->nout; i++)
		if (final[i] && n->out[i]->name != final[i])
			gg_rename(n->out[i], final[i]);
	return true;
}

static bool run_kind(gg_pass_run *p, gg_graph *g, const struct kind *k)
{
	gg_node **all = 0, *member[MOST];
	size_t n = 0, cap = 0;
	bool good = true;
	for (gg_node *m = g->first; m; m = m->next) {
		if (strcmp(m->op->name, k->op))
			continue;
		if (!only_state(m))
			gg_refused(p, m, "its result is read in the step");
		else if (m->nafter || m->nfollow)
			gg_refused(p, m, "control edges order it");
		else
			GG_PUSH(all, n, cap, m);
	}
	for (size_t i = 0; i < n && good; i++) {
		int count = 0;
		for (size_t j = i; all[i] && j < n && count < MOST; j++)
			if (all[j] && together(k, all[i], all[j]) && !crosses_any(k, member, count, all[j])) {
				member[count++] = all[j];
				all[j] = j > i ? 0 : all[j];
			}
		if (count == 1)
			gg_refused(p, member[0], "no other update has its dtypes and a state of its own");
		if (count < 2)
			continue;
		if (!gg_apply(p, member[0]))
			break;
		good = combine(p, k, member, count);
	}
	free(all);
	return good;
}

/* Needs momentum_scale or momentum_weight_scale, which make what it combines.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	return run_kind(p, g, &kinds[0]) && run_kind(p, g, &kinds[1]);
}

const gg_pass gg_pass_combine_momentum = {
    .name = "combine_momentum",
    .help = "many momentum updates become one op",
    .explain =
        "all FusedScaleApplyMomentum => CombineMomentum, all FusedWeightScaleApplyMomentum => "
        "CombineMomentumWeight\n"
        "whose inputs are those of its members, one after another; outputs 2i and 2i+1 are member i's "
        "parameter and momentum.\n"
        "Members have one dtype of parameters and one of gradients; at most eight go into one op. Left out: "
        "a member whose\n"
        "result is read by a node of the step, or that control edges tie to one, one that reads or updates "
        "what "
        "another\n"
        "updates, and one that would be alone.",
    .ops = "FusedScaleApplyMomentum FusedWeightScaleApplyMomentum",
    .pipeline = "optimize:90",
    .exact = true,
    .run = run,
};
