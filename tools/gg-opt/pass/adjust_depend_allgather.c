#include "../collectives.h"
#include <string.h>

static bool is_ours(const gg_node *n)
{
	if (strcmp(n->op->name, "AllGather") || gg_get_int(n, "fusion") <= 0)
		return false;
	for (int i = 1; i < n->nloc; i++)
		if (strstr(n->loc[i], "parallel_optimizer"))
			return true;
	return n->nloc < 2 && strstr(gg_node_name(n), "parallel_optimizer");
}

static bool is_copy(const gg_node *n) { return gg_get_int(n, "duplicated") != 0; }

/* Originals of one fusion number agree on recompute. */
static bool check_recompute(gg_pass_run *p, gg_graph *g)
{
	gg_map seen = {0};
	bool good = true;
	for (gg_node *n = g->first; n && good; n = n->next) {
		if (!is_ours(n) || is_copy(n))
			continue;
		gg_node *first = gg_map_get(&seen, (uint64_t)gg_get_int(n, "fusion"));
		if (!first)
			gg_map_put(&seen, (uint64_t)gg_get_int(n, "fusion"), n);
		else if (gg_get_int(first, "recompute") != gg_get_int(n, "recompute"))
			good = gg_node_error(
			    p->d, GG_MALFORMED, n,
			    "recompute is not that of '%s', which has the same fusion number %lld",
			    gg_node_name(first), (long long)gg_get_int(n, "fusion"));
	}
	gg_map_fini(&seen);
	return good;
}

/* Copies get numbers above all originals', so that the two never fuse. */
static void move_numbers(gg_pass_run *p, gg_graph *g)
{
	int64_t most = 0, least = INT64_MAX;
	gg_node *copy = 0;
	for (gg_node *n = g->first; n; n = n->next) {
		int64_t id = is_ours(n) ? gg_get_int(n, "fusion") : 0;
		if (id && is_copy(n)) {
			copy = n;
			least = id < least ? id : least;
		} else if (id > most) {
			most = id;
		}
	}
	if (!copy || least > most || !gg_apply(p, copy))
		return;
	gg_note(p->d, "%s: fusion numbers of recomputed nodes are those of others: raised by %lld",
	        p->pass->name, (long long)(most - least + 2));
	for (gg_node *n = g->first; n; n = n->next)
		if (is_ours(n) && is_copy(n))
			gg_set_attr_int(n, "fusion", gg_get_int(n, "fusion") + most - least + 2);
}

/* The Depend before the node, or before the Cast before it. */
static gg_node *find_depend(const gg_node *n, gg_node **cast)
{
	gg_node *k = n->in[0].value->producer;
	*cast = k && !strcmp(k->op->name, "Cast") ? k : 0;
	if (*cast)
		k = k->in[0].value->producer;
	return k && !strcmp(k->op->name, "Depend") && k->nin > 1 ? k : 0;
}

/* y's readers wait for what `depend` waited for. */
static bool wait_behind(gg_pass_run *p, gg_value *y, const gg_node *depend)
{
	gg_node *u = y->producer;
	gg_value **in = gg_alloc_n(&p->scratch, (size_t)depend->nin, sizeof *in);
	const char *name = gg_fresh_name(u->graph, y->name);
	for (int i = 0; i < depend->nin; i++)
		in[i] = i ? depend->in[i].value : y;
	gg_node *d = gg_add_node(u->graph, u->next, depend->op, depend->nin, in, 1, &name);
	gg_merge_loc(d, u);
	if (!gg_infer_node(p->d, d))
		return false;
	d->out[0]->layout = y->layout;
	gg_set_input(d, 0, 0);
	gg_replace_value(y, d->out[0]);
	gg_set_input(d, 0, y);
	return true;
}

static bool free_input(gg_pass_run *p, gg_node *n, gg_node *depend, gg_node *cast)
{
	gg_value *x = depend->in[0].value;
	if (cast) { /* other readers of the Cast keep theirs */
		const char *name = gg_fresh_name(n->graph, cast->out[0]->name);
		gg_node *own = gg_add_node(n->graph, n, cast->op, 1, &x, 1, &name);
		gg_copy_attrs(own, cast);
		gg_merge_loc(own, cast);
		if (!gg_infer_node(p->d, own))
			return false;
		x = own->out[0];
	}
	gg_set_input(n, 0, x);
	for (int o = 0; o < n->nout; o++) {
		gg_node *done = 0;
		for (gg_use *u = n->out[o] ? n->out[o]->uses : 0, *next; u; u = next) {
			next = u->next;
			for (int i = 0; u->node != done && i < u->node->nout; i++)
				if (u->node->out[i] && u->node->out[i]->uses &&
				    !wait_behind(p, u->node->out[i], depend))
					return false;
			done = u->node;
		}
	}
	return true;
}

static const char *why_not(const gg_node *n, const gg_node *depend)
{
	if (!depend)
		return "its input is no Depend";
	for (int o = 0; o < n->nout; o++)
		if (n->out[o] && gg_is_output(n->out[o]))
			return "its result is an output";
	return 0;
}

/* Needs nothing.
 * Breaks nothing: the order that the Depend said holds for the readers' readers. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	gg_map seen = {0};
	bool good = check_recompute(p, g);
	if (good)
		move_numbers(p, g);
	for (gg_node *n = g->first, *next; n && good; n = next) {
		gg_node *cast, *depend;
		next = n->next;
		if (!is_ours(n) || !is_copy(n))
			continue;
		if (!gg_map_get(&seen, (uint64_t)gg_get_int(n, "fusion"))) {
			gg_map_put(&seen, (uint64_t)gg_get_int(n, "fusion"), n);
			continue;
		}
		depend = find_depend(n, &cast);
		const char *why = why_not(n, depend);
		if (why)
			gg_refused(p, n, why);
		else if (gg_apply(p, n))
			good = free_input(p, n, depend, cast);
	}
	gg_map_fini(&seen);
	return good;
}

const gg_pass gg_pass_adjust_depend_allgather = {
    .name = "adjust_depend_allgather",
    .help = "AllGather nodes that are computed again can be fused: their order moves behind them",
    .explain = "Of AllGather nodes with a fusion number whose name holds 'parallel_optimizer', those with "
               "duplicated=1 "
               "are\ncopies for recomputation. Copies' fusion numbers are raised above the originals'. For "
               "each copy but "
               "the\nfirst of its number: u = U(AllGather(Depend(x, d))) => u = Depend(U(AllGather(x)), d), "
               "also through "
               "a Cast.\nOriginals of one number that differ in recompute are an error. Refused where the "
               "input is no "
               "Depend, or\nthe result an output.",
    .ops = "AllGather",
    .pipeline = "hardware:150",
    .exact = true,
    .run = run,
};
