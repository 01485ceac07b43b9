/* Pointwise nodes, alone or in runs: each is a step or two of a chain (chain.h). */
#include "pointwise.h"
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* ---- ops ------------------------------------------------------------------------------------ */

enum form { UNARY, BINARY, VARIADIC, CLIP, GELU };
typedef struct pointwise_op {
	const char *name;
	size_t fn; /* member of vec_table */
	enum form form;
	const char *attr[2];
} pointwise_op;

static const pointwise_op ops[] = {
    {"Abs", FN(abs)},
    {"Add", FN(add), BINARY},
    {"Ceil", FN(ceil)},
    {"Clip", FN(clip), CLIP},
    {"Div", FN(div), BINARY},
    {"Elu", FN(elu), UNARY, {"alpha"}},
    {"Erf", FN(erf)},
    {"Exp", FN(exp)},
    {"Floor", FN(floor)},
    {"Gelu", FN(gelu), GELU},
    {"HardSigmoid", FN(hardsigmoid), UNARY, {"alpha", "beta"}},
    {"HardSwish", FN(hardswish)},
    {"LeakyRelu", FN(leaky), UNARY, {"alpha"}},
    {"Log", FN(log)},
    {"Max", FN(max), VARIADIC},
    {"Min", FN(min), VARIADIC},
    {"Mish", FN(mish)},
    {"Mul", FN(mul), BINARY},
    {"Neg", FN(neg)},
    {"PRelu", FN(prelu), BINARY},
    {"ReluGrad", FN(relugrad), BINARY},
    {"Pow", FN(pow), BINARY},
    {"Reciprocal", FN(recip)},
    {"Relu", FN(relu)},
    {"Selu", FN(selu), UNARY, {"alpha", "gamma"}},
    {"Sigmoid", FN(sigmoid)},
    {"Softplus", FN(softplus)},
    {"Softsign", FN(softsign)},
    {"Sqrt", FN(sqrt)},
    {"Sub", FN(sub), BINARY},
    {"Sum", FN(add), VARIADIC},
    {"Swish", FN(swish), UNARY, {"alpha"}},
    {"QuickGelu", FN(swish), UNARY, {"alpha"}},
    {"Tanh", FN(tanh)},
    {"GeluTanh", FN(gelu_tanh)}, /* as an activation */
};

static const pointwise_op *find_op(const char *name)
{
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
		if (!strcmp(ops[i].name, name))
			return &ops[i];
	gg_bug("op '%s' has a row for cpu_pointwise but no loop", name);
}

int cpu_emit(cpu_chain *k, const gg_node *n, bool narrow, cpu_source_fn *source, void *ctx)
{
	const pointwise_op *o = find_op(n->op->name);
	int x = source(ctx, n, 0), r = x, na = 0;
	float a[2] = {0};
	switch (o->form) {
	case UNARY:
		for (; na < 2 && o->attr[na]; na++)
			a[na] = gg_get_float(n, o->attr[na]);
		return chain_map(k, o->fn, x, -1, a, na, narrow);
	case GELU:
		return chain_map(k, strcmp(gg_get_string(n, "approximate"), "tanh") ? o->fn : FN(gelu_tanh),
		                 x, -1, 0, 0, narrow);
	case BINARY:
		return chain_map(k, o->fn, x, source(ctx, n, 1), 0, 0, narrow);
	case VARIADIC:
		for (int i = 1; i < gg_nargs(n); i++)
			r = chain_map(k, o->fn, r, source(ctx, n, i), 0, 0, narrow);
		break;
	case CLIP:
		if (gg_in(n, 1))
			r = chain_map(k, FN(atleast), r, source(ctx, n, 1), 0, 0, narrow);
		if (gg_in(n, 2))
			r = chain_map(k, FN(atmost), r, source(ctx, n, 2), 0, 0, narrow);
		break;
	}
	return r == x ? chain_map(k, FN(copy), x, -1, 0, 0, narrow) : r;
}

/* ---- runs of nodes -------------------------------------------------------------------------- */

enum { MAX_RUN = 64 };
typedef struct build {
	cpu_chain *k;
	gg_call *c;
	int from;
	const gg_shape *shape;
	gg_layout layout;
	int head;         /* register of what the head made */
	int reg[MAX_RUN]; /* by covered node: its register */
} build;

static int input(build *b, int in)
{
	return chain_operand(b->k, in, 0, &b->c->in[in].shape, b->c->in_layout[in], b->shape, b->layout,
	                     false);
}

/* Register of what node n reads in slot i. */
static int source(void *ctx, const gg_node *n, int i)
{
	build *b = ctx;
	gg_value *v = gg_in(n, i);
	for (int j = 0; j < b->c->ncover; j++)
		if (v->producer == b->c->cover[j])
			return j < b->from ? b->head : b->reg[j];
	return input(b, cpu_slot(b->c, n, i));
}

static void emit_head(build *b, const cpu_head *h)
{
	b->head = chain_operand(b->k, CHAIN_HEAD, 0, b->shape, b->layout, b->shape, b->layout, false);
	if (h->add >= 0) {
		int term = input(b, h->add);
		if (h->beta != 1)
			term = chain_map(b->k, FN(scale), term, -1, &h->beta, 1, false);
		b->head = chain_map(b->k, FN(add), b->head, term, 0, 0, false);
	}
	if (h->activation && *h->activation)
		b->head = chain_map(b->k, find_op(h->activation)->fn, b->head, -1, h->param, 2, false);
}

cpu_chain *cpu_chain_new(gg_call *c, const cpu_head *h, int from)
{
	build b = {.c = c, .from = from, .shape = &c->out[0].shape, .layout = c->out_layout[0]};
	b.k = chain_new(gg_shape_count(b.shape), 0);
	if (h)
		emit_head(&b, h);
	for (int j = from; j < c->ncover; j++)
		b.reg[j] = cpu_emit(b.k, c->cover[j], false, source, &b);
	if (!chain_steps(b.k)) {
		cpu_chain_free(b.k);
		return 0;
	}
	chain_give(b.k, chain_steps(b.k) - 1, 0, false);
	chain_finish(b.k);
	return b.k;
}

void cpu_chain_run(const cpu_chain *k, const gg_call *c, float *out)
{
	int64_t tiles = chain_tiles(k);
	int threads = chain_threads(chain_elements(k), tiles);
	if (threads <= 1) {
		chain_run(k, c, &out, 0, tiles);
		return;
	}
#pragma omp parallel num_threads(threads)
	{
		int64_t t = omp_get_thread_num(), n = omp_get_num_threads();
		chain_run(k, c, &out, tiles * t / n, tiles * (t + 1) / n);
	}
}

/* ---- the kernel ----------------------------------------------------------------------------- */

static bool prepare(gg_call *c)
{
	c->state = cpu_chain_new(c, 0, 0);
	return true;
}

static bool run(gg_call *c)
{
	bool aside = cpu_chain_overlaps(c->state, c);
	float *out = aside ? gg_xaligned(gg_nbytes(&c->out[0])) : c->out[0].data;
	cpu_chain_run(c->state, c, out);
	if (aside) {
		memcpy(c->out[0].data, out, gg_nbytes(&c->out[0]));
		free(out);
	}
	return true;
}

static void release(gg_call *c) { cpu_chain_free(c->state); }

const gg_kernel cpu_pointwise = {"cpu_pointwise", prepare, run, release};
