/* The steps of a run: data in, values printed, state saved, held-out data looked at; what ends them
 * early. */
#include "run.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* An output as the step gave it, though it be a parameter that has changed since. */
bool value_now(job *j, gg_value *v, const gg_tensor *out, gg_tensor *t)
{
	gg_graph *g = j->m->main;

	for (size_t i = 0; i < g->nout; i++)
		if (g->out[i]->value == v) {
			*t = out[i];
			return true;
		}
	return gg_exec_value(j->x, v, t);
}

/* ---- signals: the first one ends the run after its step, the second at once ------------------- */
static volatile sig_atomic_t caught;

static void catch (int sig) { caught = sig; }

static void watch_signals(void)
{
	struct sigaction a = {.sa_handler = catch, .sa_flags = (int)SA_RESETHAND};
	static const int sig[] = {SIGINT, SIGTERM};

	for (size_t i = 0; i < 2; i++) {
		struct sigaction old;
		if (!sigaction(sig[i], NULL, &old) && old.sa_handler != SIG_IGN)
			sigaction(sig[i], &a, NULL);
	}
}

void die_of_signal(void)
{
	if (!caught)
		return;
	signal((int)caught, SIG_DFL);
	raise((int)caught);
}

/* ---- what is printed --------------------------------------------------------------------------- */
static bool put_lines(job *j, gg_buf *text)
{
	if (j->t->output || j->say)
		return true; /* whole or not at all */
	if (!gg_emit(j->t, text))
		return false;
	text->len = 0;
	return true;
}

static bool print_step(job *j, int64_t step, const gg_tensor *values, gg_buf *out)
{
	gg_buf_printf(out, j->json ? "{\"step\":%lld" : "%lld", (long long)step);
	if (j->world > 1)
		gg_buf_printf(out, "\tr%d", job_rank(j));
	for (size_t i = 0; i < j->print.n; i++) {
		gg_tensor t;
		if (!value_now(j, j->print.p[i].v, values, &t))
			return false;
		if (j->json)
			print_json(out, j->print.p[i].name, &t);
		else
			print_values(out, &t);
	}
	gg_buf_str(out, j->json ? "}\n" : "\n");
	return put_lines(j, out);
}

/* The loss, where the graph has one: a float scalar output of that name. */
static const gg_tensor *find_loss(const job *j, const gg_tensor *out)
{
	for (size_t i = 0; i < j->m->main->nout; i++)
		if (!strcmp(j->m->main->out[i]->value->name, "loss") && gg_count(&out[i]) == 1 &&
		    gg_dtype_class(out[i].dtype) == 'F')
			return &out[i];
	return NULL;
}

static bool has_nan(const gg_tensor *t)
{
	int64_t n = gg_count(t);
	const float *x = t->data;

	if (gg_dtype_class(t->dtype) != 'F')
		return false;
	for (int64_t i = 0; i < n; i++)
		if (t->dtype == GG_F32 ? x[i] != x[i] : isnan(gg_get_f64(t, i)))
			return true;
	return false;
}

/* What makes a parameter NaN need not reach the loss: convolutions with a Relu in them make 0 of it. Only
 * where the parameters are at hand. */
static gg_value *find_bad_state(job *j)
{
	gg_graph *g = j->m->main;
	bool near = !j->m->target || strncmp(j->m->target, "cuda", 4);
	gg_tensor t;

	for (size_t i = 0; near && i < g->nstate; i++)
		if (gg_exec_get_param(j->x, g->state[i]->param, &t) && has_nan(&t))
			return g->state[i]->param;
	return NULL;
}

/* ---- the last good state ------------------------------------------------------------------------ */
/* A copy of the state, for a step that fails: of each step where that costs little, else of a step now
 * and then. The steps from there to the last good one are run again. Several ranks could only do that
 * together: they keep every step's, and the one before, as one may have ended the step that failed on
 * another. */
typedef struct kept {
	gg_tensor *state, *before;
	int64_t done;
	double at, cost;
} kept;
enum { KEEP_SHARE = 50 }; /* copying takes at most one part in so many of the time */

static bool keep_good(job *j, kept *k)
{
	double start = now();
	gg_tensor *last = k->state;

	if (!j->save || !j->m->main->nstate ||
	    (k->state && j->world < 2 && start - k->at < KEEP_SHARE * k->cost))
		return true;
	if (j->world > 1) {
		k->state = k->before;
		k->before = last;
	}
	k->state = k->state ? k->state : gg_xcalloc(j->m->main->nstate, sizeof *k->state);
	if (!keep_state(j, k->state))
		return false;
	k->done = j->done;
	k->at = now();
	k->cost = k->at - start;
	return true;
}

static bool run_again(job *j, feed *f, run_buffers *b, const kept *k)
{
	if (!put_back(j, k->state))
		return false;
	gg_exec_start_at(j->x, (uint64_t)k->done);
	for (int64_t step = k->done; step < j->done; step++) {
		next_step(j, f, step);
		for (size_t i = 0; i < j->m->main->nin; i++)
			b->in[i] = f[i].t;
		if (!gg_exec_run(j->x, b->in, b->out))
			return false;
	}
	return true;
}

/* What --save names, for messages. */
static const char *where_it_is(job *j)
{
	const char *path = rank_path(j, j->save);

	return j->saved ? gg_printf(&j->a, "'%s' holds the state after %lld steps", path, (long long)j->saved)
	                : gg_printf(&j->a, "'%s' is not written", path);
}

/* The state of all ranks is that of the one that failed first. */
static void step_back(job *j, kept *k)
{
	if (*j->failed > j->done)
		*j->failed = j->done;
	if (*j->failed + 1 != j->done || !k->before)
		return;
	gg_tensor *ahead = k->state;
	k->state = k->before;
	k->before = ahead;
	k->done = --j->done;
}

/* After a step that failed: what --save names gets the last good state, if it is not there already. */
static void save_good(job *j, feed *f, run_buffers *b, kept *k)
{
	if (j->world > 1 && k->state)
		step_back(j, k);
	if (k->state && j->done > j->saved && j->done > j->first && run_again(j, f, b, k) && save_state(j))
		j->saved = j->done;
	if (j->save && j->m->main->nstate)
		gg_note(&j->t->d, "%s", where_it_is(j));
}

static void drop_good(job *j, kept *k)
{
	if (k->state)
		drop_state(j, k->state);
	if (k->before)
		drop_state(j, k->before);
}

static bool check_loss(job *j, const gg_tensor *out)
{
	const gg_tensor *t = j->m->main->nstate ? find_loss(j, out) : NULL;
	bool good = !t || isfinite(gg_get_f64(t, 0));
	gg_value *bad = t && good ? find_bad_state(j) : NULL;

	if (!t || (good && !bad))
		return true;
	if (bad)
		gg_error(&j->t->d, GG_DIFFERENT, "the parameter '%s' is nan after it", bad->name);
	else /* nan has a sign, which nobody wants to know */
		gg_error(&j->t->d, GG_DIFFERENT,
		         "the loss 'loss' is %g: --check-finite names the node it came from",
		         isnan(gg_get_f64(t, 0)) ? (double)NAN : gg_get_f64(t, 0));
	return false;
}

/* On a terminal one line that changes, elsewhere a line a second. */
static void show_progress(job *j, int64_t step, int64_t end, const gg_tensor *out)
{
	static double start, last;
	static int64_t from;
	const gg_tensor *loss = find_loss(j, out);
	bool terminal = isatty(2), final = step + 1 == end;
	double t = now();

	if (!start) {
		start = last = t;
		from = step;
		return;
	}
	if (!final && t - last < (terminal ? 0.1 : 1))
		return;
	last = t;
	fprintf(stderr, "%sstep %lld of %lld", terminal ? "\r" : "", (long long)step + 1, (long long)end);
	if (loss)
		fprintf(stderr, ", loss %.4g", gg_get_f64(loss, 0));
	fprintf(stderr, ", %.3g steps/s%s", (double)(step - from) / (t - start),
	        terminal ? final ? "\033[K\n" : "\033[K" : "\n");
}

/* ---- held-out data ------------------------------------------------------------------------------ */
/* Another graph, or this one with its state put back after. */
struct evaluation {
	job j;
	feed *f;
	gg_tensor *in, *out, *state;
	bool own;
};

/* The files of --data, as far as the graph has such inputs. */
static void held_out_data(job *j, evaluation *e)
{
	pairs *to = &e->j.data;

	*to = (pairs){0};
	e->j.hold_out = j->hold_out;
	for (size_t i = 0; i < j->data.n; i++) {
		gg_value *v = gg_find_value(e->j.m->main, j->data.p[i].name);
		if (!v || v->kind != GG_INPUT)
			continue;
		to->p = gg_grow_in(&e->j.a, to->p, to->n, &to->cap, sizeof *to->p);
		to->p[to->n++] = j->data.p[i];
	}
}

evaluation *open_evaluation(job *j)
{
	evaluation *e = gg_xcalloc(1, sizeof *e);

	e->own = j->eval != NULL;
	e->j = (job){.t = j->t,
	             .target = j->target,
	             .batch = j->batch,
	             .shuffle = -1,
	             .exec = j->exec,
	             .fill = j->fill,
	             .data = j->eval_data,
	             .whole = true,
	             .m = j->m,
	             .x = j->x};
	if (e->own) {
		e->j.m = read_model(&e->j, j->eval);
		if (!e->j.m || !gg_prepare_model(j->t, e->j.m) || !make_runnable(&e->j) ||
		    !(e->j.x = gg_exec_new(&j->t->d, e->j.m, &j->exec)))
			return e;
	}
	if (j->hold_out)
		held_out_data(j, e);
	e->f = open_feeds(&e->j);
	e->in = gg_xcalloc(e->j.m->main->nin + 1, sizeof *e->in);
	e->out = gg_xcalloc(e->j.m->main->nout + 1, sizeof *e->out);
	e->state = gg_xcalloc(j->m->main->nstate + 1, sizeof *e->state);
	return e;
}

void close_evaluation(job *j, evaluation *e)
{
	if (!e)
		return;
	if (e->f)
		close_feeds(&e->j, e->f);
	if (e->state)
		drop_state(j, e->state);
	if (e->own) {
		gg_exec_free(e->j.x);
		if (e->j.m)
			gg_model_free(e->j.m);
	}
	gg_arena_fini(&e->j.a);
	free(e->in);
	free(e->out);
	free(e);
}

/* The parameters as they are now, by name. */
static bool give_state(job *j, evaluation *e)
{
	size_t given = 0;

	for (size_t i = 0; i < j->m->main->nstate; i++) {
		gg_value *from = j->m->main->state[i]->param, *to = gg_find_value(e->j.m->main, from->name);
		gg_tensor t;
		if (!to || to->kind != GG_PARAM)
			continue;
		given++;
		if (!gg_exec_get_param(j->x, from, &t) || !gg_exec_set_param(e->j.x, to, &t))
			return false;
	}
	return given ||
	       gg_error(&j->t->d, GG_MALFORMED, "--eval: '%s' has no parameter that is trained", j->eval);
}

static bool run_evaluation(evaluation *e, double *mean, bool *scalar)
{
	gg_graph *g = e->j.m->main;
	int64_t steps = epoch_steps(&e->j, e->f), total = 0;

	for (int64_t s = 0; s < (steps ? steps : 1); s++) {
		int64_t n = next_step(&e->j, e->f, s);
		for (size_t i = 0; i < g->nin; i++)
			e->in[i] = e->f[i].t;
		if (!gg_exec_run(e->j.x, e->in, e->out))
			return false;
		total += n;
		for (size_t i = 0; i < g->nout; i++) {
			scalar[i] = gg_count(&e->out[i]) == 1 &&
			            strchr("FIUB", gg_dtype_class(e->out[i].dtype));
			mean[i] += scalar[i] ? (double)n * gg_get_f64(&e->out[i], 0) : 0;
		}
	}
	for (size_t i = 0; i < g->nout; i++)
		mean[i] /= (double)total;
	return true;
}

/* JSON has no number for nan, and nan's sign nobody wants to know. */
static void put_mean(const job *j, gg_buf *text, const char *name, double mean, bool first)
{
	if (!j->json) {
		gg_buf_printf(text, "\t%s=%.9g", name, isnan(mean) ? (double)NAN : mean);
		return;
	}
	gg_buf_str(text, first ? "" : ",");
	put_quoted(text, name);
	if (isfinite(mean))
		gg_buf_printf(text, ":%.9g", mean);
	else
		gg_buf_str(text, ":null");
}

/* Prints the mean of each scalar output, weighted by samples. */
static bool evaluate(job *j, evaluation *e, gg_buf *text)
{
	gg_graph *g = e->j.m->main;
	double *mean = gg_xcalloc(g->nout + 1, sizeof *mean);
	bool *scalar = gg_xcalloc(g->nout + 1, sizeof *scalar);
	bool good = e->own ? give_state(j, e) : keep_state(j, e->state);
	const char *where = j->t->d.where;
	char place[600];

	snprintf(place, sizeof place, "%s: evaluation", where);
	j->t->d.where = place;
	if (good && !e->own) {
		good = run_evaluation(e, mean, scalar);
		good = put_back(j, e->state) && good;
		gg_exec_start_at(j->x, (uint64_t)j->done);
	} else {
		good = good && run_evaluation(e, mean, scalar);
	}
	j->t->d.where = where;
	gg_buf_printf(text, j->json ? "{\"step\":%lld,\"eval\":{" : "%lld\teval", (long long)j->done);
	for (size_t i = 0, n = 0; i < g->nout; i++)
		if (scalar[i])
			put_mean(j, text, g->out[i]->value->name, mean[i], n++ == 0);
	gg_buf_str(text, j->json ? "}}\n" : "\n");
	free(mean);
	free(scalar);
	return good && put_lines(j, text);
}

/* ---- the loop --------------------------------------------------------------------------------- */
typedef struct coming { /* the step after this one */
	job *j;
	feed *f;
	run_buffers *b;
	int64_t step;
} coming;

static void make_inputs(job *j, feed *f, run_buffers *b, int64_t step)
{
	if (b->ready == step)
		return;
	next_step(j, f, step);
	for (size_t i = 0; i < j->m->main->nin; i++)
		b->next[i] = f[i].t;
	b->ready = step;
}

/* While a device works. */
static bool make_coming(void *arg)
{
	const coming *c = arg;

	make_inputs(c->j, c->f, c->b, c->step);
	return gg_exec_feed(c->j->x, c->b->next);
}

/* Whether somebody looks at the outputs of each step: they are not fetched for nobody. */
static bool each_step(const job *j)
{
	return j->m->main->nstate || j->save || j->print.n || j->summary || j->progress || j->eval_every ||
	       j->dump.n || j->ref_exec || j->exec.check_finite;
}

static bool one_step(job *j, feed *f, run_buffers *b, int64_t step, bool last)
{
	coming next = {j, f, b, step + 1};
	gg_tensor *in = b->in;
	bool good, ask = last || each_step(j);

	make_inputs(j, f, b, step);
	b->in = b->next;
	b->next = in;
	if ((j->ref_exec && !gg_exec_run(j->ref_exec, b->in, b->ref_out)) || !dump_start(j))
		return false;
	gg_exec_meanwhile(j->x, last ? NULL : make_coming, &next);
	good = gg_exec_run(j->x, b->in, ask ? b->out : NULL);
	gg_exec_meanwhile(j->x, NULL, NULL);
	return good && dump_end(j) && (!ask || check_loss(j, b->out));
}

static bool save_now(job *j)
{
	if (!save_state(j)) /* which said why */
		return gg_error(&j->t->d, GG_MACHINE, "its state is not saved: %s", where_it_is(j));
	j->saved = j->done;
	return true;
}

/* The outputs of this step, before an evaluation by the same graph has its own there. */
static void hold_outputs(job *j, gg_tensor *out)
{
	for (size_t i = 0; i < j->m->main->nout; i++) {
		size_t bytes = gg_nbytes(&out[i]);
		void *copy = gg_alloc(&j->a, bytes + 1);
		if (bytes)
			out[i].data = memcpy(copy, out[i].data, bytes);
	}
}

/* What shows how it goes: events, held-out data. */
static bool look_at_step(job *j, evaluation *e, events *v, int64_t end, gg_tensor *out, gg_buf *text)
{
	int64_t n = j->done - j->first;

	if (v && n % (j->summary_every ? j->summary_every : 1) == 0 && !write_events(j, v, j->done - 1))
		return false;
	if (!e || (n % j->eval_every && j->done != end))
		return true;
	if (!e->own && (j->done == end || caught))
		hold_outputs(j, out);
	return evaluate(j, e, text);
}

static bool save_when_due(job *j, int64_t end)
{
	bool due = j->save_every && (j->done - j->first) % j->save_every == 0;

	return !j->save || !(due || j->done == end || caught) || save_now(j);
}

bool run_steps(job *j, feed *f, run_buffers *b, gg_buf *text)
{
	int64_t end;
	const char *where = j->t->d.where;
	evaluation *e = j->eval_every ? open_evaluation(j) : NULL;
	events *v = NULL;
	kept k = {0};
	bool good = (!e || e->f) && (!j->summary || open_events(j, &v));

	if (j->epochs
	        ? __builtin_mul_overflow(j->epochs, epoch_steps(j, f) / (j->world > 1 ? j->world : 1), &end)
	        : __builtin_add_overflow(j->first, j->steps, &end))
		end = INT64_MAX;
	if (good && end <= j->first)
		gg_note(&j->t->d, "%lld steps are done already: the data have been used %lld times",
		        (long long)j->first, (long long)j->epochs);
	if (j->save)
		watch_signals();
	gg_exec_start_at(j->x, (uint64_t)j->first);
	if (j->ref_exec)
		gg_exec_start_at(j->ref_exec, (uint64_t)j->first);
	j->done = j->first;
	for (int64_t step = j->first; good && step < end && !caught; step++) {
		char place[512];
		snprintf(place, sizeof place, "%s: step %lld", where, (long long)step);
		j->t->d.where = end - j->first > 1 ? place : where;
		good = keep_good(j, &k) && one_step(j, f, b, step, step + 1 == end || caught);
		j->done += good;
		if (good && j->print.n)
			good = print_step(j, step, b->out, text);
		if (good && j->progress)
			show_progress(j, step, end, b->out);
		good = good && look_at_step(j, e, v, end, b->out, text);
		if (!good)
			save_good(j, f, b, &k);
		good = good && save_when_due(j, end);
		j->t->d.where = where;
	}
	if (good && caught && j->done < end)
		gg_note(&j->t->d,
		        "stopped after %lld steps: '%s' holds the state, and a run of it goes on from there",
		        (long long)j->done, j->save);
	drop_good(j, &k);
	close_evaluation(j, e);
	return close_events(j, v) && good;
}
