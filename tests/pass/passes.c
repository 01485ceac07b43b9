/* Passes held to what they claim, on any graph:
 *
 *	passes each FILE...     each pass alone keeps the results, and once more finds nothing to do
 *	passes pairs FILE...    so does each ordered pair
 *
 * before selection and after it (cpu, layouts chosen). A line of TAP for each file; passes that change what a
 * graph computes are left out. */
#include "../../lib/target.h"
#include "../../tools/gg-opt/verify.h"
#include "../unit/tap.h"
#include <stdlib.h>
#include <string.h>

#define X(NAME) extern const gg_pass gg_pass_##NAME;
#include "passes.inc"
#undef X

static const gg_pass *const passes[] = {
#define X(NAME) &gg_pass_##NAME,
#include "passes.inc"
#undef X
};
enum { PASSES = sizeof passes / sizeof *passes, SAMPLES = 2 };

static struct gg_rules *rules[PASSES]; /* compiled once */

typedef struct test {
	gg_diag d;
	verify *v;
	size_t changed;    /* passes, or pairs, that found something to do */
	const char *twice; /* the last pass that was not done after one run */
} test;

/* Applies pass k; how many rewrites, -1: it failed after some, which is reported. A pass may decline a graph
 * that it is not for. */
static int64_t run(test *t, gg_model *m, int k, step *s)
{
	gg_map ops = {0};
	gg_diag silent = {.silent = true, .quiet = true};
	int64_t left = -1;
	*s = (step){.pass = passes[k], .run.rules = rules[k]};
	step_find_ops(m, &ops);
	bool good = step_run(s, &silent, m, &ops, &left, false);
	gg_map_fini(&ops);
	rules[k] = s->run.rules;
	free(s->run.refusal);
	s->run.refusal = 0;
	if (!good && s->run.applied)
		return gg_error(&t->d, GG_DIFFERENT, "pass '%s' breaks the graph", s->pass->name) - 1;
	return (int64_t)s->run.applied;
}

/* Pass k on a copy of the graph in `bytes`, compared with it. *after, where the pass did something: what it
 * left. */
static bool try_pass(test *t, const gg_buf *bytes, gg_model *like, int k, gg_buf *after)
{
	step s, again;
	gg_model *m = model_load(&t->d, bytes, like);
	int64_t n = m ? run(t, m, k, &s) : -1;
	bool good = n >= 0;
	if (n > 0) {
		t->changed++;
		good = verify_pass(t->v, &t->d, &s, m) && model_save(&t->d, m, after);
		n = good ? run(t, m, k, &again) : 0;
		good = good && n >= 0;
		if (n > 0)
			t->twice = passes[k]->name;
	}
	gg_model_free(m);
	return good;
}

static bool start(test *t, const gg_buf *bytes, gg_model *like)
{
	gg_model *m = model_load(&t->d, bytes, like);
	bool good = m && verify_start(t->v, &t->d, m);
	gg_model_free(m);
	return good;
}

/* Each pass, and with `deep` each pass behind it. */
static bool each(test *t, const gg_buf *bytes, gg_model *like, bool deep)
{
	bool good = start(t, bytes, like);
	for (int k = 0; good && k < PASSES; k++) {
		gg_buf after = {0};
		if (passes[k]->interface)
			continue;
		good = try_pass(t, bytes, like, k, &after);
		if (!good)
			gg_note(&t->d, "that was pass '%s'", passes[k]->name);
		if (good && after.p && deep && !(good = each(t, &after, like, false)))
			gg_note(&t->d, "behind pass '%s'", passes[k]->name);
		if (good && after.p)
			good = start(t, bytes, like);
		gg_buf_fini(&after);
	}
	return good;
}

static bool selected(test *t, gg_model *m, bool deep)
{
	gg_buf bytes = {0};
	gg_select_options o = {.target = "cpu", .precision = "strict", .layout = "auto"};
	gg_diag silent = {.silent = true, .quiet = true};
	bool good = true;
	if (!m->target && gg_select(&silent, m, &o))
		good = model_save(&t->d, m, &bytes) && each(t, &bytes, m, deep);
	gg_buf_fini(&bytes);
	return good;
}

/* Of a golden case the input: what stands before its result. */
static void cut_golden(gg_source *s)
{
	for (size_t i = 0; i + 6 < s->len && !s->mapped; i++)
		if (s->p[i] == '\n' &&
		    (!strncmp(s->p + i, "\n# want", 7) || !strncmp(s->p + i, "\n# err", 6)))
			s->len = i + 1;
}

static void take_file(const char *path, bool deep)
{
	test t = {.d = {.tool = "passes", .where = path, .quiet = true}, .v = verify_new(SAMPLES)};
	gg_diag silent = {.silent = true, .quiet = true};
	gg_source s, text;
	gg_model *m = 0;
	gg_buf bytes = {0};
	if (!gg_source_open(&t.d, &s, path))
		exit(1);
	text = s;
	text.mapped = false;
	if (s.len && s.p[0] == '#')
		cut_golden(&text);
	if (gg_read(&silent, &text, &m) > 0) {
		t.d.quiet = false;
		bool good = model_save(&t.d, m, &bytes) && each(&t, &bytes, m, deep) && selected(&t, m, deep);
		if (t.twice)
			fprintf(stderr, "# %s: pass '%s' finds more to do when run again\n", path, t.twice);
		ok(good && !t.twice, "%s: %zu", path, t.changed);
	}
	gg_model_free(m);
	gg_buf_fini(&bytes);
	gg_source_close(&s);
	verify_free(t.v);
}

int main(int argc, char **argv)
{
	bool deep = argc > 1 && !strcmp(argv[1], "pairs");
	for (int i = 2; i < argc; i++)
		take_file(argv[i], deep);
	for (int k = 0; k < PASSES; k++)
		gg_rules_free(rules[k]);
	return done();
}
