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

static void put_record(gg_model *m, const gg_plan *p, const bodies *b)
{
	gg_extra *x = gg_alloc(&m->arena, sizeof *x), **at = &m->blobs;
	gg_buf buf = {0};
	gg_writer w;
	void *bytes;

	gg_writer_init(&w, &buf);
	gg_put_map(&w, b->n ? 7 : 6);
	gg_put_str(&w, "align");
	gg_put_int(&w, GG_ALIGN);
	gg_put_str(&w, "streams");
	gg_put_int(&w, 1);
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
}

bool plan_memory(gg_diag *d, gg_model *m, bool no_reuse)
{
	bodies b = {{0}};
	gg_plan p;
	bool good = gg_plan_for_target(d, m->main, no_reuse, &p) && plan_bodies(d, m->main, no_reuse, &b);

	if (good) {
		gg_verbose(d, "arena %lld bytes, lower bound %lld, without reuse %lld", (long long)p.arena,
		           (long long)p.bound, (long long)p.total);
		put_record(m, &p, &b);
	}
	gg_buf_fini(&b.list);
	return good;
}
