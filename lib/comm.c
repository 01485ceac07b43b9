#include "comm.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { READY, WAITING, ENDED };

struct gg_world {
	int size, turn;
	pthread_mutex_t lock;
	pthread_cond_t moved;
	bool failed;
	gg_status status;
	struct rank {
		gg_comm comm;
		pthread_t thread;
		int state;
		gg_eval *at; /* where it waits */
		int member[GG_MAX_WORLD], nmember;
		bool good;
	} rank[GG_MAX_WORLD];
	bool (*f)(gg_comm *c, void *arg);
	void *arg;
};

/* ---- groups ------------------------------------------------------------------------------------- */
static bool is_world(const char *group) { return !group || !*group || !strcmp(group, "world"); }

/* The members of the part at *s; moves behind it. -1: not written like that. */
static int read_part(const char **s, int *member)
{
	int n = 0;
	for (;;) {
		char *end;
		long r = strtol(*s, &end, 10);
		if (end == *s || r < 0 || r >= GG_MAX_WORLD || n == GG_MAX_WORLD)
			return -1;
		member[n++] = (int)r;
		*s = end + (*end != 0);
		if (*end != ',')
			return *end == ';' || !*end ? n : -1;
	}
}

int gg_group_members(gg_diag *d, const gg_node *n, int world, int rank, int *member)
{
	const char *group = gg_get_string(n, "group");
	int64_t want = gg_get_int(n, "rank_size");
	int count = 0;
	if (is_world(group)) {
		for (count = 0; count < world; count++)
			member[count] = count;
	} else {
		bool mine = false;
		for (const char *s = group; *s && !mine;) {
			if ((count = read_part(&s, member)) < 0) {
				gg_node_error(d, GG_UNSUPPORTED, n,
				              "group '%s' is neither world nor ranks like '0,1;2,3'", group);
				return 0;
			}
			for (int i = 0; i < count; i++)
				mine |= member[i] == rank;
		}
		for (int i = 0; i < count && mine; i++)
			if (member[i] >= world)
				mine = gg_node_error(d, GG_MALFORMED, n,
				                     "group '%s' has rank %d of a world of %d", group,
				                     member[i], world);
		if (!mine && !d->errors)
			gg_node_error(d, GG_MALFORMED, n, "rank %d is not in group '%s'", rank, group);
		if (!mine)
			return 0;
	}
	if (want && want != count) {
		gg_node_error(d, GG_MALFORMED, n, "rank_size is %lld, the group has %d rank%s",
		              (long long)want, count, count == 1 ? "" : "s");
		return 0;
	}
	return count;
}

int64_t gg_group_size(const gg_node *n)
{
	const char *group = gg_get_string(n, "group");
	int64_t size = gg_get_int(n, "rank_size");
	int member[GG_MAX_WORLD];
	if (size || is_world(group))
		return size;
	for (const char *s = group; *s;) {
		int k = read_part(&s, member);
		if (k <= 0 || (size && k != size))
			return 0;
		size = k;
	}
	return size;
}

bool gg_is_collective(const gg_node *n) { return gg_op_attr(n->op, "rank_size") != 0; }

/* ---- turns ---------------------------------------------------------------------------------------- */
static void wake(gg_world *w)
{
	for (int i = 0; i < w->size; i++)
		if (w->rank[i].state == WAITING)
			w->rank[i].state = READY;
}

static bool fail(gg_world *w, gg_status s)
{
	if (!w->failed)
		w->status = s;
	w->failed = true;
	wake(w);
	return false;
}

static void report_stuck(gg_world *w)
{
	for (int i = 0; i < w->size; i++) {
		const struct rank *r = &w->rank[i];
		for (int k = 0; r->state == WAITING && k < r->nmember; k++) {
			const struct rank *o = &w->rank[r->member[k]];
			if (o->state == WAITING && o->at->n->id == r->at->n->id)
				continue;
			gg_node_error(r->at->d, GG_MALFORMED, r->at->n,
			              o->state == ENDED ? "rank %d waits for rank %d, which has ended"
			                                : "rank %d waits for rank %d, which waits elsewhere",
			              i, r->member[k]);
			return;
		}
	}
}

/* To the next rank that can run. Where none can though some wait, they wait for ever. */
static void pass_turn(gg_world *w)
{
	for (int again = 0; again < 2; again++) {
		bool waits = false;
		for (int k = 1; k <= w->size; k++) {
			int r = (w->turn + k) % w->size;
			waits |= w->rank[r].state == WAITING;
			if (w->rank[r].state != READY)
				continue;
			w->turn = r;
			pthread_cond_broadcast(&w->moved);
			return;
		}
		if (!waits)
			return;
		report_stuck(w);
		fail(w, GG_MALFORMED);
	}
}

static void wait_turn(gg_world *w, int rank)
{
	while (w->turn != rank || w->rank[rank].state != READY)
		pthread_cond_wait(&w->moved, &w->lock);
}

/* ---- meeting ---------------------------------------------------------------------------------------- */
static bool same_place(const gg_eval *a, int ra, const gg_eval *b, int rb)
{
	if (a->n->id != b->n->id)
		return gg_node_error(b->d, GG_MALFORMED, b->n, "rank %d is here, rank %d at '%s' (%s)", rb,
		                     ra, gg_node_name(a->n), a->n->op->name);
	for (int i = 0; i < a->nin && strcmp(a->n->op->name, "AllToAllv"); i++)
		if (a->in[i].dtype != b->in[i].dtype || !gg_shape_eq(&a->in[i].shape, &b->in[i].shape))
			return gg_node_error(
			    b->d, GG_MALFORMED, b->n, "input %d is %s%s on rank %d, %s%s on rank %d", i,
			    gg_dtype_name(b->in[i].dtype), gg_shape_str(b->a, &b->in[i].shape), rb,
			    gg_dtype_name(a->in[i].dtype), gg_shape_str(b->a, &a->in[i].shape), ra);
	return true;
}

static bool all_wait(const gg_world *w, const struct rank *r)
{
	for (int i = 0; i < r->nmember; i++)
		if (w->rank[r->member[i]].state != WAITING)
			return false;
	return true;
}

static bool work_for_all(gg_world *w, struct rank *r, gg_collective *work)
{
	gg_eval *at[GG_MAX_WORLD];
	for (int i = 0; i < r->nmember; i++) {
		at[i] = w->rank[r->member[i]].at;
		if (i && !same_place(at[0], r->member[0], at[i], r->member[i]))
			return fail(w, GG_MALFORMED);
	}
	if (!work(r->nmember, at))
		return fail(w, r->at->d->status);
	for (int i = 0; i < r->nmember; i++)
		w->rank[r->member[i]].state = READY;
	return true;
}

bool gg_meet(gg_eval *e, gg_collective *work)
{
	int rank = e->comm ? e->comm->rank : 0, alone[GG_MAX_WORLD];
	if (!e->comm || e->comm->size == 1)
		return gg_group_members(e->d, e->n, 1, 0, alone) && work(1, &e);
	gg_world *w = e->comm->world;
	struct rank *r = &w->rank[rank];
	r->nmember = gg_group_members(e->d, e->n, w->size, rank, r->member);
	if (!r->nmember)
		return false;
	if (!w->failed) {
		r->at = e;
		r->state = WAITING;
		if (all_wait(w, r))
			work_for_all(w, r, work);
		if (r->state == WAITING) {
			pass_turn(w);
			wait_turn(w, rank);
		}
	}
	if (w->failed && !e->d->status) { /* said elsewhere */
		e->d->status = w->status;
		e->d->errors++;
	}
	return !w->failed;
}

/* ---- the world ---------------------------------------------------------------------------------------- */
static void *run_rank(void *arg)
{
	struct rank *r = arg;
	gg_world *w = r->comm.world;
	pthread_mutex_lock(&w->lock);
	wait_turn(w, r->comm.rank);
	r->good = w->f(&r->comm, w->arg);
	r->state = ENDED;
	if (!r->good)
		fail(w, GG_MALFORMED);
	pass_turn(w);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

bool gg_world_run(int size, bool (*f)(gg_comm *c, void *arg), void *arg)
{
	gg_world *w = gg_xcalloc(1, sizeof *w);
	bool good = true;
	*w = (gg_world){.size = size, .f = f, .arg = arg};
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->moved, NULL);
	pthread_mutex_lock(&w->lock);
	for (int i = 0; i < size; i++) {
		w->rank[i].comm = (gg_comm){w, i, size};
		if (pthread_create(&w->rank[i].thread, NULL, run_rank, &w->rank[i]))
			gg_bug("no thread for rank %d", i);
	}
	pthread_mutex_unlock(&w->lock);
	for (int i = 0; i < size; i++) {
		pthread_join(w->rank[i].thread, NULL);
		good &= w->rank[i].good;
	}
	pthread_cond_destroy(&w->moved);
	pthread_mutex_destroy(&w->lock);
	free(w);
	return good;
}

bool gg_has_collective(const gg_graph *g)
{
	gg_graph *b;

	for (const gg_node *n = g->first; n; n = n->next) {
		if (gg_is_collective(n))
			return true;
		for (int i = 0; (b = gg_body(n, i)); i++)
			if (gg_has_collective(b))
				return true;
	}
	return false;
}

static void set_sizes(gg_graph *g, int64_t world)
{
	gg_graph *b;

	for (gg_node *n = g->first; n; n = n->next) {
		if (gg_is_collective(n) && !strcmp(gg_get_string(n, "group"), "world") &&
		    !gg_get_int(n, "rank_size"))
			gg_set_attr_int(n, "rank_size", world);
		for (int i = 0; (b = gg_body(n, i)); i++)
			set_sizes(b, world);
	}
}

bool gg_bind_world(gg_diag *d, gg_model *m, int rank, int world)
{
	gg_binding b[] = {{gg_intern("rank"), rank}, {gg_intern("world"), world}};

	set_sizes(m->main, world);
	gg_bind(m, b, 2);
	return gg_infer_graph(d, m->main);
}
