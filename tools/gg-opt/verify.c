/* Both graphs run on ref, on the same inputs, as far as possible unlike each other: layouts and kernels are
 * forgotten, so that what is compared is logical values. A pass that claims exactness is held to the bit, and
 * so are, by themselves, the rewrites of rules that only move and cast values, whatever pass they are in.
 * Another may round otherwise: what is out of tolerance counts only where the old graph itself stands
 * still when its inputs and parameters move by a few units in the last place. */
#include "verify.h"
#include "../../lib/compare.h"
#include "sample.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 8, ULPS = 4, MOVES = 4, SLACK = 16, NAMED = 6 };

typedef struct trial {
	sample s;
	bool drawn;
	outcome want;
	outcome moved[MOVES]; /* the old graph's, on inputs moved a little; made when needed */
	int nmoved;
	bool made;
} trial;

struct verify {
	size_t n;
	trial *trial;
	gg_buf before; /* the graph that `want` is of */
};

/* What a graph is held to. */
typedef struct claim {
	bool exact;
	bool moves; /* and it is so because the rules only move and cast */
	bool tames;
} claim;

typedef struct difference {
	size_t trial, result;
	int64_t at;
	gg_buf text; /* "output 'y'[0,3] is 0.5, was 0" */
} difference;

verify *verify_new(int64_t samples)
{
	verify *v = gg_xcalloc(1, sizeof *v);
	v->n = (size_t)samples;
	v->trial = gg_xcalloc(v->n, sizeof *v->trial);
	return v;
}

size_t verify_samples(const verify *v) { return v->n; }

static void forget_moves(trial *t)
{
	while (t->nmoved)
		outcome_fini(&t->moved[--t->nmoved]);
	t->made = false;
}

static void forget(verify *v)
{
	for (size_t i = 0; i < v->n; i++) {
		forget_moves(&v->trial[i]);
		outcome_fini(&v->trial[i].want);
		sample_fini(&v->trial[i].s);
		v->trial[i].drawn = false;
	}
}

void verify_free(verify *v)
{
	if (!v)
		return;
	forget(v);
	gg_buf_fini(&v->before);
	free(v->trial);
	free(v);
}

/* ---- what to compare with ----------------------------------------------------------------- */
/* Inputs on which the graph itself fails, such as a divisor of 0, are drawn again; tamer ones in the end.
 * *why: what it said the first time. */
static bool draw(verify *v, size_t i, gg_model *m, int *redrawn, gg_buf *why)
{
	trial *t = &v->trial[i];
	for (int k = 0; k < DRAWS && !t->drawn; k++) {
		gg_buf said = {0};
		gg_diag own = {.quiet = true, .hold = &said};
		t->s = (sample){.kind = k < DRAWS / 2 ? (sample_kind)(i % SAMPLE_KINDS) : NORMAL,
		                .turn = (int)(i / SAMPLE_KINDS) + k,
		                .seed = i * DRAWS + (uint64_t)k + 1};
		t->drawn = sample_draw(&own, m, &t->s) &&
		           sample_run(&own, &v->before, m, &t->s, 0, 0, &t->want);
		if (!t->drawn && !why->p)
			gg_buf_printf(why, "%s inputs: %s", sample_kind_name[t->s.kind],
			              said.p ? said.p : "");
		gg_buf_fini(&said);
		if (t->drawn)
			return true;
		++*redrawn;
		outcome_fini(&t->want);
		sample_fini(&t->s);
	}
	return false;
}

bool verify_start(verify *v, gg_diag *d, gg_model *m)
{
	int redrawn = 0;
	size_t drawn = 0;
	gg_buf why = {0};
	forget(v);
	if (!model_save(d, m, &v->before))
		return false;
	for (size_t i = 0; i < v->n; i++)
		drawn += draw(v, i, m, &redrawn, &why);
	if (!drawn)
		gg_note(
		    d,
		    "--verify: the graph as it is runs on no inputs that were made up for it, so passes are "
		    "not compared (%s)",
		    why.p);
	else if (drawn < v->n)
		gg_note(
		    d,
		    "--verify: the graph as it is failed on %d inputs: %zu of %zu comparisons are left out "
		    "(%s)",
		    redrawn, v->n - drawn, v->n, why.p);
	else if (redrawn)
		gg_note(d, "--verify: the graph as it is failed on %d inputs: others were drawn (%s)",
		        redrawn, why.p);
	gg_buf_fini(&why);
	return true;
}

/* ---- comparing ------------------------------------------------------------------------------ */
static bool within(double got, double want, double rtol, double atol)
{
	return got == want || (isnan(got) && isnan(want)) ||
	       (isfinite(got) && isfinite(want) && fabs(got - want) <= atol + rtol * fabs(want));
}

/* The old graph with everything moved a little, MOVES times. One that fails excuses nothing, and is told. */
static void make_moves(const verify *v, gg_diag *d, trial *t, const gg_model *like)
{
	gg_buf why = {0};
	for (int k = t->made ? MOVES : 0; k < MOVES; k++) {
		gg_buf said = {0};
		gg_diag own = {.quiet = true, .hold = &said};
		outcome *o = &t->moved[t->nmoved];
		if (sample_run(&own, &v->before, like, &t->s, ULPS, (uint64_t)k + 7, o) && o->n == t->want.n)
			t->nmoved++;
		else
			outcome_fini(o);
		if (!why.p && said.p)
			gg_buf_str(&why, said.p);
		gg_buf_fini(&said);
	}
	if (!t->made && t->nmoved < MOVES)
		gg_note(
		    d,
		    "--verify: the graph before the pass did not run on %d of %d inputs that were moved a "
		    "little: they excuse no difference (%s inputs: %s)",
		    MOVES - t->nmoved, MOVES, sample_kind_name[t->s.kind],
		    why.p ? why.p : "it has other results");
	t->made = true;
	gg_buf_fini(&why);
}

static bool shaky(const trial *t, size_t r, int64_t i, double got)
{
	const gg_tensor *want = &t->want.r[r].t;
	bool is_float = strchr("FC", gg_dtype_class(want->dtype)) != 0;
	double w = is_float ? gg_part(want, i) : gg_get_f64(want, i), spread = 0, rtol, atol;
	gg_tolerance(want->dtype, &rtol, &atol);
	if (t->s.kind == LOG_UNIFORM && is_float && isfinite(got) && !isfinite(w))
		return true; /* it overflowed on the way, and does not any more */
	for (int k = 0; k < t->nmoved; k++) {
		const gg_tensor *m = &t->moved[k].r[r].t;
		if (!gg_shape_eq(&m->shape, &want->shape))
			return true;
		double x = is_float ? gg_part(m, i) : gg_get_f64(m, i);
		if (isnan(x) != isnan(w) || isinf(x) != isinf(w))
			return true;
		spread = fmax(spread, isfinite(x) ? fabs(x - w) : 0);
	}
	if (!is_float)
		return spread > 0;
	return isfinite(got) && isfinite(w) && fabs(got - w) <= atol + rtol * fabs(w) + SLACK * spread;
}

static bool differ(difference *f, const result *want, const char *fmt, const char *a, const char *b)
{
	gg_buf_printf(&f->text, "%s '%s' ", want->state ? "state" : "output", want->name);
	gg_buf_printf(&f->text, fmt, a, b);
	return false;
}

static bool same_element(const gg_tensor *got, const gg_tensor *want, int64_t i, bool exact)
{
	double rtol, atol;
	if (exact || !strchr("FC", gg_dtype_class(want->dtype)))
		return gg_same_bits(got, want, i);
	gg_tolerance(want->dtype, &rtol, &atol);
	return within(gg_part(got, i), gg_part(want, i), rtol, atol);
}

/* Where the pass may give a number for it. */
static bool was_nan(claim c, const gg_tensor *want, int64_t i)
{
	return c.tames && strchr("FC", gg_dtype_class(want->dtype)) && isnan(gg_part(want, i));
}

static void describe(difference *f, const trial *t, const result *got, const result *want, claim c, int64_t i)
{
	gg_buf_printf(&f->text, "%s '%s'", want->state ? "state" : "output", want->name);
	gg_put_index(&f->text, &want->t, i);
	gg_buf_str(&f->text, " is ");
	gg_put_part(&f->text, &got->t, i);
	gg_buf_str(&f->text, ", was ");
	gg_put_part(&f->text, &want->t, i);
	gg_buf_printf(&f->text, " (%s inputs", sample_kind_name[t->s.kind]);
	if (t->s.steps > 1)
		gg_buf_printf(&f->text, ", step %d", want->step + 1);
	if (t->s.world)
		gg_buf_printf(&f->text, ", rank %d of %d", want->rank, t->s.world);
	gg_buf_str(&f->text, c.moves ? "; what only moves and casts must keep every bit)" : ")");
}

static bool same_result(const verify *v, gg_diag *d, trial *t, size_t r, const result *got,
                        const result *want, claim c, const gg_model *like, difference *f)
{
	gg_arena a = {0};
	bool good = true;
	if (got->t.dtype != want->t.dtype)
		good = differ(f, want, "is %s, was %s", gg_dtype_name(got->t.dtype),
		              gg_dtype_name(want->t.dtype));
	else if (!gg_shape_eq(&got->t.shape, &want->t.shape))
		good = differ(f, want, "has shape %s, had %s", gg_shape_str(&a, &got->t.shape),
		              gg_shape_str(&a, &want->t.shape));
	gg_arena_fini(&a);
	for (int64_t i = 0; good && i < gg_parts(&want->t); i++) {
		if (same_element(&got->t, &want->t, i, c.exact) || was_nan(c, &want->t, i))
			continue;
		if (!c.exact && gg_dtype_class(want->t.dtype) != 'S') {
			make_moves(v, d, t, like);
			if (shaky(t, r, i,
			          gg_dtype_class(want->t.dtype) == 'F' || want->t.dtype == GG_C64
			              ? gg_part(&got->t, i)
			              : gg_get_f64(&got->t, i)))
				continue;
		}
		describe(f, t, got, want, c, i);
		good = false;
	}
	return good;
}

/* The graph in `bytes` on trial i's inputs against what another gave on them. *got gets its results. */
static bool same(const verify *v, gg_diag *d, size_t i, const gg_buf *bytes, const outcome *want, claim c,
                 const gg_model *like, outcome *got, difference *f)
{
	trial *t = &v->trial[i];
	gg_buf why = {0};
	gg_diag own = {.quiet = true, .silent = d->silent, .hold = &why};
	f->trial = i;
	bool runs = sample_run(&own, bytes, like, &t->s, 0, 0, got);
	if (!runs)
		gg_buf_printf(&f->text, "it does not run any more (%s inputs): %s",
		              sample_kind_name[t->s.kind], why.p ? why.p : "");
	gg_buf_fini(&why);
	if (!runs)
		return false;
	if (got->n != want->n) {
		gg_buf_printf(&f->text, "it has other outputs or states");
		return false;
	}
	for (size_t k = 0; k < got->n; k++) {
		if (got->r[k].name != want->r[k].name) {
			gg_buf_printf(&f->text, "it has '%s' where '%s' was", got->r[k].name,
			              want->r[k].name);
			return false;
		}
		if (!same_result(v, d, t, k, &got->r[k], &want->r[k], c, like, f))
			return false;
	}
	return true;
}

/* ---- which rewrite -------------------------------------------------------------------------- */
/* Rewrites [from,to) of the pass, and what the graph before them gives on trial i. */
typedef struct stretch {
	step *s;
	size_t trial;
	int64_t from, to;
	const outcome *want;
	claim claim;
} stretch;

/* The graph after the first `limit` rewrites. */
static bool graph_at(const verify *v, step *s, const gg_model *m, int64_t limit, gg_buf *bytes)
{
	gg_diag silent = {.silent = true, .quiet = true};
	replay at;
	gg_model *copy = steps_replay(s, 1, &v->before, m, limit, &at);
	bool good = copy && model_save(&silent, copy, bytes);
	gg_model_free(copy);
	return good;
}

static bool good_up_to(const verify *v, const stretch *a, gg_model *m, int64_t limit)
{
	gg_diag silent = {.silent = true, .quiet = true};
	gg_buf bytes = {0};
	outcome got = {0};
	difference f = {0};
	bool good = graph_at(v, a->s, m, limit, &bytes) &&
	            same(v, &silent, a->trial, &bytes, a->want, a->claim, m, &got, &f);
	outcome_fini(&got);
	gg_buf_fini(&bytes);
	gg_buf_fini(&f.text);
	return good;
}

/* ", rule 'Neg(Neg(x))'": where a rule made it that has a name of its own. */
static void put_rule(gg_buf *b, const step *s, int64_t number)
{
	for (size_t i = 0; i < s->run.nmade; i++) {
		const gg_made *k = &s->run.made[i];
		if ((int64_t)k->from < number && number <= (int64_t)k->to && strcmp(k->rule, s->pass->name))
			gg_buf_printf(b, ", rule '%s'", k->rule);
	}
}

/* ", rule 'Neg(Neg(x))', rewrite 3: 'a' (Neg), 'b' (Neg) => nothing" */
static void put_number(gg_buf *b, const verify *v, step *s, gg_model *m, int64_t number)
{
	replay at;
	gg_model *one = steps_replay(s, 1, &v->before, m, number - 1, &at);
	gg_model *two = steps_replay(s, 1, &v->before, m, number, &at);
	put_rule(b, s, number);
	gg_buf_printf(b, ", rewrite %lld", (long long)number);
	if (one && two)
		put_rewritten(b, one, two, NAMED);
	gg_model_free(one);
	gg_model_free(two);
}

/* The first rewrite after which the graphs differ; no text where it cannot be told. */
static void put_rewrite(gg_buf *b, const verify *v, const stretch *a, gg_model *m)
{
	int64_t good = a->from, bad = a->to;
	if (bad <= good || good_up_to(v, a, m, bad))
		return;
	while (bad - good > 1) {
		int64_t mid = good + (bad - good) / 2;
		*(good_up_to(v, a, m, mid) ? &good : &bad) = mid;
	}
	put_number(b, v, a->s, m, bad);
}

/* The graph in `bytes`, after the stretch, against the one before it. */
static bool hold(const verify *v, gg_diag *d, const stretch *a, const gg_buf *bytes, gg_model *m,
                 outcome *got)
{
	difference f = {0};
	gg_buf what = {0};
	bool good = same(v, d, a->trial, bytes, a->want, a->claim, m, got, &f);
	if (!good) {
		put_rewrite(&what, v, a, m);
		gg_error(d, GG_DIFFERENT, "pass '%s'%s: %s", a->s->pass->name, what.p ? what.p : "",
		         f.text.p);
	}
	gg_buf_fini(&what);
	gg_buf_fini(&f.text);
	return good;
}

static int64_t count_rewrites(const step *s) { return (int64_t)(s->run.applied - s->run.before); }

/* The next rewrites in a row that only move and cast; *k counts the rules' stretches. */
static bool next_moves(const step *s, size_t *k, int64_t *from, int64_t *to)
{
	const gg_pass_run *r = &s->run;
	while (*k < r->nmade && !r->made[*k].moves)
		++*k;
	if (*k == r->nmade)
		return false;
	*from = (int64_t)r->made[*k].from;
	do
		*to = (int64_t)r->made[(*k)++].to;
	while (*k < r->nmade && r->made[*k].moves && (int64_t)r->made[*k].from == *to);
	return true;
}

static claim claim_of(const step *s)
{
	int64_t from, to;
	size_t k = 0;
	bool moves = !s->pass->exact && next_moves(s, &k, &from, &to) && to - from == count_rewrites(s);
	return (claim){s->pass->exact || moves, moves, s->pass->tames};
}

/* Not compared by themselves, as the graph before them does not run though that after the pass does. */
static void tell_moves(gg_diag *d, const stretch *a, bool made, const char *why)
{
	gg_note(
	    d,
	    "--verify: pass '%s', rewrites %lld to %lld: what only moves and casts is not held to every bit, "
	    "as the graph before it %s%s",
	    a->s->pass->name, (long long)a->from + 1, (long long)a->to,
	    made ? "does not run: " : "cannot be made again", made ? why : "");
}

/* Rewrites that only move and cast, among others that round. *told: what could not be run. */
static bool hold_moves(const verify *v, gg_diag *d, step *s, size_t trial, gg_model *m, bool *told)
{
	stretch a = {.s = s, .trial = trial, .claim = {true, true, false}};
	bool good = true;
	for (size_t k = 0; good && next_moves(s, &k, &a.from, &a.to);) {
		gg_buf one = {0}, two = {0}, why = {0};
		gg_diag own = {.quiet = true, .hold = &why};
		outcome want = {0}, got = {0};
		a.want = &want;
		bool made = graph_at(v, s, m, a.from, &one) && graph_at(v, s, m, a.to, &two);
		bool ran = made && sample_run(&own, &one, m, &v->trial[trial].s, 0, 0, &want);
		if (ran)
			good = hold(v, d, &a, &two, m, &got);
		else if (!*told)
			tell_moves(d, &a, made, why.p ? why.p : "");
		*told |= !ran;
		outcome_fini(&want);
		outcome_fini(&got);
		gg_buf_fini(&one);
		gg_buf_fini(&two);
		gg_buf_fini(&why);
	}
	return good;
}

/* What no number shows: a rule that rounds where the graph does not, or no longer where it does. */
static bool hold_rounding(const verify *v, gg_diag *d, step *s, gg_model *m)
{
	const gg_made *k = s->run.made;
	while (k < s->run.made + s->run.nmade && !k->rounding)
		k++;
	if (k == s->run.made + s->run.nmade)
		return true;
	gg_buf b = {0};
	put_number(&b, v, s, m, (int64_t)k->from + 1);
	gg_error(d, GG_DIFFERENT, "pass '%s'%s: %s", s->pass->name, b.p, k->rounding);
	gg_buf_fini(&b);
	return false;
}

bool verify_pass(verify *v, gg_diag *d, step *s, gg_model *m)
{
	gg_buf now = {0};
	bool good = model_save(d, m, &now), told = false;
	for (size_t i = 0; good && i < v->n; i++) {
		trial *t = &v->trial[i];
		stretch all = {s, i, 0, count_rewrites(s), &t->want, claim_of(s)};
		outcome got = {0};
		if (!t->drawn)
			continue;
		good = hold(v, d, &all, &now, m, &got) &&
		       (all.claim.exact || hold_moves(v, d, s, i, m, &told));
		forget_moves(t);
		outcome_fini(&t->want);
		t->want = got;
	}
	good = good && hold_rounding(v, d, s, m);
	gg_buf_fini(&v->before);
	v->before = now;
	return good;
}
