#include "plan.h"
#include "target.h"

#include <stdlib.h>
#include <string.h>

/* As in a run: nodes that one kernel covers run at one time, and what only they see has no place. */
typedef struct times {
	const gg_target *target;
	uint32_t *step; /* by node order */
	bool *inner;    /* by node order: its outputs stay inside a kernel */
} times;

static void find_times(times *t, gg_graph *g)
{
	uint32_t step = 0;

	gg_graph_number(g);
	t->step = gg_xcalloc(g->nnodes + 2, sizeof *t->step);
	t->inner = gg_xcalloc(g->nnodes + 2, sizeof *t->inner);
	for (const gg_node *n = g->first; n;) {
		bool ref = !t->target || !n->kernel || !strcmp(n->kernel, "ref");
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

bool gg_plan_for_target(gg_diag *d, gg_graph *g, bool no_reuse, gg_plan *out)
{
	times t = {.target = g->m->target ? gg_target_find(g->m->target) : NULL};
	gg_plan_options o = {
	    .no_reuse = no_reuse, .step = step_of, .shape = shape_of, .target = t.target, .arg = &t};
	bool good;

	find_times(&t, g);
	good = gg_plan_graph(d, g, &o, out);
	for (const gg_node *n = g->first; n && good; n = n->next)
		for (int i = 0; t.inner[n->order] && i < n->nout; i++)
			out->inside += n->out[i] != NULL;
	out->unplanned -= out->inside;
	free(t.step);
	free(t.inner);
	return good;
}
