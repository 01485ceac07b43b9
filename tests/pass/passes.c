/* Passes held to what they claim, on any graph:
 *
 *	passes each FILE...           each pass alone keeps the results, and once more finds nothing to do
 *	passes pairs FILE...          so does each ordered pair
 *	passes some SEED P FILE...    so do pairs behind P of 100 first passes
 *	passes random FIRST COUNT     each ordered pair on random graphs, with seeds from FIRST on
 *	passes print SEED             one of these as text
 *
 * before selection and after it (cpu, layouts chosen). A line of TAP for each file; passes that change what a
 * graph computes are left out. */
#include "../../lib/target.h"
#include "../../tools/gg-opt/verify.h"
#include "../random/random.h"
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

/* Options with which a pass has work that it has on the targets here seldom, or never. */
static const struct {
	const char *pass, *option;
} options[] = {{"reduce_precision", "ops=Concat+Gather+Max+Min+Where+Sub"}};

typedef struct test {
	gg_diag d;
	verify *v;
	size_t changed; /* passes, or pairs, that found something to do */
	bool twice;     /* a pass was not done after one run */
} test;

static size_t fired[PASSES];
static int share;     /* of first passes, in percent, behind which all others are tried */
static uint64_t seed; /* which ones */

static bool is_tried(const test *t, int k)
{
	return (int)(gg_uniform(gg_hash(t->d.where, strlen(t->d.where), seed), (uint64_t)k) * 100) < share;
}

static void tell(const test *t, const char *fmt, const char *pass)
{
	fprintf(stderr, "# %s: ", t->d.where);
	fprintf(stderr, fmt, pass);
	putc('\n', stderr);
}

/* Applies pass k; how many rewrites, -1: it failed after some, which is reported. A pass may decline a graph
 * that it is not for. */
static int64_t run(test *t, gg_model *m, int k, step *s)
{
	gg_map ops = {0};
	gg_diag silent = {.silent = true, .quiet = true};
	int64_t left = -1;
	*s = (step){.pass = passes[k], .run.rules = rules[k]};
	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		if (!strcmp(options[i].pass, passes[k]->name)) {
			s->option = (const char **)(uintptr_t)&options[i].option;
			s->noption = 1;
		}
	step_find_ops(m, &ops);
	bool good = step_run(s, &silent, m, &ops, &left, false);
	gg_map_fini(&ops);
	rules[k] = s->run.rules;
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
		fired[k]++;
		good = verify_pass(t->v, &t->d, &s, m) && model_save(&t->d, m, after);
		n = good ? run(t, m, k, &again) : 0;
		if (good)
			step_fini(&again);
		good = good && n >= 0;
		if (n > 0) {
			tell(t, "pass '%s' finds more to do when run again", passes[k]->name);
			t->twice = true;
		}
	}
	if (m)
		step_fini(&s);
	gg_model_free(m);
	return good;
}

static bool start(test *t, const gg_buf *bytes, gg_model *like)
{
	gg_model *m = model_load(&t->d, bytes, like);
	gg_diag silent = {.silent = true, .quiet = true, .where = t->d.where};
	bool good = m && verify_start(t->v, &silent, m);
	gg_model_free(m);
	return good;
}

/* Each pass, and of the first ones some with each pass behind it. */
static bool each(test *t, const gg_buf *bytes, gg_model *like, bool first)
{
	bool good = start(t, bytes, like);
	for (int k = 0; good && k < PASSES; k++) {
		gg_buf after = {0};
		if (passes[k]->interface)
			continue;
		bool had = t->twice, deep = first && is_tried(t, k);
		good = try_pass(t, bytes, like, k, &after);
		if (!good)
			tell(t, "that was pass '%s'", passes[k]->name);
		if (good && after.p && deep)
			good = each(t, &after, like, false);
		if (deep && (!good || had != t->twice))
			tell(t, like->target ? "behind pass '%s', after gg-select" : "behind pass '%s'",
			     passes[k]->name);
		if (good && after.p)
			good = start(t, bytes, like);
		gg_buf_fini(&after);
	}
	return good;
}

static bool selected(test *t, gg_model *m)
{
	gg_buf bytes = {0};
	gg_select_options o = {.target = "cpu", .precision = "strict", .layout = "auto"};
	gg_diag silent = {.silent = true, .quiet = true};
	bool good = true;
	if (!m->target && gg_select(&silent, m, &o))
		good = model_save(&t->d, m, &bytes) && each(t, &bytes, m, true);
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

static void take_model(const char *name, gg_model *m)
{
	test t = {.d = {.tool = "passes", .where = name, .quiet = true}, .v = verify_new(SAMPLES)};
	gg_buf bytes = {0};
	bool good = model_save(&t.d, m, &bytes) && each(&t, &bytes, m, true) && selected(&t, m);
	ok(good && !t.twice, "%s: %zu", name, t.changed);
	fflush(stdout);
	gg_buf_fini(&bytes);
	verify_free(t.v);
}

static void take_file(const char *path)
{
	gg_diag silent = {.silent = true, .quiet = true}, d = {.tool = "passes", .where = path};
	gg_source s, text;
	gg_model *m = 0;
	if (!gg_source_open(&d, &s, path))
		exit(1);
	text = s;
	text.mapped = false;
	if (s.len && s.p[0] == '#')
		cut_golden(&text);
	if (gg_read(&silent, &text, &m) > 0)
		take_model(path, m);
	gg_model_free(m);
	gg_source_close(&s);
}

static void take_random(uint64_t number)
{
	char name[64];
	snprintf(name, sizeof name, "random graph %llu", (unsigned long long)number);
	gg_model *m = random_graph(number);
	take_model(name, m);
	gg_model_free(m);
}

static int print(uint64_t number)
{
	gg_diag d = {.tool = "passes"};
	gg_buf b = {0};
	gg_model *m = random_graph(number);
	bool good = gg_write_text(&d, &b, m, &(gg_text_options){.elide = -1, .new_ids = true});
	fwrite(b.p, 1, b.len, stdout);
	gg_buf_fini(&b);
	gg_model_free(m);
	return !good;
}

/* How well the graphs suit the passes. */
static void tell_fired(void)
{
	for (int k = 0; k < PASSES; k++)
		if (!passes[k]->interface)
			printf("# %-18s %zu\n", passes[k]->name, fired[k]);
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	uint64_t first = argc > 2 ? strtoull(argv[2], 0, 10) : 0,
	         count = argc > 3 ? strtoull(argv[3], 0, 10) : 1;
	bool some = !strcmp(what, "some");
	if (!strcmp(what, "print"))
		return print(first);
	share = some ? (int)count : strcmp(what, "each") ? 100 : 0;
	seed = some ? first : 0;
	if (!strcmp(what, "random"))
		for (uint64_t i = 0; i < count; i++)
			take_random(first + i);
	else
		for (int i = some ? 4 : 2; i < argc; i++)
			take_file(argv[i]);
	tell_fired();
	for (int k = 0; k < PASSES; k++)
		gg_rules_free(rules[k]);
	return done();
}
