#include "sample.h"
#include "../../lib/accept.h"
#include "../../lib/comm.h"
#include "step.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const sample_kind_name[SAMPLE_KINDS] = {"normal", "log-uniform", "special"};

static void measure(const gg_model *m, sample *s)
{
	s->steps = m->main->nstate ? 2 : 1;
	s->world = 0;
	if (!gg_has_collective(m->main))
		return;
	s->world = 3;
	for (const gg_node *n = m->main->first; n; n = n->next) {
		const char *p = gg_is_collective(n) ? gg_get_string(n, "group") : 0;
		int64_t size = p ? gg_get_int(n, "rank_size") : 0;
		if (size > s->world && size <= GG_MAX_WORLD)
			s->world = (int)size;
		for (; p && *p; p += strcspn(p, ",;"), p += *p != 0)
			if (atoi(p) >= s->world && atoi(p) < GG_MAX_WORLD)
				s->world = atoi(p) + 1;
	}
}

/* ---- numbers ------------------------------------------------------------------------------ */
static uint64_t mix(const sample *s, const char *name, uint64_t salt)
{
	return gg_hash(name, strlen(name), gg_hash(&s->seed, sizeof s->seed, salt + 1));
}

/* Every second number, or of wild ones every eighth, is one of a list, which large inputs have all of. */
static double special(const gg_tensor *t, bool wild, uint64_t seed, uint64_t i)
{
	static const double tame_list[] = {0.0, -0.0, 1, -1, 1e-40, -1e-40, 6e-8, 0.5};
	static const double wild_list[] = {INFINITY, 0.0, NAN, -INFINITY, -0.0, 1e-40, INFINITY, -1};
	const double *from = wild ? wild_list : tame_list;
	uint64_t every = wild ? 8 : 2, at = i + seed % 64;
	if ((uint64_t)gg_count(t) < 8 * every)
		return gg_uniform(seed ^ 0x5bd1e995, i) * (wild ? 16 : 2) < 1
		           ? from[(int)(gg_uniform(~seed, i) * 8)]
		           : gg_normal(seed, i);
	return at % every ? gg_normal(seed, i) : from[at / every % 8];
}

/* Magnitudes from 2^-k to 2^k, where products of two still fit. */
static int exponents(gg_dtype t)
{
	return t == GG_F64 ? 40 : t == GG_F32 || t == GG_BF16 || t == GG_C64 ? 20 : 6;
}

static double some_float(const sample *s, const gg_tensor *t, bool wild, uint64_t seed, uint64_t i)
{
	double k = exponents(t->dtype), u = gg_uniform(seed, i);
	switch (s->kind) {
	case LOG_UNIFORM:
		return (gg_uniform(~seed, i) < 0.5 ? -1 : 1) * exp2((2 * u - 1) * k);
	case SPECIAL:
		return special(t, wild, seed, i);
	default:
		return gg_normal(seed, i);
	}
}

static void limits(gg_dtype t, int64_t *lo, int64_t *hi)
{
	int bits = gg_dtype_bits(t);
	bool negative = gg_dtype_class(t) == 'I';
	*lo = !negative ? 0 : bits == 64 ? INT64_MIN : -((int64_t)1 << (bits - 1));
	*hi = t == GG_BOOL ? 1 : bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - negative)) - 1;
}

/* Readers that accept a range get all of it; the others any number, small ones first. */
static int64_t some_int(const sample *s, int64_t lo, int64_t hi, bool any, uint64_t seed, uint64_t i)
{
	double u = gg_uniform(seed, i), v = gg_uniform(~seed, i);
	int64_t x;
	if (s->kind == SPECIAL && v < 0.5)
		x = v < 0.125 ? lo : v < 0.25 ? hi : v < 0.375 ? 0 : 1;
	else if (s->kind == LOG_UNIFORM && any)
		x = (int64_t)((v < 0.5 ? -1 : 1) * exp2(u * 62));
	else if (any)
		x = (int64_t)(u * 19) - 9;
	else
		x = lo + (int64_t)(u * ((double)hi - (double)lo + 1));
	return x < lo ? lo : x > hi ? hi : x;
}

static void fill_ints(const sample *s, const gg_value *v, gg_tensor *t, uint64_t seed)
{
	int64_t lo, hi, least, most;
	bool any = !gg_accepted(v, &lo, &hi);
	limits(t->dtype, &least, &most);
	any |= lo <= least && hi >= most;
	lo = lo < least ? least : lo;
	hi = hi > most ? most : hi < lo ? lo : hi;
	if (!any && hi > lo + 255) /* such as "not negative": sizes that fit in memory */
		hi = lo + 9;
	for (int64_t i = 0; i < gg_count(t); i++)
		gg_set_i64(t, i, some_int(s, lo, hi, any && t->dtype != GG_BOOL, seed, (uint64_t)i));
}

static void fill(const sample *s, const gg_value *v, gg_tensor *t, int rank)
{
	static const char *const words[] = {"", "a", "b", "gg"};
	uint64_t seed = mix(s, v->name, (uint64_t)rank);
	bool wild = (gg_hash(v->name, strlen(v->name), 0) + (uint64_t)s->turn) & 1;
	int64_t n = gg_count(t);
	switch (gg_dtype_class(t->dtype)) {
	case 'S':
		for (int64_t i = 0; i < n; i++)
			((const char **)t->data)[i] = words[(int)(gg_uniform(seed, (uint64_t)i) * 4)];
		break;
	case 'F':
		for (int64_t i = 0; i < n; i++)
			gg_set_f64(t, i, some_float(s, t, wild, seed, (uint64_t)i));
		break;
	case 'C':
		for (int64_t i = 0; i < 2 * n; i++)
			((float *)t->data)[i] = (float)some_float(s, t, wild, seed, (uint64_t)i);
		break;
	default:
		fill_ints(s, v, t, seed);
	}
}

/* No ulps: not at all. A zero in f16 may be a number that was too small for it; infinity less a part of it
 * would be NaN. */
static void nudge(gg_tensor *t, int ulps, uint64_t seed)
{
	static const struct {
		gg_dtype t;
		double ulp;
	} row[] = {{GG_F64, 0x1p-52}, {GG_F32, 0x1p-23}, {GG_F16, 0x1p-10}, {GG_BF16, 0x1p-7}};
	for (size_t k = 0; k < sizeof row / sizeof *row; k++)
		for (int64_t i = 0; ulps && row[k].t == t->dtype && i < gg_count(t); i++) {
			double x = gg_get_f64(t, i), u = gg_uniform(seed, (uint64_t)i) < 0.5 ? -1 : 1;
			if (isfinite(x))
				gg_set_f64(t, i,
				           x == 0 && t->dtype == GG_F16 ? u * 0x1p-24
				                                        : x + x * u * ulps * row[k].ulp);
		}
}

/* ---- inputs ------------------------------------------------------------------------------- */
typedef struct symbols {
	const sample *s;
	gg_binding *b;
	size_t n, cap;
} symbols;

static void bind_symbol(const char *sym, void *arg)
{
	symbols *y = arg;
	for (size_t i = 0; i < y->n; i++)
		if (y->b[i].sym == sym)
			return;
	GG_PUSH(y->b, y->n, y->cap, ((gg_binding){sym, 2 + (int64_t)(mix(y->s, sym, 99) >> 7 & 1)}));
}

static bool draw_rank(gg_diag *d, const gg_graph *g, sample *s, int rank, symbols *y)
{
	for (size_t i = 0; i < g->nin; i++) {
		gg_tensor *t = &s->in[(size_t)rank * g->nin + i];
		int64_t bytes;
		*t = (gg_tensor){g->in[i]->dtype, g->in[i]->shape, 0};
		for (int k = 0; k < t->shape.rank; k++)
			t->shape.dim[k] = gg_dim_bind(t->shape.dim[k], y->b, y->n);
		if (!gg_shape_known(&t->shape) || !gg_size_of(t->dtype, &t->shape, &bytes))
			return gg_error(d, GG_UNSUPPORTED, "no shape can be made up for input '%s'",
			                g->in[i]->name);
		t->data = gg_xaligned((size_t)bytes);
		fill(s, g->in[i], t, rank);
	}
	return true;
}

bool sample_draw(gg_diag *d, const gg_model *m, sample *s)
{
	const gg_graph *g = m->main;
	symbols y = {.s = s};
	bool good = true;
	measure(m, s);
	size_t ranks = s->world ? (size_t)s->world : 1;
	s->nin = g->nin;
	s->name = gg_xcalloc(g->nin + 1, sizeof *s->name);
	s->in = gg_xcalloc(g->nin * ranks + 1, sizeof *s->in);
	GG_PUSH(y.b, y.n, y.cap, ((gg_binding){gg_intern("world"), (int64_t)ranks}));
	GG_PUSH(y.b, y.n, y.cap, ((gg_binding){gg_intern("rank"), 0}));
	for (size_t i = 0; i < g->nin; i++) {
		s->name[i] = g->in[i]->name;
		for (int k = 0; k < g->in[i]->shape.rank; k++)
			gg_dim_symbols(g->in[i]->shape.dim[k], bind_symbol, &y);
	}
	for (size_t k = 0; good && k < ranks; k++) {
		y.b[1].value = (int64_t)k;
		good = draw_rank(d, g, s, (int)k, &y);
	}
	free(y.b);
	return good;
}

void sample_fini(sample *s)
{
	size_t ranks = s->world ? (size_t)s->world : 1;
	for (size_t i = 0; s->in && i < s->nin * ranks; i++)
		free(s->in[i].data);
	free(s->in);
	free(s->name);
	s->in = 0;
	s->name = 0;
}

/* ---- one run ------------------------------------------------------------------------------ */
typedef struct job {
	gg_diag *d;
	const gg_buf *bytes;
	const gg_model *like;
	const sample *s;
	int ulps;
	uint64_t salt;
	outcome *out; /* one for each rank */
} job;

static bool same_inputs(const job *j, const gg_graph *g)
{
	bool same = g->nin == j->s->nin;
	for (size_t i = 0; same && i < g->nin; i++)
		same = g->in[i]->name == j->s->name[i] && g->in[i]->dtype == j->s->in[i].dtype;
	return same || gg_error(j->d, GG_DIFFERENT, "the inputs are others than before");
}

static gg_tensor copy(const gg_tensor *t)
{
	gg_tensor c = *t;
	size_t bytes = gg_nbytes(t);
	c.data = gg_xaligned(bytes);
	if (bytes)
		memcpy(c.data, t->data, bytes);
	return c;
}

/* A copy, as kernels may write over what they are given. */
static gg_tensor *take_inputs(const job *j, int rank)
{
	gg_tensor *in = gg_xcalloc(j->s->nin + 1, sizeof *in);
	for (size_t i = 0; i < j->s->nin; i++) {
		in[i] = copy(&j->s->in[(size_t)rank * j->s->nin + i]);
		nudge(&in[i], j->ulps, mix(j->s, j->s->name[i], j->salt));
	}
	return in;
}

static bool nudge_params(const job *j, gg_exec *x, gg_graph *g)
{
	for (gg_value *v = g->consts; v; v = v->next_const) {
		gg_tensor t;
		if (v->kind != GG_PARAM || gg_dtype_class((gg_dtype)v->dtype) != 'F' || !v->nuses)
			continue;
		if (!gg_exec_get_param(x, v, &t))
			return false;
		t = copy(&t);
		nudge(&t, j->ulps, mix(j->s, v->name, j->salt));
		bool good = gg_exec_set_param(x, v, &t);
		free(t.data);
		if (!good)
			return false;
	}
	return true;
}

/* Strings are interned, as the model that owns them goes. */
static void keep(outcome *o, const char *name, bool state, int rank, int step, const gg_tensor *t)
{
	result r = {.name = gg_intern(name), .state = state, .rank = rank, .step = step, .t = copy(t)};
	for (int64_t i = 0; gg_dtype_class(t->dtype) == 'S' && i < gg_count(t); i++)
		((const char **)r.t.data)[i] = gg_intern(((const char *const *)t->data)[i]);
	GG_PUSH(o->r, o->n, o->cap, r);
}

static bool run_steps(const job *j, gg_exec *x, gg_graph *g, int rank, const gg_tensor *in, outcome *o)
{
	gg_tensor *out = gg_xcalloc(g->nout + 1, sizeof *out), t;
	bool good = true;
	for (int step = 0; good && step < j->s->steps; step++) {
		good = gg_exec_run(x, in, out);
		for (size_t i = 0; good && i < g->nout; i++)
			keep(o, g->out[i]->value->name, false, rank, step, &out[i]);
	}
	for (size_t i = 0; good && i < g->nstate; i++) {
		good = gg_exec_get_param(x, g->state[i]->param, &t);
		if (good)
			keep(o, g->state[i]->param->name, true, rank, j->s->steps - 1, &t);
	}
	free(out);
	return good;
}

/* Fused nodes become plain ones: each of these rounds. */
static void take_apart(gg_graph *g)
{
	gg_diag silent = {.silent = true, .quiet = true};
	for (gg_node *n = g->first, *next; n; n = next) {
		gg_node *prev = n->prev;
		next = n->next;
		if (n->op->expand && n->op->expand(&silent, n))
			next = prev ? prev->next : g->first; /* what it is made of may be fused too */
	}
}

/* What a node rounded might have been rounded otherwise. Views are left alone: their bytes are another's. */
static bool nudge_written(const gg_ran *r, void *arg)
{
	const job *j = arg;
	for (int i = 0; i < r->nout && r->nnode == 1 && !(r->node[0]->op->flags & GG_VIEW); i++) {
		gg_tensor t = r->out[i];
		nudge(&t, 1, mix(j->s, r->out_value[i]->name, j->salt + r->run));
	}
	return true;
}

static bool run_rank(const job *j, const gg_comm *c, outcome *o)
{
	gg_watch moves = {.wrote = nudge_written, .arg = (void *)(uintptr_t)j};
	int rank = c ? c->rank : 0;
	gg_exec_options opt = {.threads = 1, .seed = j->s->seed + (uint64_t)rank, .comm = c};
	gg_model *m = model_load(j->d, j->bytes, j->like);
	if (!m)
		return false;
	gg_forget_choices(m);
	gg_graph *g = m->main;
	if (j->ulps)
		take_apart(g);
	gg_tensor *in = take_inputs(j, rank);
	gg_exec *x = 0;
	bool good = same_inputs(j, g) && (!c || gg_bind_world(j->d, m, rank, c->size)) &&
	            (x = gg_exec_new(j->d, m, &opt)) && (!j->ulps || nudge_params(j, x, g));
	if (good && j->ulps)
		gg_exec_watch(x, &moves);
	good = good && run_steps(j, x, g, rank, in, o);
	if (x)
		gg_exec_free(x);
	for (size_t i = 0; i < j->s->nin; i++)
		free(in[i].data);
	free(in);
	gg_model_free(m);
	return good;
}

static bool on_rank(gg_comm *c, void *arg)
{
	job *j = arg;
	return run_rank(j, c, &j->out[c->rank]);
}

bool sample_run(gg_diag *d, const gg_buf *bytes, const gg_model *like, const sample *s, int ulps,
                uint64_t salt, outcome *out)
{
	job j = {d, bytes, like, s, ulps, salt, out};
	*out = (outcome){0};
	if (!s->world)
		return run_rank(&j, 0, out);
	j.out = gg_xcalloc((size_t)s->world, sizeof *j.out);
	bool good = gg_world_run(s->world, on_rank, &j);
	for (int k = 0; k < s->world; k++) {
		for (size_t i = 0; i < j.out[k].n; i++)
			GG_PUSH(out->r, out->n, out->cap, j.out[k].r[i]);
		free(j.out[k].r);
	}
	free(j.out);
	return good;
}

void outcome_fini(outcome *o)
{
	for (size_t i = 0; i < o->n; i++)
		free(o->r[i].t.data);
	free(o->r);
	*o = (outcome){0};
}
