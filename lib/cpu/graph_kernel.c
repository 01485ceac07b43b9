/* GraphKernel nodes: each nest of the body (nest.h) is a chain, and all of them share the threads. */
#include "pointwise.h"
#include "../graph_kernel.h"
#include "../nest.h"
#include "../target.h"
#include <omp.h>
#include <stdlib.h>
#include <string.h>

typedef struct kernel {
	cpu_chain **chain;
	int64_t *start; /* number of the first tile of each; the count of all at the end */
	size_t n;
	int64_t elements;
	bool empty; /* rows of no elements: the reference knows what they give */
} kernel;

typedef struct small {
	const gg_shape *shape; /* that it was last computed for */
	bool narrow;
	int reg;
} small;

typedef struct build {
	gg_call *c;
	const gg_graph *body;
	gg_nests nests;
	gg_tensor *val; /* by mark: shapes, and the data of constants */
	int *reg,
	    *repeat;  /* by mark: of wide and narrow values; of narrow ones along their rows; 0: none yet */
	small *small; /* by mark */
	int *in;      /* by mark: input of the call, or CHAIN_DATA */
	cpu_chain *k; /* of the nest at work */
	const gg_shape *to; /* what the node at work computes */
	bool narrow;
} build;

static const gg_shape *shape_of(const build *b, const gg_value *v) { return &b->val[v->mark].shape; }

/* The constant or input itself. */
static const gg_value *origin(const gg_value *v)
{
	while (v->producer)
		v = gg_in(v->producer, 0);
	return v;
}

static int given(build *b, const gg_value *v)
{
	const gg_value *from = origin(v);
	int in = b->in[from->mark];
	const gg_layout l = in < 0 ? GG_PLAIN : b->c->in_layout[in];
	return chain_operand(b->k, in, in < 0 ? b->val[from->mark].data : 0, shape_of(b, v), l, b->to,
	                     b->c->out_layout[0], b->narrow);
}

static int emit(build *b, const gg_node *n);

/* The register of v, which the node at work reads. */
static int value(build *b, gg_value *v)
{
	if (gg_is_given(v))
		return given(b, v);
	small *s = &b->small[v->mark];
	switch ((gg_role)b->nests.role[v->mark]) {
	case GG_SMALL_VALUE:
		if (!s->shape || !gg_shape_eq(s->shape, b->to) || s->narrow != b->narrow)
			*s = (small){b->to, b->narrow, emit(b, v->producer)};
		return s->reg;
	case GG_NARROW_VALUE:
		if (b->narrow)
			return b->reg[v->mark];
		if (!b->repeat[v->mark])
			b->repeat[v->mark] = chain_repeat(b->k, b->reg[v->mark]);
		return b->repeat[v->mark];
	case GG_WIDE_VALUE:
		break;
	}
	return b->reg[v->mark];
}

static int source(void *ctx, const gg_node *n, int i) { return value(ctx, gg_in(n, i)); }

static float sum_square(int64_t n, const float *x) { return vec->sum_square(n, x, 0); }

static int emit_fold(build *b, const gg_node *n)
{
	const struct {
		const char *op;
		chain_fold_fn *f;
	} folds[] = {{"ReduceSum", vec->sum},         {"ReduceMean", vec->sum},
	             {"ReduceMax", vec->row_max},     {"ReduceMin", vec->row_min},
	             {"ReduceSumSquare", sum_square}, {"ReduceL2", sum_square},
	             {"ReduceL1", vec->sum_abs}};
	size_t i = 0;
	while (strcmp(folds[i].op, n->op->name))
		i++;
	const gg_value *x = gg_in(n, 0);
	b->to = shape_of(b, x);
	b->narrow = false;
	int r = chain_fold(b->k, folds[i].f, value(b, gg_in(n, 0)));
	if (!strcmp(n->op->name, "ReduceL2"))
		r = chain_map(b->k, FN(sqrt), r, -1, 0, 0, true);
	float part = (float)gg_shape_count(shape_of(b, n->out[0])) / (float)gg_shape_count(b->to);
	if (!strcmp(n->op->name, "ReduceMean"))
		r = chain_map(b->k, FN(scale), r, -1, &part, 1, true);
	return r;
}

/* Its register, of what b->to says. */
static int emit(build *b, const gg_node *n)
{
	if (n->op->flags & GG_VIEW)
		return value(b, gg_in(n, 0));
	if (!strcmp(n->op->name, "Expand"))
		return chain_map(b->k, FN(copy), value(b, gg_in(n, 0)), -1, 0, 0, b->narrow);
	return cpu_emit(b->k, n, b->narrow, source, b);
}

static void emit_node(build *b, const gg_node *n)
{
	const gg_value *v = n->out[0];
	gg_role role = (gg_role)b->nests.role[v->mark];
	if (gg_is_given(v) || role == GG_SMALL_VALUE) /* computed where it is read */
		return;
	b->to = shape_of(b, v);
	b->narrow = role == GG_NARROW_VALUE;
	if (n->op->flags & GG_VIEW)
		b->reg[v->mark] = b->reg[gg_in(n, 0)->mark];
	else
		b->reg[v->mark] = strncmp(n->op->name, "Reduce", 6) ? emit(b, n) : emit_fold(b, n);
}

/* ---- one chain a nest ------------------------------------------------------------------------- */

static cpu_chain *start_nest(const build *b, const gg_nest *nest)
{
	const gg_shape *s = shape_of(b, nest->full);
	int64_t row = nest->row ? 1 : 0;
	for (int i = s->rank - nest->row; i < s->rank; i++)
		row *= s->dim[i];
	return chain_new(gg_shape_count(s), row);
}

static void build_chains(build *b, kernel *k)
{
	const gg_graph *body = b->body;
	for (size_t i = 0; i < k->n; i++) {
		k->chain[i] = start_nest(b, &b->nests.nest[i]);
		k->empty |= b->nests.nest[i].row && !gg_shape_count(shape_of(b, b->nests.nest[i].full));
	}
	for (const gg_node *n = body->first; n; n = n->next) {
		b->k = k->chain[b->nests.part[n->out[0]->mark]];
		emit_node(b, n);
	}
	for (size_t i = 0; i < body->nout; i++) {
		const gg_value *v = body->out[i]->value;
		chain_give(k->chain[b->nests.part[v->mark]], b->reg[v->mark], (int)i,
		           b->nests.role[v->mark] == GG_NARROW_VALUE);
	}
	for (size_t i = 0; i < k->n; i++) {
		chain_finish(k->chain[i]);
		k->start[i + 1] = k->start[i] + chain_tiles(k->chain[i]);
		k->elements += chain_elements(k->chain[i]);
	}
}

static void number_givens(build *b)
{
	for (size_t i = 0; i < b->body->nin; i++)
		b->in[b->body->in[i]->mark] = (int)i;
	for (const gg_value *v = b->body->consts; v; v = v->next_const)
		b->in[v->mark] = CHAIN_DATA;
}

static bool prepare(gg_call *c)
{
	build b = {.c = c, .body = gg_gk_body(c->node)};
	gg_arena a = {0};
	const char *why;
	if (!gg_nests_of(b.body, &a, &b.nests, &why))
		gg_bug("node '%s': %s", gg_node_name(c->node), why);
	bool good = gg_gk_shapes(c->d, b.body, c->in, &a, &b.val);
	size_t n = gg_body_number(b.body) + 1;
	kernel *k = gg_xcalloc(1, sizeof *k);
	c->state = k;
	k->n = b.nests.n;
	k->chain = gg_xcalloc(k->n + 1, sizeof *k->chain);
	k->start = gg_xcalloc(k->n + 1, sizeof *k->start);
	b.reg = gg_alloc_n(&a, n, sizeof *b.reg);
	b.repeat = gg_alloc_n(&a, n, sizeof *b.repeat);
	b.small = gg_alloc_n(&a, n, sizeof *b.small);
	b.in = gg_alloc_n(&a, n, sizeof *b.in);
	if (good) {
		number_givens(&b);
		build_chains(&b, k);
	}
	gg_arena_fini(&a);
	return good;
}

static void release(gg_call *c)
{
	kernel *k = c->state;
	for (size_t i = 0; i < k->n; i++)
		cpu_chain_free(k->chain[i]);
	free(k->chain);
	free(k->start);
	free(k);
}

/* Tiles a to b of all chains, numbered through. */
static void run_tiles(const kernel *k, const gg_call *c, float *const *out, int64_t a, int64_t b)
{
	for (size_t i = 0; i < k->n; i++) {
		int64_t from = a > k->start[i] ? a : k->start[i], to = cpu_min(b, k->start[i + 1]);
		if (from < to)
			chain_run(k->chain[i], c, out, from - k->start[i], to - k->start[i]);
	}
}

static bool run_reference(gg_call *c)
{
	gg_tensor *out = gg_xcalloc((size_t)c->nout, sizeof *out);
	bool good = gg_eval_node(c->d, c->node, c->nin, c->in, c->nout, out);
	for (int i = 0; i < c->nout && good; i++) {
		if (gg_nbytes(&out[i]))
			memcpy(c->out[i].data, out[i].data, gg_nbytes(&out[i]));
		free(out[i].data);
	}
	free(out);
	return good;
}

static bool run(gg_call *c)
{
	const kernel *k = c->state;
	if (k->empty)
		return run_reference(c);
	float **out = gg_xcalloc((size_t)c->nout, sizeof *out);
	int64_t all = k->start[k->n];
	int threads = chain_threads(k->elements, all);
	for (int i = 0; i < c->nout; i++)
		out[i] = c->out[i].data;
	if (threads <= 1)
		run_tiles(k, c, out, 0, all);
	else
#pragma omp parallel num_threads(threads)
	{
		int64_t t = omp_get_thread_num(), n = omp_get_num_threads();
		run_tiles(k, c, out, all * t / n, all * (t + 1) / n);
	}
	free(out);
	return true;
}

const gg_kernel cpu_graph_kernel = {"cpu_graph_kernel", prepare, run, release};
const gg_kernel cpu_graph_kernel_rows = {"cpu_graph_kernel_rows", prepare, run, release};
