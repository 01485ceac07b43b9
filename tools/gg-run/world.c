/* --world=W: the same job on W ranks, each with its own graph, state and slice of the data. */
#include "run.h"

#include "../../lib/comm.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int job_rank(const job *j) { return j->exec.comm ? j->exec.comm->rank : 0; }

const char *rank_name(job *j, const char *name)
{
	return j->world > 1 ? gg_printf(&j->a, "%s.r%d", name, job_rank(j)) : name;
}

/* out.npy, of rank 1: out.r1.npy */
const char *rank_path(job *j, const char *path)
{
	const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
	int stem = dot && (!slash || dot > slash + 1) ? (int)(dot - path) : (int)strlen(path);

	return j->world > 1 ? gg_printf(&j->a, "%.*s.r%d%s", stem, path, job_rank(j), path + stem) : path;
}

const char *rank_path_if_there(job *j, const char *path)
{
	const char *own = rank_path(j, path);

	return access(own, F_OK) ? path : own;
}

/* The symbols `rank` and `world`, and the size of the group of all ranks. */
bool bind_world(job *j, gg_model *m)
{
	return (!j->world && !gg_has_collective(m->main)) ||
	       gg_bind_world(&j->t->d, m, job_rank(j), j->world ? (int)j->world : 1);
}

static void copy_pairs(gg_arena *a, pairs *l)
{
	pair *p = gg_alloc_n(a, l->n + 1, sizeof *p);

	if (l->n)
		memcpy(p, l->p, l->n * sizeof *p);
	l->p = p;
	l->cap = l->n;
}

typedef struct ranks {
	job *j;
	gg_buf say[GG_MAX_WORLD];
	int64_t failed;
} ranks;

static bool run_rank(gg_comm *c, void *arg)
{
	ranks *all = arg;
	job j = *all->j;
	gg_tool t = *all->j->t;
	pairs *const lists[] = {&j.input, &j.output, &j.data, &j.expect, &j.print, &j.shape, &j.dump};
	bool good;

	j.a = (gg_arena){0};
	j.t = &t;
	j.exec.comm = c;
	j.exec.seed = c->rank ? gg_hash(&c->rank, sizeof c->rank, j.exec.seed) : j.exec.seed;
	j.say = &all->say[c->rank];
	j.failed = &all->failed;
	t.d.where = gg_printf(&j.a, "%s: rank %d", t.d.where ? t.d.where : "-", c->rank);
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		copy_pairs(&j.a, lists[i]);
	j.m = read_again(&j);
	good = j.m && gg_prepare_model(&t, j.m) && bind_world(&j, j.m) && set_shapes(&j) &&
	       make_runnable(&j) && run_job(&j);
	if (j.m)
		gg_model_free(j.m);
	if (!all->j->t->d.status)
		all->j->t->d.status = t.d.status;
	all->j->t->d.errors += t.d.errors;
	gg_arena_fini(&j.a);
	return good;
}

bool run_world(job *j)
{
	ranks *all = gg_xcalloc(1, sizeof *all);
	gg_buf text = {0};
	bool good;

	all->j = j;
	all->failed = INT64_MAX;
	good = gg_world_run((int)j->world, run_rank, all);
	for (int i = 0; i < j->world; i++) {
		if (good && all->say[i].len)
			gg_buf_add(&text, all->say[i].p, all->say[i].len);
		gg_buf_fini(&all->say[i]);
	}
	good = good && (!text.len || gg_emit(j->t, &text));
	gg_buf_fini(&text);
	free(all);
	return good;
}
