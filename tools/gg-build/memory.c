#include "memory.h"
#include "../../lib/pack.h"

#include <stdlib.h>
#include <string.h>

/* As in a run: nodes that one kernel covers run at one time, and what only they see has no place. */
typedef struct times {
	const gg_target *target;
	uint32_t *step; /* by node order */
	bool *inner;    /* by node order: its outputs stay inside a kernel */
} times;

typedef struct bodies {
	gg_buf list; /* one map a body */
	size_t n;
} bodies;

static void find_times(times *t, gg_graph *g)
{
	uint32_t step = 0;

	gg_graph_number(g);
	t->step = gg_xcalloc(g->nnodes + 2, sizeof *t->step);
	t->inner = gg_xcalloc(g->nnodes + 2, sizeof *t->inner);
	for (const gg_node *n = g->first; n;) {
		bool ref = !n->kernel || !strcmp(n->kernel, "ref");
		int cover = ref ? 1 : gg_target_cover(t->target, n);
		step++;
		for (; cover > 0 && n; cover--, n = n->next) {
			t->step[n->order] = step;
			t->inner[n->order] = cover > 1;
		}
	}
}

static uint32_t step_of(const gg_node *n, void *arg) { return ((const times *)arg)->step[n->order]; }

static const gg_shape *shape_of(const gg_value *v, void *arg)
{
	const times *t = arg;
	return v->producer && t->inner[v->producer->order] ? &gg_shape_unknown : &v->shape;
}

static bool plan_graph(gg_diag *d, gg_graph *g, const gg_target *target, bool no_reuse, gg_plan *out)
{
	times t = {.target = target};
	gg_plan_options o = {.no_reuse = no_reuse, .step = step_of, .shape = shape_of, .arg = &t};
	bool good;

	find_times(&t, g);
	good = gg_plan_graph(d, g, &o, out);
	free(t.step);
	free(t.inner);
	return good;
}

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

static bool plan_bodies(gg_diag *d, gg_graph *g, const gg_target *target, bool no_reuse, bodies *b)
{
	for (gg_node *n = g->first; n; n = n->next)
		for (int i = 0; gg_body(n, i); i++) {
			gg_writer w;
			gg_plan p;
			if (!plan_graph(d, gg_body(n, i), target, no_reuse, &p))
				return false;
			gg_writer_init(&w, &b->list);
			gg_put_map(&w, 6);
			gg_put_str(&w, "node");
			gg_put_int(&w, n->id);
			gg_put_str(&w, "body");
			gg_put_int(&w, i);
			put_sizes(&w, &p);
			b->n++;
			if (!plan_bodies(d, gg_body(n, i), target, no_reuse, b))
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
	const gg_target *target = gg_target_find(m->target);
	bodies b = {{0}};
	gg_plan p;
	bool good = plan_graph(d, m->main, target, no_reuse, &p) &&
	            plan_bodies(d, m->main, target, no_reuse, &b);

	if (good) {
		gg_verbose(d, "arena %lld bytes, lower bound %lld, without reuse %lld", (long long)p.arena,
		           (long long)p.bound, (long long)p.total);
		put_record(m, &p, &b);
	}
	gg_buf_fini(&b.list);
	return good;
}
