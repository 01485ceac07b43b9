/* gg-run: inputs in, steps, outputs out. */
#include "run.h"

#include "../../lib/comm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	INPUT = 1,
	INPUTS,
	OUTPUT,
	OUTPUTS,
	DATA,
	BATCH,
	SHUFFLE,
	STEPS,
	EPOCHS,
	EVAL_EVERY,
	EVAL,
	EVAL_DATA,
	HOLD_OUT,
	PRINT,
	PROGRESS,
	SUMMARY,
	SUMMARY_EVERY,
	TEST,
	EXPECT,
	COMPARE,
	RTOL,
	ATOL,
	REPEAT,
	WARMUP,
	DURATION,
	LOOP_SINK,
	JSON,
	SEED,
	FILL,
	SHAPE,
	THREADS,
	CHECK_FINITE,
	POISON,
	SAVE,
	SAVE_EVERY,
	LOAD_STATE,
	LIST_IO,
	DEVICES,
	DESCRIBE,
	WORLD,
	TARGET,
	PROFILE,
	DUMP,
	MEMORY
};

static const gg_option options[] = {
    {TARGET, "target", 0, "NAME", "where it runs: ref, cpu (default), cuda"},
    {INPUT, "input", 0, "NAME=FILE", "the value of an input or initialiser (.npy or .pb)"},
    {INPUTS, "inputs", 0, "DIR", "inputs from DIR/input_K.npy or .pb"},
    {OUTPUT, "output", 0, "NAME=FILE", "write an output, or any value, as .npy"},
    {OUTPUTS, "outputs", 0, "DIR", "write all outputs as DIR/output_K.npy"},
    {DATA, "data", 0, "NAME=FILE",
     "a slice or a batch of FILE for each step: .npy, .npz[:ARRAY], or a folder"},
    {BATCH, "batch", 0, "N", "samples of a batch, where the input does not say"},
    {SHUFFLE, "shuffle", 0, "SEED", "samples in a new random order each time through"},
    {STEPS, "steps", 0, "N", "run N steps (default 1)"},
    {EPOCHS, "epochs", 0, "N", "run until the data have been used N times, in all"},
    {EVAL_EVERY, "eval-every", 0, "N", "look at held-out data after each N steps, and at the end"},
    {HOLD_OUT, "hold-out", 0, "K", "each K-th sample of --data is held out"},
    {EVAL_DATA, "eval-data", 0, "NAME=FILE", "held-out data of their own"},
    {EVAL, "eval", 0, "FILE", "the graph that looks at them (default: this one, its state put back)"},
    {PRINT, "print", 0, "NAME", "print this value after each step: step, tab, value"},
    {PROGRESS, "progress", 0, NULL, "tell on stderr how far the steps are"},
    {SUMMARY, "summary", 0, "DIR",
     "write what the graph's summary ops read to an event file for TensorBoard"},
    {SUMMARY_EVERY, "summary-every", 0, "N", "after each N steps only"},
    {TEST, "test", 0, "DIR", "inputs from DIR, outputs compared with DIR/output_K"},
    {EXPECT, "expect", 0, "NAME=FILE", "compare this value with FILE"},
    {COMPARE, "compare", 0, "ref", "run on ref too and compare outputs and state"},
    {RTOL, "rtol", 0, "X", "relative tolerance (default by dtype: f32 1e-3)"},
    {ATOL, "atol", 0, "X", "absolute tolerance (default by dtype: f32 1e-5)"},
    {REPEAT, "repeat", 0, "N", "run the step N times and print times; state is put back before each"},
    {WARMUP, "warmup", 0, "N", "runs before those (default 1)"},
    {DURATION, "duration", 0, "S", "repeat for S seconds"},
    {LOOP_SINK, "loop-sink", 0, "N",
     "with --repeat: N steps a run, their inputs where the first one left them; times are of one step"},
    {JSON, "json", 0, NULL, "times, or the lines of --print, as JSON"},
    {SEED, "seed", 0, "N", "seed of random nodes and of filled inputs (default 0)"},
    {FILL, "fill", 0, "HOW", "inputs not given: normal (default), ones, zeros or range"},
    {SHAPE, "shape", 0, "NAME=N,N", "the shape of an input"},
    {THREADS, "threads", 0, "N", "threads (default: GG_NUM_THREADS, else all CPUs)"},
    {PROFILE, "profile", 0, "FILE", "write a trace of what ran when, for chrome://tracing or Perfetto"},
    {DUMP, "dump", 0, "DIR|GLOB=DIR", "write every value, or those whose names match, as DIR/NAME.npy"},
    {CHECK_FINITE, "check-finite", 0, NULL, "stop at the first node that gives inf or NaN (exit 1)"},
    {MEMORY, "memory", 0, NULL, "print what the device's memory holds at the end"},
    {POISON, "poison", 0, NULL, "fill unwritten and freed memory with NaN patterns"},
    {SAVE, "save", 0, "FILE", "write the graph with its updated state"},
    {SAVE_EVERY, "save-every", 0, "N", "write it after each N steps too"},
    {LOAD_STATE, "load-state", 0, "FILE", "take the state from a graph that --save wrote"},
    {WORLD, "world", 0, "W", "run W ranks in one process, on ref; results are NAME.rK"},
    {LIST_IO, "list-io", 0, NULL, "list inputs, outputs and state, and stop"},
    {DEVICES, "devices", 0, NULL, "list the targets of this machine, and stop"},
    {DESCRIBE, "describe-device", 0, NULL,
     "print what describes its device, for gg-select --target=cuda:FILE, and stop"},
    {0},
};

static pair take_pair(gg_tool *t, job *j, const char *option)
{
	char *s = gg_strdup(&j->a, t->value), *eq;
	pair p = {0};

	if (*s == '\'' || *s == '"') { /* the name is quoted: it ends at its quote */
		char *end = strchr(s + 1, *s);
		eq = end ? strchr(end, '=') : NULL;
	} else {
		eq = strchr(s, '=');
	}
	if (!eq || eq == s || (!eq[1] && strcmp(option, "shape")))
		gg_usage(t, "--%s takes NAME=%s, not '%s'", option,
		         strcmp(option, "shape") ? "FILE" : "N,N,...", t->value);
	*eq = 0;
	p.name = gg_unquote(&j->a, s);
	p.file = eq + 1;
	return p;
}

static int64_t take_int(gg_tool *t, const char *option, int64_t min)
{
	int64_t x;

	if (!gg_parse_int(t->value, &x) || x < min)
		gg_usage(t, "--%s takes a number from %lld on, not '%s'", option, (long long)min, t->value);
	return x;
}

static double take_float(gg_tool *t, const char *option)
{
	double x;

	if (!gg_parse_float(t->value, &x) || !(x >= 0))
		gg_usage(t, "--%s takes a number from 0 on, not '%s'", option, t->value);
	return x;
}

static fill take_fill(gg_tool *t)
{
	static const char *const names[] = {"normal", "ones", "zeros", "range"};

	for (size_t i = 0; i < 4; i++)
		if (!strcmp(names[i], t->value))
			return (fill)i;
	gg_usage(t, "--fill takes normal, ones, zeros or range, not '%s'", t->value);
}

static void add(pairs *l, pair p)
{
	static gg_arena kept; /* as long as the process, like all options */

	l->p = gg_grow_in(&kept, l->p, l->n, &l->cap, sizeof *l->p);
	l->p[l->n++] = p;
}

static const char *take_target(gg_tool *t)
{
	if (!gg_target_find(t->value))
		gg_usage(t, "--target takes ref, cpu or cuda, not '%s'", t->value);
	return t->value;
}

/* Without a pattern: all values. */
static pair take_dump(gg_tool *t, job *j)
{
	return strchr(t->value, '=') ? take_pair(t, j, "dump") : (pair){.name = "*", .file = t->value};
}

/* What one result wrote the next one would write over; a device or a pipe takes all. */
static void check_results(gg_tool *t, const pairs *l)
{
	for (size_t i = 0; i < l->n; i++)
		for (size_t k = 0; k < i; k++)
			if (!strcmp(l->p[i].file, l->p[k].file) && strncmp(l->p[i].file, "/dev/", 5))
				gg_usage(t, "--output: '%s' and '%s' would both be written to '%s'",
				         l->p[k].name, l->p[i].name, l->p[i].file);
}

static bool take_files(gg_tool *t, job *j, int id)
{
	switch (id) {
	case INPUT:
		add(&j->input, take_pair(t, j, "input"));
		break;
	case OUTPUT:
		add(&j->output, take_pair(t, j, "output"));
		break;
	case DATA:
		add(&j->data, take_pair(t, j, "data"));
		break;
	case EVAL_DATA:
		add(&j->eval_data, take_pair(t, j, "eval-data"));
		break;
	case EVAL:
		j->eval = t->value;
		break;
	case EXPECT:
		add(&j->expect, take_pair(t, j, "expect"));
		break;
	case DUMP:
		add(&j->dump, take_dump(t, j));
		j->exec.apart = true;
		break;
	case PROFILE:
		j->trace = t->value;
		break;
	case SHAPE:
		add(&j->shape, take_pair(t, j, "shape"));
		break;
	case PRINT:
		add(&j->print, (pair){.name = gg_unquote(&j->a, t->value)});
		break;
	case INPUTS:
		j->inputs = t->value;
		break;
	case OUTPUTS:
		j->outputs = t->value;
		break;
	case TEST:
		j->test = t->value;
		break;
	case SUMMARY:
		j->summary = t->value;
		break;
	case SAVE:
		j->save = t->value;
		break;
	case LOAD_STATE:
		j->load_state = t->value;
		break;
	default:
		return false;
	}
	return true;
}

static void take(gg_tool *t, job *j, int id)
{
	switch (id) {
	case TARGET:
		j->target = take_target(t);
		break;
	case BATCH:
		j->batch = take_int(t, "batch", 1);
		break;
	case SHUFFLE:
		j->shuffle = take_int(t, "shuffle", 0);
		break;
	case STEPS:
		j->steps = take_int(t, "steps", 1);
		break;
	case WORLD:
		j->world = take_int(t, "world", 1);
		if (j->world > GG_MAX_WORLD)
			gg_usage(t, "--world takes up to %d ranks", GG_MAX_WORLD);
		break;
	case EPOCHS:
		j->epochs = take_int(t, "epochs", 1);
		break;
	case EVAL_EVERY:
		j->eval_every = take_int(t, "eval-every", 1);
		break;
	case HOLD_OUT:
		j->hold_out = take_int(t, "hold-out", 2);
		break;
	case SAVE_EVERY:
		j->save_every = take_int(t, "save-every", 1);
		break;
	case SUMMARY_EVERY:
		j->summary_every = take_int(t, "summary-every", 1);
		break;
	case PROGRESS:
		j->progress = true;
		break;
	case RTOL:
		j->rtol = take_float(t, "rtol");
		break;
	case ATOL:
		j->atol = take_float(t, "atol");
		break;
	case REPEAT:
		j->repeat = take_int(t, "repeat", 1);
		j->timed = true;
		break;
	case WARMUP:
		j->warmup = take_int(t, "warmup", 0);
		break;
	case DURATION:
		j->duration = take_float(t, "duration");
		if (j->duration > 1e9)
			gg_usage(t, "--duration takes a number of seconds, not '%s'", t->value);
		j->timed = true;
		break;
	case LOOP_SINK:
		j->sink = take_int(t, "loop-sink", 1);
		break;
	case JSON:
		j->json = true;
		break;
	case SEED:
		j->exec.seed = (uint64_t)take_int(t, "seed", 0);
		break;
	case FILL:
		j->fill = take_fill(t);
		break;
	case THREADS:
		j->exec.threads = (int)take_int(t, "threads", 1);
		break;
	case CHECK_FINITE:
		j->exec.check_finite = true;
		break;
	case MEMORY:
		j->memory = true;
		break;
	case POISON:
		j->exec.poison = true;
		break;
	case LIST_IO:
		j->list_io = true;
		break;
	case DEVICES:
		j->devices = true;
		break;
	case DESCRIBE:
		j->describe = true;
		break;
	case COMPARE:
		if (strcmp(t->value, "ref"))
			gg_usage(t, "--compare takes ref, not '%s'", t->value);
		j->compare_ref = true;
		break;
	}
}

/* ---- running ----------------------------------------------------------------------------------- */
static gg_exec *open_exec(job *j, gg_model *m) { return gg_exec_new(&j->t->d, m, &j->exec); }

static bool keep_values(job *j, pairs *l, const char *option)
{
	for (size_t i = 0; i < l->n; i++) {
		gg_value *v = l->p[i].v = gg_find_value(j->m->main, l->p[i].name);
		if (!v)
			return gg_error(&j->t->d, GG_USAGE, "--%s: the graph has no value '%s'", option,
			                l->p[i].name);
		if (v->kind == GG_TEMP && !gg_exec_keep(j->x, v))
			return false;
	}
	return true;
}

static bool prepare(job *j)
{
	j->x = open_exec(j, j->m);
	if (!j->x || !read_position(j, j->m) || (j->load_state && !load_state(j, j->x, j->m)))
		return false;
	if (!keep_values(j, &j->output, "output") || !keep_values(j, &j->print, "print") ||
	    !keep_values(j, &j->expect, "expect"))
		return false;
	if (!override_params(j, j->x))
		return false;
	if (!j->compare_ref)
		return true;
	if (!(j->ref = read_again(j)))
		return false;
	gg_forget_choices(j->ref);
	if (!bind_world(j, j->ref))
		return false;
	j->ref_exec = open_exec(j, j->ref);
	return j->ref_exec && (!j->load_state || load_state(j, j->ref_exec, j->ref)) &&
	       override_params(j, j->ref_exec);
}

static bool run_timed(job *j, const gg_tensor *in, gg_buf *text)
{
	gg_tensor *state = gg_xcalloc(j->m->main->nstate + 1, sizeof *state);
	double *seconds = NULL, start = 0;
	size_t n = 0, cap = 0;
	int64_t steps = j->sink > 0 ? j->sink : 1;
	bool good = keep_state(j, state);

	look_at_times_only(j);
	for (int64_t i = 0; i < j->warmup && good; i++)
		good = put_back(j, state) && gg_exec_run_n(j->x, in, steps, j->sink && i);
	start = now();
	while (good && (j->repeat ? n < (size_t)j->repeat : n == 0 || now() - start < j->duration)) {
		double from;
		if (!(good = put_back(j, state)))
			break;
		from = now();
		good = gg_exec_run_n(j->x, in, steps, j->sink && (n || j->warmup));
		GG_PUSH(seconds, n, cap, (now() - from) / (double)steps);
		if (j->repeat && j->duration > 0 && now() - start >= j->duration)
			break;
	}
	if (good)
		timing(j, text, seconds, n);
	drop_state(j, state);
	free(seconds);
	return good;
}

/* ---- results ----------------------------------------------------------------------------------- */
static bool write_outputs(job *j, const gg_tensor *out)
{
	for (size_t i = 0; i < j->output.n; i++) {
		gg_tensor t;
		if (!value_now(j, j->output.p[i].v, out, &t) ||
		    !gg_npy_write(&j->t->d, rank_path(j, j->output.p[i].file), &t))
			return false;
	}
	if (!j->outputs)
		return true;
	if (mkdir(j->outputs, 0777) && errno != EEXIST)
		return gg_error(&j->t->d, GG_MACHINE, "cannot make the folder '%s': %s", j->outputs,
		                strerror(errno));
	for (size_t i = 0; i < j->m->main->nout; i++)
		if (!gg_npy_write(&j->t->d,
		                  rank_path(j, gg_printf(&j->a, "%s/output_%zu.npy", j->outputs, i)),
		                  &out[i]))
			return false;
	return true;
}

static bool expect(job *j, const char *what, const char *file, gg_value *v, const gg_tensor *got,
                   gg_buf *text)
{
	gg_tensor want;
	bool good = gg_tensor_read(&j->t->d, file, (gg_dtype)v->dtype, &want) &&
	            compare(j, what, got, &want, text);

	free(want.data);
	return good;
}

/* All are compared, so that one look shows every difference. */
static bool test_outputs(job *j, const gg_tensor *out, gg_buf *text)
{
	gg_graph *g = j->m->main;
	size_t found = 0;
	bool good = true;

	for (size_t i = 0; i < g->nout; i++) {
		gg_value *v = g->out[i]->value;
		const char *file = gg_printf(&j->a, "%s/output_%zu.npy", j->test, i);
		if (access(file, F_OK))
			file = gg_printf(&j->a, "%s/output_%zu.pb", j->test, i);
		if (access(file, F_OK)) {
			gg_note(&j->t->d, "%s: no output_%zu.npy or .pb: output '%s' is not compared",
			        j->test, i, v->name);
			continue;
		}
		found++;
		good &= expect(j, gg_printf(&j->a, "output '%s'", v->name), file, v, &out[i], text);
	}
	if (!found)
		return gg_error(&j->t->d, GG_MALFORMED, "%s: no output_0.npy or .pb to compare with",
		                j->test);
	return good;
}

static bool compare_with_ref(job *j, const gg_tensor *out, const gg_tensor *ref_out, gg_buf *text)
{
	gg_graph *g = j->m->main;
	bool good = true;

	for (size_t i = 0; i < g->nout; i++)
		good &= compare(j, gg_printf(&j->a, "output '%s'", g->out[i]->value->name), &out[i],
		                &ref_out[i], text);
	for (size_t i = 0; i < g->nstate; i++) {
		gg_value *v = g->state[i]->param, *r = gg_find_value(j->ref->main, v->name);
		gg_tensor a, b;
		if (r && gg_exec_get_param(j->x, v, &a) && gg_exec_get_param(j->ref_exec, r, &b))
			good &= compare(j, gg_printf(&j->a, "state '%s'", v->name), &a, &b, text);
	}
	return good;
}

static bool results(job *j, const gg_tensor *out, const gg_tensor *ref_out, gg_buf *text)
{
	bool quiet = j->print.n || j->output.n || j->outputs || j->test || j->expect.n || j->compare_ref ||
	             j->timed;
	bool good = write_outputs(j, out);
	gg_buf *say = j->print.n ? NULL : text;

	for (size_t i = 0; i < j->expect.n; i++) {
		gg_tensor t;
		pair *p = &j->expect.p[i];
		good &= value_now(j, p->v, out, &t) &&
		        expect(j, gg_printf(&j->a, "'%s'", rank_name(j, p->name)),
		               rank_path_if_there(j, p->file), p->v, &t, say);
	}
	if (j->test)
		good &= test_outputs(j, out, say);
	if (j->compare_ref) {
		good &= end_looking(j, say);
		good &= compare_with_ref(j, out, ref_out, say);
	}
	for (size_t i = 0; i < j->m->main->nout && !quiet; i++)
		summary(text, rank_name(j, j->m->main->out[i]->value->name), &out[i]);
	return good;
}

bool run_job(job *j)
{
	gg_graph *g = j->m->main;
	run_buffers b = {.in = gg_xcalloc(g->nin + 1, sizeof *b.in),
	                 .next = gg_xcalloc(g->nin + 1, sizeof *b.next),
	                 .out = gg_xcalloc(g->nout + 1, sizeof *b.out),
	                 .ref_out = gg_xcalloc(g->nout + 1, sizeof *b.ref_out),
	                 .ready = -1};
	gg_buf text = {0};
	feed *f = open_feeds(j);
	bool good = f && prepare(j) && start_looking(j) && run_steps(j, f, &b, &text);

	if (good && j->done > j->first) {
		good = results(j, b.out, b.ref_out, &text);
		good = good && (!j->timed || run_timed(j, b.in, &text));
		if (good && j->memory)
			memory_lines(j, &text);
		good = (!j->profile || profile_write(j->profile, rank_path(j, j->trace))) && good;
		if (j->say && text.len)
			gg_buf_add(j->say, text.p, text.len);
		good = (j->say || !text.len || gg_emit(j->t, &text)) && good;
	}
	close_feeds(j, f);
	gg_exec_free(j->x);
	gg_exec_free(j->ref_exec);
	profile_close(j->profile);
	if (j->ref)
		gg_model_free(j->ref);
	gg_buf_fini(&text);
	free(b.in);
	free(b.next);
	free(b.out);
	free(b.ref_out);
	return good;
}

gg_model *read_model(job *j, const char *path)
{
	gg_diag *d = &j->t->d;
	gg_model *m = NULL, *second = NULL;
	int got;

	if (!gg_open(j->t, &j->source, path))
		return NULL;
	d->where = j->source.name;
	got = gg_read(d, &j->source, &m);
	if (got == 0)
		gg_error(d, GG_MALFORMED, "it holds no graph");
	if (got <= 0)
		return NULL;
	got = gg_read(d, &j->source, &second);
	if (got > 0) {
		gg_error(d, GG_MALFORMED, "more than one graph, where one is wanted");
		gg_model_free(second);
	}
	if (got == 0)
		return m;
	gg_model_free(m);
	return NULL;
}

int main(int argc, char **argv)
{
	static gg_tool t = {
	    .name = "gg-run",
	    .summary =
	        "run a graph; one that is not yet selected or built goes through gg-select and gg-build",
	    .operands = "[FILE]",
	    .options = options,
	    .examples =
	        "  gg-parse resnet50.onnx | gg-opt | gg-run --input data=image.npy --output prob=prob.npy\n"
	        "  gg-parse m.onnx | gg-run --target=ref --test test_data\n"
	        "  gg-run m.plan --data x=x.npy --data y=y.npy --batch=32 --steps=100 --print=loss\n"
	        "  gg-run train.plan --data x=x.npy --data y=y.npy --batch=32 --shuffle=1 --epochs=10 "
	        "--save=t.gg\n"
	        "  gg-run parallel.gg --target=ref --world=3 --data x=x.npy --steps=10 --print=loss\n"
	        "  gg-run m.plan --repeat=100 --warmup=10 --json\n",
	};
	static job j = {.t = &t, .warmup = 1, .shuffle = -1, .rtol = -1, .atol = -1};
	bool good;

	gg_args_start(&t, argc, argv);
	for (int id; (id = gg_args_next(&t));)
		if (!take_files(&t, &j, id))
			take(&t, &j, id);
	if (j.devices || j.describe) {
		if (j.devices)
			list_devices(&j);
		else
			describe_device(&j);
		return gg_finish(&t);
	}
	if (j.timed && (j.steps || j.epochs))
		gg_usage(
		    &t,
		    "--repeat and --duration time one step again and again: --steps and --epochs do not go "
		    "with them, --loop-sink does");
	if (!j.steps)
		j.steps = 1;
	check_results(&t, &j.output);
	if (j.sink && !j.timed)
		gg_usage(&t, "--loop-sink goes with --repeat or --duration");
	if (j.json && !j.timed && !j.print.n)
		gg_usage(&t, "--json is of times or values: it goes with --repeat, --duration or --print");
	if (j.epochs && !j.data.n)
		gg_usage(&t, "--epochs goes with --data");
	if (j.save_every && !j.save)
		gg_usage(&t, "--save-every goes with --save");
	if ((j.eval || j.eval_data.n) && !j.eval_every)
		gg_usage(&t, "--eval and --eval-data go with --eval-every");
	if (j.summary_every && !j.summary)
		gg_usage(&t, "--summary-every goes with --summary");
	if (j.hold_out && (!j.data.n || j.eval_data.n))
		gg_usage(&t, "--hold-out goes with --data, and not with --eval-data");
	if (j.eval_every && !j.eval_data.n && !j.hold_out)
		gg_usage(&t, "--eval-every goes with --hold-out or --eval-data");
	if ((j.batch || j.shuffle >= 0) && !j.data.n)
		gg_usage(&t, "--batch and --shuffle go with --data");
	if (j.world > 1 && (!j.target || strcmp(j.target, "ref")))
		gg_usage(&t, "--world goes with --target=ref");
	if (j.world > 1 && (j.timed || j.compare_ref || j.json || j.eval_every || j.summary || j.save_every))
		gg_usage(&t,
		         "--world does not go with --repeat, --duration, --compare, --json, --eval-every, "
		         "--summary or --save-every");
	if (t.nfile > 1)
		gg_usage(&t, "one graph is wanted, not %zu", t.nfile);
	j.m = read_model(&j, t.file[0]);
	good = j.m && gg_prepare_model(&t, j.m) && set_shapes(&j);
	if (good)
		good = j.list_io     ? list_io(&j)
		       : j.world > 1 ? run_world(&j)
		                     : bind_world(&j, j.m) && make_runnable(&j) && run_job(&j);
	if (!good && !t.d.status)
		gg_bug("a failure was not reported");
	if (j.m)
		gg_model_free(j.m);
	gg_arena_fini(&j.a);
	if (good)
		die_of_signal();
	return gg_finish(&t);
}
