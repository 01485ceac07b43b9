/* Pointwise nodes, alone or in runs: a small program over registers of one tile each.
 *
 *     out, by rows:   |------ inner ------|     tile = whole rows, or a piece of one,
 *                     |-------------------|            at most TILE elements
 *
 * Dims that all operands walk alike are merged first. An operand that lies like the output is read
 * in place; one that repeats is spread into a register, once per thread when every tile sees the
 * same piece. The last step writes the output. */
#include "cpu.h"
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { TILE = 1024, MAX_STEPS = 64, MAX_OPERANDS = 64, MAX_REGS = 2 * MAX_STEPS, SMALL = 16384 };
enum { HEAD = -2 }; /* operand: what the head of the run wrote into the output */

typedef struct operand {
	int in; /* of the call, or HEAD */
	int64_t stride[GG_MAX_RANK];
	bool contiguous, fixed; /* lies like the output; the same for every tile */
	int64_t span;           /* elements it reaches over */
} operand;

/* dst, x and y: registers; operand k is register MAX_STEPS + k. dst -1: the output. */
typedef struct step {
	vec_fn *f;
	int dst, x, y;
	float a[2];
} step;

struct cpu_chain {
	int nsteps, nops, nregs;
	step step[MAX_STEPS];
	operand op[MAX_OPERANDS];
	int rank;
	int64_t dim[GG_MAX_RANK]; /* merged */
	int64_t total, inner, tile;
};

/* ---- ops ------------------------------------------------------------------------------------ */

enum form { UNARY, BINARY, VARIADIC, CLIP, GELU };
typedef struct pointwise_op {
	const char *name;
	size_t fn; /* member of vec_table */
	enum form form;
	const char *attr[2];
} pointwise_op;

#define FN(f) offsetof(vec_table, f)
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

static vec_fn *fn(size_t member) { return *(vec_fn *const *)((const char *)vec + member); }

/* ---- operands ------------------------------------------------------------------------------- */

/* Strides in the output's order of dims; 0 where the operand repeats. */
static void set_strides(operand *o, const gg_shape *s, gg_layout l, const gg_shape *out, gg_layout lout)
{
	int64_t own[GG_MAX_RANK], logical[GG_MAX_RANK] = {0};
	int rank = cpu_physical(s, l, own), skip = out->rank - s->rank;
	bool last = l == GG_NHWC && rank >= 3;
	int64_t n = 1;
	for (int i = rank; i-- > 0; n *= own[i]) {
		int axis = !last || i == 0 ? i : i == rank - 1 ? 1 : i + 1;
		logical[skip + axis] = own[i] == 1 ? 0 : n;
	}
	o->span = n;
	bool reorder = lout == GG_NHWC && out->rank >= 3;
	for (int i = 0; i < out->rank; i++)
		o->stride[i] = logical[!reorder || i == 0 ? i : i == out->rank - 1 ? 1 : i + 1];
}

static int add_operand(cpu_chain *k, int in, const gg_shape *s, gg_layout l, const gg_shape *out,
                       gg_layout lout)
{
	for (int i = 0; i < k->nops; i++)
		if (k->op[i].in == in)
			return MAX_STEPS + i;
	if (k->nops == MAX_OPERANDS)
		return -1;
	operand *o = &k->op[k->nops];
	o->in = in;
	set_strides(o, s, l, out, lout);
	return MAX_STEPS + k->nops++;
}

static bool mergeable(const cpu_chain *k, int i)
{
	for (int j = 0; j < k->nops; j++)
		if (k->op[j].stride[i] != k->op[j].stride[i + 1] * k->dim[i + 1])
			return false;
	return true;
}

static void drop_dim(cpu_chain *k, int i)
{
	k->rank--;
	for (int d = i; d < k->rank; d++) {
		k->dim[d] = k->dim[d + 1];
		for (int j = 0; j < k->nops; j++)
			k->op[j].stride[d] = k->op[j].stride[d + 1];
	}
}

static void merge_dims(cpu_chain *k)
{
	for (int i = k->rank; i-- > 0;)
		if (k->dim[i] == 1)
			drop_dim(k, i);
	for (int i = k->rank - 1; i-- > 0;)
		if (mergeable(k, i)) {
			k->dim[i + 1] *= k->dim[i];
			drop_dim(k, i);
		}
	k->total = 1;
	for (int i = 0; i < k->rank; i++)
		k->total *= k->dim[i];
	k->inner = k->rank ? k->dim[k->rank - 1] : 1;
	k->tile = k->inner >= TILE ? TILE : k->inner ? TILE / k->inner * k->inner : 1;
	for (int j = 0; j < k->nops; j++) {
		operand *o = &k->op[j];
		int64_t n = 1;
		o->contiguous = o->fixed = true;
		for (int i = k->rank; i-- > 0; n *= k->dim[i]) {
			o->contiguous &= o->stride[i] == n;
			o->fixed &= o->stride[i] == 0 || (i == k->rank - 1 && k->inner < TILE);
		}
		o->fixed &= !o->contiguous;
	}
}

/* ---- compiling ------------------------------------------------------------------------------ */

typedef struct build {
	cpu_chain *k;
	gg_call *c;
	int from;
	const gg_shape *shape;
	gg_layout layout;
	int head;           /* register of what the head made */
	int reg[MAX_STEPS]; /* by covered node: its register */
} build;

static int emit(build *b, size_t f, int x, int y)
{
	cpu_chain *k = b->k;
	if (k->nsteps == MAX_STEPS || x < 0)
		return -1;
	k->step[k->nsteps] = (step){.f = fn(f), .dst = k->nregs++, .x = x, .y = y < 0 ? x : y};
	return k->step[k->nsteps++].dst;
}

static int input(build *b, int in)
{
	if (in < 0)
		return -1;
	return add_operand(b->k, in, &b->c->in[in].shape, b->c->in_layout[in], b->shape, b->layout);
}

/* Register of what node n reads in slot i; -1: absent. */
static int source(build *b, const gg_node *n, int i)
{
	gg_value *v = gg_in(n, i);
	for (int j = 0; v && j < b->c->ncover; j++)
		if (v->producer == b->c->cover[j])
			return j < b->from ? b->head : b->reg[j];
	return input(b, cpu_slot(b->c, n, i));
}

static void set_attrs(build *b, const pointwise_op *o, const gg_node *n)
{
	for (int i = 0; i < 2 && o->attr[i]; i++)
		b->k->step[b->k->nsteps - 1].a[i] = gg_get_float(n, o->attr[i]);
}

static int emit_node(build *b, const gg_node *n)
{
	const pointwise_op *o = find_op(n->op->name);
	int x = source(b, n, 0), r = x;
	switch (o->form) {
	case UNARY:
		r = emit(b, o->fn, x, -1);
		set_attrs(b, o, n);
		return r;
	case GELU:
		return emit(b, strcmp(gg_get_string(n, "approximate"), "tanh") ? o->fn : FN(gelu_tanh), x,
		            -1);
	case BINARY:
		return emit(b, o->fn, x, source(b, n, 1));
	case VARIADIC:
		for (int i = 1; i < gg_nargs(n); i++)
			r = emit(b, o->fn, r, source(b, n, i));
		return r == x ? emit(b, FN(copy), x, -1) : r;
	case CLIP:
		if (gg_in(n, 1))
			r = emit(b, FN(atleast), r, source(b, n, 1));
		if (gg_in(n, 2))
			r = emit(b, FN(atmost), r, source(b, n, 2));
		return r == x ? emit(b, FN(copy), x, -1) : r;
	}
	return -1;
}

/* Steps write to fresh registers; now let them share: a register is free after its last reader. */
static void share_registers(cpu_chain *k)
{
	int last[MAX_STEPS], place[MAX_STEPS], nplaces = 0;
	bool busy[MAX_STEPS] = {0};
	for (int s = 0; s < k->nsteps; s++) {
		last[s] = s;
		for (int t = s + 1; t < k->nsteps; t++)
			if (k->step[t].x == s || k->step[t].y == s)
				last[s] = t;
	}
	for (int s = 0; s < k->nsteps; s++) {
		step *p = &k->step[s];
		int x = p->x, y = p->y, free = 0;
		if (x < MAX_STEPS)
			p->x = place[x];
		if (y < MAX_STEPS)
			p->y = place[y];
		if (x < MAX_STEPS && last[x] == s)
			busy[place[x]] = false;
		if (y < MAX_STEPS && last[y] == s)
			busy[place[y]] = false;
		while (busy[free])
			free++;
		busy[free] = true;
		place[s] = p->dst = free;
		nplaces = free + 1 > nplaces ? free + 1 : nplaces;
	}
	k->step[k->nsteps - 1].dst = -1;
	k->nregs = nplaces;
}

static bool emit_head(build *b, const cpu_head *h)
{
	b->head = add_operand(b->k, HEAD, b->shape, b->layout, b->shape, b->layout);
	if (h->add >= 0) {
		int term = input(b, h->add);
		if (h->beta != 1) {
			term = emit(b, FN(scale), term, -1);
			b->k->step[b->k->nsteps - 1].a[0] = h->beta;
		}
		b->head = emit(b, FN(add), b->head, term);
	}
	if (h->activation && *h->activation) {
		b->head = emit(b, find_op(h->activation)->fn, b->head, -1);
		memcpy(b->k->step[b->k->nsteps - 1].a, h->param, sizeof h->param);
	}
	return b->head >= 0;
}

static bool compile(build *b, const cpu_head *h)
{
	if (h && !emit_head(b, h))
		return false;
	for (int j = b->from; j < b->c->ncover; j++)
		if ((b->reg[j] = emit_node(b, b->c->cover[j])) < 0)
			return gg_node_error(b->c->d, GG_UNSUPPORTED, b->c->cover[j],
			                     "more than %d inputs in one call", MAX_OPERANDS);
	return true;
}

bool cpu_chain_new(gg_call *c, const cpu_head *h, int from, cpu_chain **out)
{
	cpu_chain *k = gg_xcalloc(1, sizeof *k);
	build b = {.k = k, .c = c, .from = from, .shape = &c->out[0].shape, .layout = c->out_layout[0]};
	bool ok = compile(&b, h);
	*out = 0;
	if (!ok || !k->nsteps) {
		free(k);
		return ok;
	}
	k->rank = cpu_physical(b.shape, b.layout, k->dim);
	merge_dims(k);
	share_registers(k);
	*out = k;
	return true;
}

void cpu_chain_free(cpu_chain *k) { free(k); }

/* ---- running -------------------------------------------------------------------------------- */

/* n elements of a repeating operand from element `at` of the output on. */
static void spread(const cpu_chain *k, const operand *o, const float *src, int64_t at, int64_t n, float *d)
{
	int64_t idx[GG_MAX_RANK], row = at / k->inner, col = at % k->inner, off = 0;
	int last = k->rank - 1;
	for (int i = last; i-- > 0; row /= k->dim[i]) {
		idx[i] = row % k->dim[i];
		off += idx[i] * o->stride[i];
	}
	int64_t s = last < 0 ? 0 : o->stride[last];
	for (int64_t m; n > 0; n -= m, d += m, col = 0) {
		m = cpu_min(n, k->inner - col);
		const float *p = src + off + col * s;
		if (s == 0)
			vec->fill(m, d, *p);
		else if (s == 1)
			memcpy(d, p, (size_t)m * sizeof *d);
		else
			for (int64_t j = 0; j < m; j++)
				d[j] = p[j * s];
		for (int i = last; i-- > 0;) {
			off += o->stride[i];
			if (++idx[i] < k->dim[i])
				break;
			off -= idx[i] * o->stride[i];
			idx[i] = 0;
		}
	}
}

static void run_tile(const cpu_chain *k, const float *const *src, float *out, float *regs, float *fills,
                     const float **reg, int64_t at, int64_t n)
{
	for (int j = 0; j < k->nops; j++) {
		const operand *o = &k->op[j];
		if (o->contiguous) {
			reg[MAX_STEPS + j] = src[j] + at;
		} else if (!o->fixed) {
			spread(k, o, src[j], at, n, fills + j * TILE);
			reg[MAX_STEPS + j] = fills + j * TILE;
		}
	}
	for (int s = 0; s < k->nsteps; s++) {
		const step *p = &k->step[s];
		float *d = p->dst < 0 ? out + at : regs + p->dst * TILE;
		p->f(n, d, reg[p->x], reg[p->y], p->a);
		if (p->dst >= 0)
			reg[p->dst] = d;
	}
}

/* Tiles a to b of the output, rows kept whole where they fit. */
static void run_tiles(const cpu_chain *k, const float *const *src, float *out, int64_t a, int64_t b)
{
	float *regs = gg_xaligned((size_t)(k->nregs + k->nops + 1) * TILE * sizeof *regs);
	float *fills = regs + k->nregs * TILE;
	const float *reg[MAX_REGS] = {0};
	int64_t pieces = k->inner >= TILE ? (k->inner + TILE - 1) / TILE : 1;
	for (int j = 0; j < k->nops; j++)
		if (k->op[j].fixed) {
			spread(k, &k->op[j], src[j], 0, cpu_min(k->tile, k->total), fills + j * TILE);
			reg[MAX_STEPS + j] = fills + j * TILE;
		}
	for (int64_t t = a; t < b; t++) {
		int64_t at = t * k->tile, end = at + k->tile;
		if (pieces > 1) {
			at = t / pieces * k->inner + t % pieces * TILE;
			end = cpu_min(at + TILE, (t / pieces + 1) * k->inner);
		}
		run_tile(k, src, out, regs, fills, reg, at, cpu_min(end, k->total) - at);
	}
	free(regs);
}

void cpu_chain_run(const cpu_chain *k, const gg_call *c, float *out)
{
	const float *src[MAX_OPERANDS];
	if (!k->total)
		return;
	for (int j = 0; j < k->nops; j++)
		src[j] = k->op[j].in == HEAD ? out : c->in[k->op[j].in].data;
	int64_t tiles = k->inner >= TILE ? k->total / k->inner * ((k->inner + TILE - 1) / TILE)
	                                 : (k->total + k->tile - 1) / k->tile;
	int threads = (int)cpu_min(k->total < SMALL ? 1 : cpu_threads, tiles);
	if (threads <= 1) {
		run_tiles(k, src, out, 0, tiles);
		return;
	}
#pragma omp parallel num_threads(threads)
	{
		int64_t t = omp_get_thread_num(), n = omp_get_num_threads();
		run_tiles(k, src, out, tiles * t / n, tiles * (t + 1) / n);
	}
}

/* An operand that is not read at the place being written lies over the output; behind a head, which
 * writes all of it first, any that lies there. */
bool cpu_chain_overlaps(const cpu_chain *k, const gg_call *c)
{
	const char *out = c->out[0].data;
	bool head = false;
	for (int j = 0; j < k->nops; j++)
		head = head || k->op[j].in == HEAD;
	for (int j = 0; j < k->nops; j++) {
		if (k->op[j].in == HEAD)
			continue;
		const char *p = c->in[k->op[j].in].data;
		bool apart = p + k->op[j].span * (int64_t)sizeof(float) <= out ||
		             out + k->total * (int64_t)sizeof(float) <= p;
		if (!apart && (head || p != out || !k->op[j].contiguous))
			return true;
	}
	return false;
}

/* ---- the kernel ----------------------------------------------------------------------------- */

static bool prepare(gg_call *c)
{
	cpu_chain *k;
	bool ok = cpu_chain_new(c, 0, 0, &k);
	c->state = k;
	return ok;
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
