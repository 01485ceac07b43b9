#include "memory.h"
#include "../../lib/pack.h"

#include <stdlib.h>
#include <string.h>

typedef struct bodies {
	gg_buf list; /* one map a body */
	size_t n;
} bodies;

static void put_sizes(gg_writer *w, const gg_plan *p)
{
	gg_put_str(w, "arena");
	gg_put_int(w, p->arena);
	gg_put_str(w, "bound");
	gg_put_int(w, p->bound);
	gg_put_str(w, "total");
	gg_put_int(w, p->total);
	gg_put_str(w, "unplanned");
	gg_put_int(w, (int64_t)p->unplanned);
}

static bool plan_bodies(gg_diag *d, gg_graph *g, bool no_reuse, bodies *b)
{
	for (gg_node *n = g->first; n; n = n->next)
		for (int i = 0; gg_body(n, i); i++) {
			gg_writer w;
			gg_plan p;
			if (!gg_plan_for_target(d, gg_body(n, i), no_reuse, &p))
				return false;
			gg_writer_init(&w, &b->list);
			gg_put_map(&w, 6);
			gg_put_str(&w, "node");
			gg_put_int(&w, n->id);
			gg_put_str(&w, "body");
			gg_put_int(&w, i);
			put_sizes(&w, &p);
			b->n++;
			if (!plan_bodies(d, gg_body(n, i), no_reuse, b))
				return false;
		}
	return true;
}

/* Pairs of nodes: the last one of the call that records an event, the first of the one that waits for it. */
static bool put_events(gg_diag *d, gg_writer *w, gg_graph *g)
{
	gg_order o;
	const gg_node **last;

	if (!gg_order_for_target(d, g, &o))
		return false;
	last = gg_xcalloc((size_t)o.ncall + 2, sizeof *last);
	gg_put_str(w, "events");
	gg_put_array(w, o.nwait);
	for (const gg_node *n = g->first; n; n = n->next) {
		uint32_t call = (uint32_t)n->mark;
		if (!o.ncall)
			break;
		for (uint32_t i = o.first[call]; !last[call] && i < o.first[call + 1]; i++) {
			gg_put_array(w, 2);
			gg_put_int(w, last[o.wait[i]]->id);
			gg_put_int(w, n->id);
		}
		last[call] = n;
	}
	free(last);
	gg_order_free(&o);
	return true;
}

static bool put_streams(gg_diag *d, gg_writer *w, gg_graph *g, const char *const *kind, int n)
{
	gg_put_str(w, "streams");
	gg_put_int(w, n);
	if (n == 1)
		return true;
	gg_put_str(w, "kinds");
	gg_put_array(w, (size_t)n);
	for (int i = 0; i < n; i++)
		gg_put_str(w, kind[i]);
	return put_events(d, w, g);
}

static bool put_record(gg_diag *d, gg_model *m, const gg_plan *p, const bodies *b, const char *const *kind,
                       int n)
{
	gg_extra *x = gg_alloc(&m->arena, sizeof *x), **at = &m->blobs;
	gg_buf buf = {0};
	gg_writer w;
	void *bytes;
	bool good;

	gg_writer_init(&w, &buf);
	gg_put_map(&w, 6u + (b->n > 0) + 2 * (n > 1));
	gg_put_str(&w, "align");
	gg_put_int(&w, GG_ALIGN);
	good = put_streams(d, &w, m->main, kind, n);
	put_sizes(&w, p);
	if (b->n) {
		gg_put_str(&w, "bodies");
		gg_put_array(&w, b->n);
		gg_buf_add(&buf, b->list.p, b->list.len);
	}
	bytes = gg_alloc(&m->arena, buf.len);
	memcpy(bytes, buf.p, buf.len);
	*x = (gg_extra){.key = gg_intern("plan"), .bytes = bytes, .len = buf.len};
	gg_buf_fini(&buf);
	while (*at) /* a graph that is built again has one plan */
		if (!strcmp((*at)->key, "plan"))
			*at = (*at)->next;
		else
			at = &(*at)->next;
	x->next = m->blobs;
	m->blobs = x;
	return good;
}

bool plan_memory(gg_diag *d, gg_model *m, bool no_reuse, const char *const *kind, int n)
{
	bodies b = {{0}};
	gg_plan p;
	bool good = gg_plan_for_target(d, m->main, no_reuse, &p) && plan_bodies(d, m->main, no_reuse, &b);

	if (good) {
		gg_verbose(d, "arena %lld bytes, lower bound %lld, without reuse %lld", (long long)p.arena,
		           (long long)p.bound, (long long)p.total);
		good = put_record(d, m, &p, &b, kind, n);
	}
	gg_buf_fini(&b.list);
	return good;
}
