/* What each input of the graph gets: a file, a slice or batch of a data file, or a fill. */
#include "run.h"
#include "../../lib/backend.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool bind_shape(gg_diag *d, gg_model *m, gg_value *v, const gg_shape *s)
{
	gg_arena a = {0};
	bool good = true;

	if (v->shape.rank < 0) {
		v->shape = *s;
		return true;
	}
	if (v->shape.rank != s->rank)
		good = false;
	for (int i = 0; i < s->rank && good; i++) {
		gg_binding b = {gg_dim_symbol(v->shape.dim[i]), s->dim[i]};
		if (b.sym)
			gg_bind(m, &b, 1);
		good = v->shape.dim[i] == s->dim[i];
	}
	if (!good)
		gg_error(d, GG_MALFORMED, "--shape: input '%s' has shape %s, not %s", v->name,
		         gg_shape_str(&a, &v->shape), gg_shape_str(&a, s));
	gg_arena_fini(&a);
	return good;
}

bool set_shapes(job *j)
{
	for (size_t i = 0; i < j->shape.n; i++) {
		pair *p = &j->shape.p[i];
		gg_value *v = gg_find_value(j->m->main, p->name);
		size_t n = 0;
		char **word = *p->file ? gg_split(&j->a, p->file, ',', &n) : NULL;
		gg_shape s = {.rank = (int)n};
		if (!v || v->kind != GG_INPUT)
			return gg_error(&j->t->d, GG_USAGE, "--shape: the graph has no input '%s'", p->name);
		if (n > GG_MAX_RANK)
			gg_usage(j->t, "--shape: more than %d dims", GG_MAX_RANK);
		for (size_t k = 0; k < n; k++)
			if (!gg_parse_int(word[k], &s.dim[k]) || s.dim[k] < 0)
				gg_usage(j->t, "--shape takes NAME=N,N,..., not '%s=%s'", p->name, p->file);
		if (!bind_shape(&j->t->d, j->m, v, &s))
			return false;
	}
	return !j->shape.n || gg_infer_graph(&j->t->d, j->m->main);
}

/* ---- files ----------------------------------------------------------------------------------- */
static feed *find_feed(job *j, feed *f, const char *option, const char *name)
{
	size_t i = 0;

	while (i < j->m->main->nin && strcmp(f[i].v->name, name))
		i++;
	if (i < j->m->main->nin && !f[i].given)
		return &f[i];
	gg_error(&j->t->d, GG_USAGE,
	         i < j->m->main->nin ? "%s: input '%s' is given twice" : "%s: the graph has no input '%s'",
	         option, name);
	return NULL;
}

/* A file with as many times the rows as there are ranks holds the slice of each. */
static void take_slice(job *j, feed *f)
{
	gg_shape *s = &f->t.shape;
	size_t bytes;

	if (j->world < 2 || s->rank < 1 || s->rank != f->v->shape.rank || !gg_dim_known(f->v->shape.dim[0]) ||
	    s->dim[0] != f->v->shape.dim[0] * j->world)
		return;
	s->dim[0] /= j->world;
	bytes = gg_nbytes(&f->t);
	if (bytes)
		memmove(f->t.data, (char *)f->t.data + bytes * (size_t)job_rank(j), bytes);
}

static bool read_file(job *j, feed *f, const char *path)
{
	if (!gg_tensor_read(&j->t->d, path, (gg_dtype)f->v->dtype, &f->t))
		return false;
	take_slice(j, f);
	f->given = f->owned = true;
	return true;
}

static char *numbered(job *j, const char *dir, const char *kind, size_t k)
{
	char *path = gg_printf(&j->a, "%s/%s_%zu.npy", dir, kind, k);

	return access(path, F_OK) ? gg_printf(&j->a, "%s/%s_%zu.pb", dir, kind, k) : path;
}

static bool read_folder(job *j, feed *f, const char *dir)
{
	for (size_t i = 0; i < j->m->main->nin; i++) {
		char *path = numbered(j, dir, "input", i);
		if (f[i].given)
			continue;
		if (access(path, F_OK))
			return gg_error(&j->t->d, GG_MALFORMED, "%s: no input_%zu.npy or .pb for input '%s'",
			                dir, i, f[i].v->name);
		if (!read_file(j, &f[i], path))
			return false;
	}
	return true;
}

/* ---- data files: a slice or a batch a step ---------------------------------------------------- */
static bool check_rows(job *j, const feed *f)
{
	const gg_shape *s = &f->v->shape, *all = &f->all.shape;
	int skip = f->sliced ? 0 : 1;

	if (f->all.dtype != f->v->dtype)
		return gg_error(&j->t->d, GG_MALFORMED, "--data: input '%s' is %s, the file has %s",
		                f->v->name, gg_dtype_name((gg_dtype)f->v->dtype),
		                gg_dtype_name(f->all.dtype));
	for (int i = skip; i < s->rank; i++)
		if (gg_dim_known(s->dim[i]) && s->dim[i] != all->dim[i + 1 - skip])
			return gg_error(&j->t->d, GG_MALFORMED,
			                "--data: input '%s' has shape %s, the file %s", f->v->name,
			                gg_shape_str(&j->a, s), gg_shape_str(&j->a, all));
	return true;
}

static bool find_batch(job *j, feed *f)
{
	gg_dim dim = f->v->shape.dim[0];
	int64_t rows = f->all.shape.dim[0];

	f->batch = gg_dim_known(dim) ? dim : j->batch;
	if (!f->batch)
		return gg_error(&j->t->d, GG_USAGE, "--data: axis 0 of input '%s' is %s: say --batch=N",
		                f->v->name, gg_dim_known(dim) ? "0" : gg_dim_str(dim));
	if (gg_dim_known(dim) && j->batch && j->batch != dim)
		return gg_error(&j->t->d, GG_USAGE, "--batch is %lld, but input '%s' takes %lld",
		                (long long)j->batch, f->v->name, (long long)dim);
	f->last = f->batch;
	if (j->whole && !gg_dim_known(dim)) { /* a short last batch is a shape of its own */
		f->batch = f->batch > rows && rows ? rows : f->batch;
		f->last = rows % f->batch ? rows % f->batch : f->batch;
		f->count = (rows + f->batch - 1) / f->batch;
		return true;
	}
	f->count = rows / f->batch;
	if (f->count && rows % f->batch)
		gg_note(&j->t->d,
		        "input '%s': the last %lld of %lld samples do not fill a batch and are left out",
		        f->v->name, (long long)(rows % f->batch), (long long)rows);
	return true;
}

static bool open_data(job *j, feed *f, const char *path)
{
	int rank = f->v->shape.rank;

	if (!table_open(&j->t->d, &f->all, path, f->v->name, (gg_dtype)f->v->dtype))
		return false;
	if (j->hold_out)
		table_split(&f->all, j->hold_out, j->whole);
	f->given = true;
	f->sliced = rank >= 0 && f->all.shape.rank == rank + 1;
	f->batched = rank > 0 && f->all.shape.rank == rank;
	if (!f->sliced && !f->batched)
		return gg_error(&j->t->d, GG_MALFORMED,
		                "--data: input '%s' has rank %d, the file %d: expected %d or %d", f->v->name,
		                rank, f->all.shape.rank, rank, rank + 1);
	if (!check_rows(j, f) || (f->batched && !find_batch(j, f)))
		return false;
	f->batch = f->sliced ? 1 : f->batch;
	f->last = f->sliced ? 1 : f->last;
	f->count = f->sliced ? f->all.shape.dim[0] : f->count;
	if (!f->count)
		return gg_error(&j->t->d, GG_MALFORMED,
		                "--data: input '%s': %s: %lld samples do not fill a batch of %lld",
		                f->v->name, path, (long long)f->all.shape.dim[0], (long long)f->batch);
	f->t.dtype = f->all.dtype;
	f->t.shape = gg_shape_of(rank, f->all.shape.dim + (f->sliced ? 1 : 0));
	if (f->batched)
		f->t.shape.dim[0] = f->batch;
	for (int i = 0; i < 2; i++)
		f->buffer[i] = gg_xaligned(gg_nbytes(&f->t));
	f->t.data = f->buffer[0];
	f->order = gg_xcalloc((size_t)f->all.shape.dim[0], sizeof *f->order);
	f->epoch = -1;
	return true;
}

/* The same seed gives data files of the same length the same order. */
static void shuffle(feed *f, int64_t seed, int64_t epoch)
{
	int64_t n = f->all.shape.dim[0];
	uint64_t stream = gg_hash(&epoch, sizeof epoch, (uint64_t)seed);

	f->epoch = epoch;
	for (int64_t i = 0; i < n; i++)
		f->order[i] = i;
	for (int64_t i = n - 1; seed >= 0 && i > 0; i--) {
		int64_t k = (int64_t)(gg_uniform(stream, (uint64_t)i) * (double)(i + 1)), x = f->order[i];
		f->order[i] = f->order[k];
		f->order[k] = x;
	}
}

int64_t epoch_steps(const job *j, const feed *f)
{
	int64_t most = 0;

	for (size_t i = 0; i < j->m->main->nin; i++)
		if (f[i].count > most)
			most = f[i].count;
	return most;
}

typedef struct gather { /* samples from..to of a step */
	const feed *f;
	char *out;
	const int64_t *order;
	int64_t from, to;
	pthread_t thread;
	bool started;
} gather;

static void *run_gather(void *arg)
{
	const gather *g = arg;
	const table *t = &g->f->all;

	for (int64_t b = g->from; b < g->to; b++)
		memcpy(g->out + b * t->row, table_row(t, g->order[b]), (size_t)t->row);
	return NULL;
}

/* One core copies slower than a device learns: large batches are copied by some. */
static void gather_samples(const feed *f, int64_t first, int64_t n)
{
	enum { MOST = 8, WORTH = 4 << 20 };
	int64_t parts = n * f->all.row / WORTH + 1, threads = gg_threads();
	gather g[MOST];

	threads = threads < MOST ? threads : MOST;
	parts = parts < threads ? parts : threads;
	for (int64_t i = 0; i < parts; i++) {
		g[i] = (gather){.f = f,
		                .out = f->t.data,
		                .order = f->order + first,
		                .from = n * i / parts,
		                .to = n * (i + 1) / parts};
		g[i].started = i + 1 < parts && !pthread_create(&g[i].thread, NULL, run_gather, &g[i]);
		if (!g[i].started)
			run_gather(&g[i]);
	}
	for (int64_t i = 0; i < parts; i++)
		if (g[i].started)
			pthread_join(g[i].thread, NULL);
}

/* Samples that lie in the file one after the other, as in memory, stay there; others are gathered. */
static void take_samples(feed *f, int64_t first, int64_t n)
{
	const char *row = n ? table_row(&f->all, f->order[first]) : NULL;
	bool there = n && f->all.row && (uintptr_t)row % GG_ALIGN == 0;

	for (int64_t b = 1; b < n && there; b++)
		there = table_row(&f->all, f->order[first + b]) == row + b * f->all.row;
	if (there) {
		f->t.data = (void *)(uintptr_t)row;
		return;
	}
	f->t.data = f->buffer[f->turn ^= 1];
	if (f->all.row)
		gather_samples(f, first, n);
}

int64_t next_step(job *j, feed *f, int64_t step)
{
	int64_t samples = 1;

	if (j->world > 1) /* the ranks take turns */
		step = step * j->world + job_rank(j);
	for (size_t i = 0; i < j->m->main->nin; i++) {
		feed *k = &f[i];
		int64_t at = k->count ? step % k->count : 0, n = at == k->count - 1 ? k->last : k->batch;
		if (!k->sliced && !k->batched)
			continue;
		if (k->epoch != step / k->count)
			shuffle(k, j->shuffle, step / k->count);
		if (k->batched)
			samples = k->t.shape.dim[0] = n;
		take_samples(k, at * k->batch, n);
	}
	return samples;
}

/* ---- what is missing is filled ---------------------------------------------------------------- */
typedef struct unbound {
	gg_buf names; /* of those that nothing binds */
	gg_map seen;
	gg_binding *b;
	size_t n, cap;
} unbound;

static bool bind_one(unbound *u, const char *sym, int64_t size)
{
	if (gg_map_gets(&u->seen, sym))
		return false;
	gg_map_puts(&u->seen, sym, u);
	GG_PUSH(u->b, u->n, u->cap, ((gg_binding){sym, size}));
	return true;
}

static void bind_to_one(const char *sym, void *arg)
{
	unbound *u = arg;
	if (bind_one(u, sym, 1))
		gg_buf_printf(&u->names, "%s%s=1", u->names.len ? ", " : "", sym);
}

/* Data for some inputs and noise for others: nobody wants to train on that. */
static bool missing_data(job *j, const feed *f)
{
	for (size_t i = 0; j->data.n && i < j->m->main->nin; i++)
		if (!f[i].given)
			return !gg_error(&j->t->d, GG_USAGE,
			                 "input '%s' has no data: give it with --data or --input",
			                 f[i].v->name);
	return false;
}

static bool fill_missing(job *j, feed *f)
{
	gg_graph *g = j->m->main;
	unbound u = {0};
	bool good = true;

	for (size_t i = 0; i < g->nin; i++)
		for (int k = 0; f[i].given && k < f[i].v->shape.rank && k < f[i].t.shape.rank; k++) {
			const char *sym = gg_dim_symbol(f[i].v->shape.dim[k]);
			if (sym)
				bind_one(&u, sym, f[i].t.shape.dim[k]);
		}
	for (size_t i = 0; i < g->nin; i++)
		for (int k = 0; !f[i].given && k < f[i].v->shape.rank; k++)
			gg_dim_symbols(f[i].v->shape.dim[k], bind_to_one, &u);
	for (size_t i = 0; i < g->nin && good; i++) {
		gg_tensor *t = &f[i].t;
		int64_t bytes;
		if (f[i].given)
			continue;
		if (f[i].v->shape.rank < 0 || !f[i].v->dtype) {
			good = gg_error(&j->t->d, GG_USAGE,
			                "input '%s' has no known rank: give it with --input or --shape",
			                f[i].v->name);
			continue;
		}
		t->dtype = (gg_dtype)f[i].v->dtype;
		t->shape.rank = f[i].v->shape.rank;
		for (int k = 0; k < t->shape.rank; k++)
			t->shape.dim[k] = gg_dim_bind(f[i].v->shape.dim[k], u.b, u.n);
		if (!gg_shape_known(&t->shape) || !gg_size_of(t->dtype, &t->shape, &bytes)) {
			good = gg_error(&j->t->d, GG_MALFORMED, "input '%s': shape %s cannot be filled",
			                f[i].v->name, gg_shape_str(&j->a, &t->shape));
			continue;
		}
		t->data = gg_xaligned((size_t)bytes);
		f[i].owned = true;
		fill_input(j, f[i].v, t);
		gg_note(&j->t->d, "input '%s' is not given: filled, %s%s, seed %llu", f[i].v->name,
		        gg_dtype_name(t->dtype), gg_shape_str(&j->a, &t->shape),
		        (unsigned long long)j->exec.seed);
	}
	if (u.names.len)
		gg_note(&j->t->d, "symbols that nothing binds: %s", u.names.p);
	gg_buf_fini(&u.names);
	gg_map_fini(&u.seen);
	free(u.b);
	return good;
}

/* Samples belong together by their place, so that there are as many of each. */
static bool check_samples(job *j, const feed *f)
{
	const feed *one = NULL;

	for (size_t i = 0; i < j->m->main->nin; i++) {
		const feed *k = &f[i];
		if (!k->batched)
			continue;
		one = one ? one : k;
		if ((__int128)k->all.shape.dim[0] * one->batch != (__int128)one->all.shape.dim[0] * k->batch)
			return gg_error(&j->t->d, GG_MALFORMED,
			                "--data: input '%s' has %lld samples, input '%s' %lld", one->v->name,
			                (long long)one->all.shape.dim[0], k->v->name,
			                (long long)k->all.shape.dim[0]);
	}
	return true;
}

static bool open_files(job *j, feed *f)
{
	feed *k;

	for (size_t i = 0; i < j->input.n; i++) {
		if (j->input.p[i].v) /* a parameter */
			continue;
		if (!(k = find_feed(j, f, "--input", j->input.p[i].name)) ||
		    !read_file(j, k, j->input.p[i].file))
			return false;
	}
	for (size_t i = 0; i < j->data.n; i++)
		if (!(k = find_feed(j, f, "--data", j->data.p[i].name)) ||
		    !open_data(j, k, j->data.p[i].file))
			return false;
	return check_samples(j, f) && (!j->inputs || read_folder(j, f, j->inputs)) &&
	       (!j->test || read_folder(j, f, j->test));
}

feed *open_feeds(job *j)
{
	gg_graph *g = j->m->main;
	feed *f = gg_xcalloc(g->nin + 1, sizeof *f);

	for (size_t i = 0; i < g->nin; i++)
		f[i].v = g->in[i];
	for (size_t i = 0; i < j->input.n; i++) {
		gg_value *v = gg_find_value(g, j->input.p[i].name);
		j->input.p[i].v = v && v->kind == GG_PARAM ? v : NULL;
	}
	if (open_files(j, f) && !missing_data(j, f) && fill_missing(j, f))
		return f;
	close_feeds(j, f);
	return NULL;
}

void close_feeds(job *j, feed *f)
{
	for (size_t i = 0; f && i < j->m->main->nin; i++) {
		if (f[i].owned)
			free(f[i].t.data);
		free(f[i].buffer[0]);
		free(f[i].buffer[1]);
		table_close(&f[i].all);
		free(f[i].order);
	}
	free(f);
}

/* --input NAME of an initialiser replaces it. */
bool override_params(job *j, gg_exec *x)
{
	for (size_t i = 0; i < j->input.n; i++) {
		const pair *p = &j->input.p[i];
		gg_tensor t;
		bool good;
		gg_value *v = p->v ? gg_find_value(x == j->x ? j->m->main : j->ref->main, p->name) : NULL;
		if (!v)
			continue;
		if (!gg_tensor_read(&j->t->d, p->file, (gg_dtype)v->dtype, &t))
			return false;
		good = gg_exec_set_param(x, v, &t);
		free(t.data);
		if (!good)
			return false;
	}
	return true;
}
