#include "match.h"
#include <stdlib.h>

static bool is_half(gg_dtype t) { return t == GG_F16 || t == GG_BF16; }

/* A cast of a parameter between f32 and half precision. */
static bool is_candidate(const gg_node *n)
{
	const gg_value *x = gg_in(n, 0);
	if (strcmp(n->op->name, "Cast") || x->kind != GG_PARAM)
		return false;
	gg_dtype from = (gg_dtype)x->dtype, to = (gg_dtype)n->out[0]->dtype;
	return (from == GG_F32 && is_half(to)) || (is_half(from) && to == GG_F32);
}

static const char *why_not(const gg_node *n)
{
	if (n->nafter || n->nfollow)
		return "control edges order it";
	if (gg_find_attr(n, "saturate") || gg_find_attr(n, "round_mode"))
		return "it has attributes of its own";
	return 0;
}

static bool together(const gg_node *a, const gg_node *b)
{
	return gg_in(a, 0)->dtype == gg_in(b, 0)->dtype && a->out[0]->dtype == b->out[0]->dtype;
}

static bool merge(gg_pass_run *p, gg_node **member, int count)
{
	gg_node *first = member[0];
	gg_value **in = gg_alloc_n(&p->scratch, (size_t)count, sizeof *in);
	const char **name = gg_alloc_n(&p->scratch, (size_t)count, sizeof *name);
	const char **final = gg_alloc_n(&p->scratch, (size_t)count, sizeof *final);
	for (int i = 0; i < count; i++) {
		in[i] = gg_in(member[i], 0);
		final[i] = member[i]->out[0]->name;
		name[i] = gg_fresh_name(first->graph, final[i]);
	}
	gg_node *n = gg_add_node(first->graph, first, gg_op_find("CastAll"), count, in, count, name);
	gg_set_attr_dtype(n, "to", (gg_dtype)first->out[0]->dtype);
	if (!gg_infer_node(p->d, n))
		return false;
	for (int i = 0; i < count; i++) {
		gg_merge_loc(n, member[i]);
		gg_replace_value(member[i]->out[0], n->out[i]);
		gg_remove_node(member[i]);
	}
	for (int i = 0; i < count; i++)
		if (n->out[i]->name != final[i])
			gg_rename(n->out[i], final[i]);
	return true;
}

/* Needs nothing.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	gg_node **all = 0, **member;
	size_t n = 0, cap = 0;
	bool good = true;
	for (gg_node *m = g->first; m; m = m->next) {
		const char *why = is_candidate(m) ? why_not(m) : 0;
		if (why)
			gg_refused(p, m, why);
		else if (is_candidate(m))
			GG_PUSH(all, n, cap, m);
	}
	member = gg_alloc_n(&p->scratch, n + 1, sizeof *member);
	for (size_t i = 0; i < n && good; i++) {
		int count = 0;
		for (size_t j = i; all[i] && j < n; j++)
			if (all[j] && together(all[i], all[j])) {
				member[count++] = all[j];
				all[j] = j > i ? 0 : all[j];
			}
		if (count == 1)
			gg_refused(p, member[0], "no other parameter is cast likewise");
		if (count < 2)
			continue;
		if (!gg_apply(p, member[0]))
			break;
		good = merge(p, member, count);
	}
	free(all);
	return good;
}

const gg_pass gg_pass_cast_all = {
    .name = "cast_all",
    .help = "casts of parameters become one op",
    .explain =
        "Cast(param0), Cast(param1), ... => CastAll(param0, param1, ...)\n"
        "two or more of one kind: f32 to f16, f16 to f32, and the same with bf16. Only casts of parameters "
        "themselves: what is\n"
        "there when the step begins cannot depend on one of the results. Left out: casts to and from other "
        "dtypes, those with\n"
        "attributes or control edges, and one that would be alone.",
    .ops = "Cast",
    .pipeline = "optimize:80",
    .exact = true,
    .run = run,
};
