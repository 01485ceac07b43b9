#include "step.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of this process: what else runs on the machine does not count. */
static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static bool run_graphs(gg_pass_run *r, gg_graph *g)
{
	gg_graph *b;
	for (gg_node *n = r->m->graphs->next_graph ? g->first : 0; n;
	     n = n->next) /* where there are bodies */
		for (int i = 0; (b = gg_body(n, i)); i++)
			if (!run_graphs(r, b))
				return false;
	return rules_run(r, g);
}

void step_find_ops(const gg_model *m, gg_map *ops)
{
	gg_map_fini(ops);
	for (const gg_graph *g = m->graphs; g; g = g->next_graph)
		for (const gg_node *n = g->first; n; n = n->next)
			if (!gg_map_get(ops, (uint64_t)(uintptr_t)n->op))
				gg_map_put(ops, (uint64_t)(uintptr_t)n->op, (void *)n->op);
}

/* What went wrong, as one line. What a pass says itself stands for itself; what the check finds when all is
 * done may be the work of any rewrite, if there are several. */
static void blame(const step *s, gg_diag *d, const char *why, bool checked)
{
	const gg_pass_run *r = &s->run;
	size_t n = r->applied - r->before;
	gg_buf b = {0};
	if (n == 1 && r->at && checked)
		gg_buf_printf(&b, ", rewrite 1, '%s' (%s)", r->at, r->at_op);
	else if (n && checked)
		gg_buf_printf(&b, ", %zu rewrite%s", n, n == 1 ? "" : "s");
	gg_error(d, d->status ? d->status : GG_MALFORMED, "pass '%s'%s: %s", s->pass->name, b.p ? b.p : "",
	         why ? why : "it failed and does not say why");
	gg_buf_fini(&b);
}

bool step_run(step *s, gg_diag *d, gg_model *m, gg_map *ops, int64_t *left, bool check)
{
	gg_pass_run *r = &s->run;
	size_t before = r->before = r->applied;
	int errors = d->errors;
	double start = now_ms();
	r->pass = s->pass;
	r->d = d;
	r->m = m;
	r->option = s->option;
	r->noption = (int)s->noption;
	r->left = left;
	r->nmade = 0;
	r->at = r->at_op = 0;
	gg_buf why = {0}, *hold = d->hold;
	d->hold = &why;
	bool ran = !rules_reach(r, ops) || (run_graphs(r, m->main) && d->errors == errors), good = ran;
	bool changed = r->applied != before;
	if (good && changed && m->target)
		good = gg_select_open(d, m);
	if (changed && m->stage && !strcmp(m->stage, "build")) {
		gg_drop_plan(m);
		m->stage = "select";
	}
	if (good && (changed || check))
		good = gg_check_ops(d, m, ops);
	d->hold = hold;
	if (!good)
		blame(s, d, why.p, ran);
	gg_buf_fini(&why);
	gg_arena_fini(&r->scratch);
	s->ms += now_ms() - start;
	return good;
}

void step_fini(step *s)
{
	free(s->run.refusal);
	free(s->run.made);
	s->run = (gg_pass_run){.rules = s->run.rules};
}

bool model_save(gg_diag *d, gg_model *m, gg_buf *out)
{
	out->len = 0;
	return gg_write(d, out, m);
}

gg_model *model_load(gg_diag *d, const gg_buf *bytes, const gg_model *like)
{
	gg_source s = {.name = d->where ? d->where : "<copy>", .p = bytes->p, .len = bytes->len};
	gg_model *m = 0;
	if (gg_read(d, &s, &m) <= 0)
		return 0;
	m->weights = like->weights;
	m->allow_outside = like->allow_outside;
	return m;
}

gg_model *steps_replay(step *s, size_t n, const gg_buf *bytes, const gg_model *like, int64_t limit,
                       replay *at)
{
	gg_diag silent = {.silent = true, .quiet = true};
	gg_map ops = {0};
	int64_t left = limit;
	gg_model *m = model_load(&silent, bytes, like);
	bool good = m != 0;
	*at = (replay){0};
	if (m)
		step_find_ops(m, &ops);
	for (size_t i = 0; good && left && i < n; i++) {
		int64_t had = left;
		step again = {.pass = s[i].pass, .option = s[i].option, .noption = s[i].noption};
		again.run.rules = s[i].run.rules;
		again.run.replay = true;
		crash_watch("pass", s[i].pass->name, &again.run, 0, 0, 0);
		good = step_run(&again, &silent, m, &ops, &left, false);
		crash_watch(0, 0, 0, 0, 0, 0);
		s[i].run.rules = again.run.rules; /* compiled at its first run */
		step_fini(&again);
		if (had != left)
			*at = (replay){i, had - left, limit - left};
	}
	gg_map_fini(&ops);
	if (good && n && !m->target)
		m->stage = "opt";
	if (good)
		return m;
	gg_model_free(m);
	return 0;
}

void put_text(gg_buf *out, gg_model *m)
{
	gg_diag silent = {.silent = true};
	if (!gg_write_text(&silent, out, m, &(gg_text_options){.elide = 64, .new_ids = true}))
		gg_buf_str(out, "(the graph cannot be printed)\n");
}

/* ---- which nodes differ ------------------------------------------------------------------- */
typedef void each_node(const gg_node *n, const char *line, void *arg);

static void walk(const gg_graph *g, each_node *f, void *arg)
{
	gg_graph *body;
	for (const gg_node *n = g->first; n; n = n->next) {
		gg_buf line = {0};
		for (int i = 0; (body = gg_body(n, i)); i++)
			walk(body, f, arg);
		gg_print_node(&line, n);
		f(n, line.p, arg);
		gg_buf_fini(&line);
	}
}

typedef struct search {
	gg_map lines; /* of the other graph */
	gg_buf *out;
	int n, most;
} search;

static void remember(const gg_node *n, const char *line, void *arg)
{
	search *s = arg;
	gg_map_puts(&s->lines, gg_intern(line), s);
}

static void tell(const gg_node *n, const char *line, void *arg)
{
	search *s = arg;
	if (gg_map_gets(&s->lines, line) || s->n > s->most)
		return;
	gg_buf_str(s->out, s->n ? ", " : "");
	if (s->n++ < s->most)
		gg_buf_printf(s->out, "'%s' (%s)", gg_node_name(n), n->op->name);
	else
		gg_buf_str(s->out, "...");
}

/* The nodes that a has and b has not. */
static void put_only(gg_buf *out, const gg_model *a, const gg_model *b, int most)
{
	search s = {.out = out, .most = most};
	walk(b->main, remember, &s);
	walk(a->main, tell, &s);
	if (!s.n)
		gg_buf_str(out, "nothing");
	gg_map_fini(&s.lines);
}

void put_rewritten(gg_buf *out, const gg_model *before, const gg_model *after, int most)
{
	gg_buf_str(out, ": ");
	put_only(out, before, after, most);
	gg_buf_str(out, " => ");
	put_only(out, after, before, most);
}
