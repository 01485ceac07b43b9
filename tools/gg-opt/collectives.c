#include "collectives.h"
#include <stdlib.h>
#include <string.h>

typedef struct members {
	gg_node **n;
	size_t count, cap;
	struct members *next;
} members;

typedef struct fusion {
	gg_pass_run *p;
	gg_graph *g;
	gg_map keys;
	members *first, **last;
	bool changed;
} fusion;

static uint64_t new_mark(void)
{
	static uint64_t mark = 1ull << 40;
	return ++mark;
}

/* ---- order edges between collectives ------------------------------------------------------------ */
static void drop_after(gg_node *n, int i)
{
	n->after[i]->nfollow--;
	n->after[i] = n->after[--n->nafter];
}

static void loosen(gg_graph *g)
{
	for (gg_node *n = g->first; n; n = n->next)
		for (int i = n->nafter - 1; i >= 0 && gg_is_collective(n); i--)
			if (gg_is_collective(n->after[i]))
				drop_after(n, i);
}

static void tighten(gg_graph *g)
{
	gg_node *before = 0;
	for (gg_node *n = g->first; n; n = n->next) {
		if (!gg_is_collective(n))
			continue;
		if (before)
			gg_add_after(n, before);
		before = n;
	}
}

/* ---- who goes together ------------------------------------------------------------------------------- */
static const char *why_alone(const gg_node *n)
{
	if (n->nout != gg_nargs(n))
		return "its results are in parts already";
	for (int i = 0; i < n->nout; i++)
		if (!n->out[i] || !n->in[i].value)
			return "a result of it is not wanted";
	return 0;
}

static void collect(fusion *f, const char *op)
{
	for (gg_node *n = f->g->first; n; n = n->next) {
		if (strcmp(n->op->name, op) || !gg_get_int(n, "fusion"))
			continue;
		const char *why = why_alone(n);
		if (why) {
			gg_refused(f->p, n, why);
			continue;
		}
		const char *group = gg_get_string(n, "group");
		bool reduces = gg_op_attr(n->op, "reduction") != 0;
		char *key = gg_printf(&f->p->scratch, "%lld %lld %d %s %s",
		                      (long long)gg_get_int(n, "fusion"),
		                      (long long)gg_get_int(n, "rank_size"), n->in[0].value->dtype,
		                      reduces ? gg_get_string(n, "reduction") : "", group);
		members *m = gg_map_gets(&f->keys, key);
		if (!m) {
			m = gg_alloc(&f->p->scratch, sizeof *m);
			gg_map_puts(&f->keys, key, m);
			*f->last = m;
			f->last = &m->next;
		}
		m->n = gg_grow_in(&f->p->scratch, m->n, m->count, &m->cap, sizeof *m->n);
		m->n[m->count++] = n;
	}
}

static int by_index(const void *a, const void *b)
{
	const gg_node *x = *(gg_node *const *)a, *y = *(gg_node *const *)b;
	int64_t i = gg_get_int(x, "index"), k = gg_get_int(y, "index");
	return i != k ? (i > k) - (i < k) : (x->order > y->order) - (x->order < y->order);
}

static int by_order(const void *a, const void *b)
{
	const gg_node *x = *(gg_node *const *)a, *y = *(gg_node *const *)b;
	return (x->order > y->order) - (x->order < y->order);
}

/* ---- one node for several -------------------------------------------------------------------------- */
void hand_on_order(gg_node *from, gg_node *to)
{
	for (gg_node *k = from->next; k && from->nfollow; k = k->next)
		for (int i = k->nafter - 1; i >= 0; i--)
			if (k->after[i] == from) {
				drop_after(k, i);
				gg_add_after(k, to);
			}
	for (int i = 0; i < from->nafter; i++)
		gg_add_after(to, from->after[i]);
}

/* A node behind the last of the members, in list order; n: in the order of the results. */
static gg_node *make(fusion *f, gg_node **n, size_t count, gg_node *last)
{
	gg_arena *a = &f->p->scratch;
	int total = 0, k = 0;
	for (size_t i = 0; i < count; i++)
		total += gg_nargs(n[i]);
	gg_value **in = gg_alloc_n(a, (size_t)total, sizeof *in);
	const char **name = gg_alloc_n(a, (size_t)total, sizeof *name);
	for (size_t i = 0; i < count; i++)
		for (int o = 0; o < gg_nargs(n[i]); o++) {
			in[k] = n[i]->in[o].value;
			name[k++] = gg_fresh_name(f->g, n[i]->out[o]->name);
		}
	gg_node *fused = gg_add_node(f->g, last->next, last->op, total, in, total, name);
	gg_copy_attrs(fused, n[count - 1]);
	return gg_infer_node(f->p->d, fused) ? fused : 0;
}

static void replace(gg_node *fused, gg_node **n, size_t count)
{
	int k = 0;
	for (size_t i = 0; i < count; i++) {
		const char *name[64];
		int from = k, nout = n[i]->nout;
		for (int o = 0; o < nout; o++, k++) {
			if (o < 64)
				name[o] = n[i]->out[o]->name;
			fused->out[k]->layout = n[i]->out[o]->layout;
			gg_replace_value(n[i]->out[o], fused->out[k]);
		}
		gg_merge_loc(fused, n[i]);
		hand_on_order(n[i], fused);
		gg_remove_node(n[i]);
		for (int o = 0; o < nout && o < 64; o++)
			if (fused->out[from + o]->name != name[o])
				gg_rename(fused->out[from + o], name[o]);
	}
}

/* Between two nodes that stay: there are no more nodes than before. */
static void renumber(gg_graph *g, gg_node *start, const gg_node *end)
{
	uint32_t order = start ? start->order : 0;
	for (gg_node *n = start ? start->next : g->first; n != end; n = n->next)
		n->order = ++order;
}

/* The set so far becomes one node; what depends on it and stood among the members moves behind it. */
static bool fuse_set(fusion *f, members *set, gg_node **late, size_t nlate, gg_node **order, size_t norder)
{
	if (set->count < 2 || !gg_apply(f->p, set->n[0]))
		return true;
	if (!f->changed)
		loosen(f->g);
	f->changed = true;
	gg_node *last = set->n[set->count - 1], *start = set->n[0]->prev, *behind = 0;
	gg_node **n = gg_alloc_n(&f->p->scratch, set->count, sizeof *n);
	size_t k = 0;
	for (size_t i = 0; i < norder; i++) /* the results stand as the segment says */
		if (order[i]->mark == set->n[0]->mark)
			n[k++] = order[i];
	gg_node *fused = make(f, n, set->count, last);
	if (!fused)
		return false;
	behind = fused->next;
	for (size_t i = 0; i < nlate; i++)
		gg_move_before(late[i], behind);
	replace(fused, n, set->count);
	renumber(f->g, start, behind);
	return true;
}

static bool depends(const gg_node *n, uint64_t mark)
{
	for (int i = 0; i < n->nin; i++)
		if (n->in[i].value && n->in[i].value->producer && n->in[i].value->producer->mark == mark)
			return true;
	for (int i = 0; i < n->nafter; i++)
		if (n->after[i]->mark == mark && !(gg_is_collective(n) && gg_is_collective(n->after[i])))
			return true;
	return false;
}

static bool shares_input(gg_node *n, uint64_t mark)
{
	for (int i = 0; i < gg_nargs(n); i++)
		if (n->in[i].value->mark == mark)
			return true;
	for (int i = 0; i < gg_nargs(n); i++)
		n->in[i].value->mark = mark;
	return false;
}

/* Walks from the first member to the last: a node is marked when it is a member or depends on one. Those
 * that share an input with a member are left in the list. */
static bool fuse_once(fusion *f, gg_node **order, size_t *left)
{
	gg_arena *a = &f->p->scratch;
	size_t count = *left;
	gg_node **n = gg_alloc_n(a, count, sizeof *n), **late = 0;
	size_t nlate = 0, cap_late = 0, among = 0; /* among: those before the last member */
	members set = {0};
	uint64_t mark = new_mark(), apart = new_mark();
	memcpy(n, order, count * sizeof *n);
	qsort(n, count, sizeof *n, by_order);
	gg_node *k = n[0];
	for (size_t at = 0; at < count; k = k->next) {
		if (k != n[at]) {
			if (depends(k, mark)) {
				k->mark = mark;
				late = gg_grow_in(a, late, nlate, &cap_late, sizeof *late);
				late[nlate++] = k;
			}
			continue;
		}
		at++;
		if (depends(k, mark)) {
			gg_refused(f->p, k, "its input depends on the result of a member before it");
			gg_node *from = k;
			if (!fuse_set(f, &set, late, among, order, count))
				return false;
			k = from;
			set.count = nlate = among = 0;
			mark = new_mark();
		}
		if (shares_input(k, mark)) {
			gg_refused(f->p, k, "it shares an input with another member");
			k->mark = apart;
			continue;
		}
		k->mark = mark;
		set.n = gg_grow_in(a, set.n, set.count, &set.cap, sizeof *set.n);
		set.n[set.count++] = k;
		among = nlate;
	}
	if (!fuse_set(f, &set, late, among, order, count))
		return false;
	*left = 0;
	for (size_t i = 0; i < count; i++)
		if (order[i]->mark == apart)
			order[(*left)++] = order[i];
	return true;
}

/* Until nothing comes together any more. */
static bool fuse_segment(fusion *f, gg_node **order, size_t count)
{
	size_t before;
	do {
		before = f->p->applied;
		if (!fuse_once(f, order, &count))
			return false;
	} while (count > 1 && f->p->applied != before);
	return true;
}

/* Ends of segments from the option, each behind the one before; false: reported. */
static bool read_split(gg_pass_run *p, int64_t **end, size_t *n)
{
	const char *text = gg_pass_option(p, "split");
	size_t nword = 0, cap = 0;
	char **word = text ? gg_split(&p->scratch, text, ',', &nword) : 0;
	*end = 0;
	for (*n = 0; *n < nword;) {
		int64_t x;
		if (!gg_parse_int(word[*n], &x) || x < 0 || (*n && x <= (*end)[*n - 1]))
			return gg_error(p->d, GG_USAGE, "split='%s': places rise from 0", text);
		*end = gg_grow_in(&p->scratch, *end, *n, &cap, sizeof **end);
		(*end)[(*n)++] = x;
	}
	return true;
}

static bool fuse_key(fusion *f, members *m, const int64_t *end, size_t nend)
{
	if (gg_get_int(m->n[0], "index") > 0)
		qsort(m->n, m->count, sizeof *m->n, by_index);
	while (nend && end[nend - 1] >= (int64_t)m->count) {
		gg_note(f->p->d, "%s: split %lld is behind the last of %zu members", f->p->pass->name,
		        (long long)end[nend - 1], m->count);
		nend--;
	}
	for (size_t from = 0, s = 0; from < m->count; s++) {
		size_t to = s < nend ? (size_t)end[s] + 1 : m->count;
		if (to - from > 1 && !fuse_segment(f, m->n + from, to - from))
			return false;
		from = to;
	}
	return true;
}

static bool fuse_all(fusion *f, const char *op, const int64_t *end, size_t nend)
{
	bool good = true;
	f->keys = (gg_map){0};
	f->first = NULL;
	f->last = &f->first;
	collect(f, op);
	gg_graph_number(f->g);
	for (members *m = f->first; m && good; m = m->next)
		good = m->count < 2 || fuse_key(f, m, end, nend);
	gg_map_fini(&f->keys);
	return good;
}

/* A member that one node could not take may go into the next: they are looked at again, unless places were
 * named, which count the members as they were. */
bool fuse_collectives(gg_pass_run *p, gg_graph *g, const char *op)
{
	fusion f = {.p = p, .g = g};
	int64_t *end;
	size_t nend, before;
	bool good = read_split(p, &end, &nend);
	do {
		before = p->applied;
		good = good && fuse_all(&f, op, end, nend);
	} while (good && !nend && p->applied != before);
	if (f.changed)
		tighten(g);
	return good;
}
