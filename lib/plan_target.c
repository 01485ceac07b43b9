#include "plan.h"
#include "target.h"

#include <stdlib.h>
#include <string.h>

/* As in a run: nodes that one kernel covers run at one time, and what only they see has no place. */
typedef struct times {
	const gg_target *target;
	uint32_t *step; /* by node order */
	bool *inner;    /* by node order: its outputs stay inside a kernel */
	bool *idle;     /* by call */
} times;

static void find_times(times *t, gg_graph *g)
{
	uint32_t step = 0;

	gg_graph_number(g);
	t->step = gg_xcalloc(g->nnodes + 2, sizeof *t->step);
	t->inner = gg_xcalloc(g->nnodes + 2, sizeof *t->inner);
	t->idle = gg_xcalloc(g->nnodes + 2, sizeof *t->idle);
	for (const gg_node *n = g->first; n;) {
		bool ref = !t->target || !n->kernel || !strcmp(n->kernel, "ref");
		int cover = ref ? 1 : gg_target_cover(t->target, n);
		t->idle[++step] = gg_is_view(n);
		for (; cover > 0 && n; cover--, n = n->next) {
			t->step[n->order] = step;
			t->inner[n->order] = cover > 1;
		}
	}
}

static void free_times(times *t)
{
	free(t->step);
	free(t->inner);
	free(t->idle);
}

static bool uses_streams(const times *t, const gg_graph *g)
{
	return t->target && t->target->device && !g->owner && gg_has_streams(g);
}

static uint32_t step_of(const gg_node *n, void *arg) { return ((const times *)arg)->step[n->order]; }

static const gg_shape *shape_of(const gg_value *v, void *arg)
{
	const times *t = arg;
	return v->producer && t->inner[v->producer->order] ? &gg_shape_unknown : &v->shape;
}

/* A view that the plan does not make is a copy, which somebody must wait for. */
static bool all_idle(const gg_graph *g, const uint32_t *step, bool *idle)
{
	bool all = true;

	for (const gg_node *n = g->first; n; n = n->next)
		if (idle[step[n->order]] && !n->out[0]->alias)
			idle[step[n->order]] = all = false;
	return all;
}

bool gg_plan_streams(gg_diag *d, gg_graph *g, const uint32_t *step, gg_plan_options *o, gg_order *order,
                     gg_plan *out)
{
	bool *idle = gg_xcalloc(g->nnodes + 2, sizeof *idle), good;

	for (const gg_node *n = g->first; n; n = n->next)
		idle[step[n->order]] = gg_is_view(n);
	*order = (gg_order){0};
	o->order = order;
	do {
		gg_order_free(order);
		good = gg_order_make(d, g, step, idle, order) && gg_plan_graph(d, g, o, out);
	} while (good && !all_idle(g, step, idle));
	free(idle);
	return good;
}

bool gg_plan_for_target(gg_diag *d, gg_graph *g, bool no_reuse, gg_plan *out)
{
	times t = {.target = g->m->target ? gg_target_find(g->m->target) : NULL};
	gg_plan_options o = {
	    .no_reuse = no_reuse, .step = step_of, .shape = shape_of, .target = t.target, .arg = &t};
	gg_order order = {0};
	bool good = false;

	find_times(&t, g);
	if (uses_streams(&t, g))
		good = gg_plan_streams(d, g, t.step, &o, &order, out);
	else
		good = gg_plan_graph(d, g, &o, out);
	out->waits = order.nwait;
	for (const gg_node *n = g->first; n && good; n = n->next)
		for (int i = 0; t.inner[n->order] && i < n->nout; i++)
			out->inside += n->out[i] != NULL;
	out->unplanned -= out->inside;
	gg_order_free(&order);
	free_times(&t);
	return good;
}

bool gg_order_for_target(gg_diag *d, gg_graph *g, gg_order *out)
{
	times t = {.target = g->m->target ? gg_target_find(g->m->target) : NULL};
	bool good = true;

	find_times(&t, g);
	all_idle(g, t.step, t.idle);
	*out = (gg_order){0};
	if (uses_streams(&t, g))
		good = gg_order_make(d, g, t.step, t.idle, out);
	for (gg_node *n = g->first; n; n = n->next)
		n->mark = t.step[n->order];
	free_times(&t);
	return good;
}
