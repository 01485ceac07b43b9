/* Who looks on while a step runs. */
#include "run.h"

#include <stdlib.h>

/* Once a difference is found, what comes after it follows from it. */
static bool layer(job *j, const gg_value *v, const gg_tensor *got)
{
	gg_value *r = v->producer ? gg_find_value(j->ref->main, v->name) : NULL;
	gg_tensor want;

	if (j->layers.differ || !r || r->kind != GG_TEMP)
		return true;
	if (!gg_exec_value(j->ref_exec, r, &want))
		return false;
	j->layers.differ = !compare_layer(j, v, got, &want);
	return true;
}

static bool wrote(const gg_ran *r, void *arg)
{
	job *j = arg;

	for (int i = 0; i < r->nout; i++)
		if ((j->dump.n && !dump_value(j, r->out_value[i], &r->out[i])) ||
		    (j->ref_exec && !layer(j, r->out_value[i], &r->out[i])))
			return false;
	return true;
}

static void took(const gg_ran *r, double start, double seconds, void *arg)
{
	profile_call(((job *)arg)->profile, r, start, seconds);
}

/* To compare with, all values must be there at the end of ref's run. */
static bool keep_layers(job *j)
{
	for (gg_node *n = j->ref->main->first; n; n = n->next)
		for (int i = 0; i < n->nout; i++)
			if (n->out[i] && !gg_exec_keep(j->ref_exec, n->out[i]))
				return false;
	return true;
}

bool start_looking(job *j)
{
	j->watch = (gg_watch){.arg = j};
	if (j->trace) {
		j->profile = profile_open(j);
		j->watch.took = took;
	}
	if (j->dump.n || j->ref_exec)
		j->watch.wrote = wrote;
	if (j->watch.took || j->watch.wrote)
		gg_exec_watch(j->x, &j->watch);
	return !j->ref_exec || keep_layers(j);
}

void look_at_times_only(job *j)
{
	j->watch.wrote = NULL;
	gg_exec_watch(j->x, j->watch.took ? &j->watch : NULL);
}

bool end_looking(job *j, gg_buf *text)
{
	const layers *l = &j->layers;

	if (j->ref_exec && !l->differ && text)
		gg_buf_printf(
		    text,
		    l->at ? "%zu values inside match, the furthest off is '%s' by %.3g of its largest\n"
		          : "%zu values inside match\n",
		    l->n, l->at ? l->at->name : "", l->worst);
	return !l->differ;
}
