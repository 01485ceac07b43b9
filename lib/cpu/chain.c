#include "chain.h"
#include <stdlib.h>
#include <string.h>

enum { TILE = 1024, SMALL = 16384, OPERAND = 1 << 24 }; /* OPERAND: registers from here on are operands */

typedef struct operand {
	int in;            /* of the call, CHAIN_HEAD or CHAIN_DATA */
	const float *data; /* of CHAIN_DATA */
	int rank;          /* merged dims, and how far apart their elements lie: 0 where it repeats */
	int64_t dim[GG_MAX_RANK], stride[GG_MAX_RANK];
	bool narrow, contiguous, fixed; /* lies like the elements; the same for every tile */
	int64_t span;                   /* elements it reaches over */
} operand;

/* dst, x and y: registers. */
typedef struct step {
	chain_kind kind;
	bool narrow;
	int dst, x, y;
	int out; /* the output that dst is a piece of; -1: none */
	union {
		vec_fn *map;
		chain_fold_fn *fold;
	};
	float a[2];
} step;

struct cpu_chain {
	step *step;
	operand *op;
	size_t nsteps, nops, cap_steps, cap_ops;
	int nregs;
	int64_t total, row, tile;
};

cpu_chain *chain_new(int64_t total, int64_t row)
{
	cpu_chain *k = gg_xcalloc(1, sizeof *k);
	k->total = total;
	k->row = row;
	return k;
}

void cpu_chain_free(cpu_chain *k)
{
	if (!k)
		return;
	free(k->step);
	free(k->op);
	free(k);
}

int chain_steps(const cpu_chain *k) { return (int)k->nsteps; }

/* ---- operands ------------------------------------------------------------------------------- */

/* Strides in the output's order of dims; 0 where the operand repeats. */
static void set_strides(operand *o, const gg_shape *s, gg_layout l, const gg_shape *out, gg_layout lout,
                        int64_t *stride)
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
		stride[i] = logical[!reorder || i == 0 ? i : i == out->rank - 1 ? 1 : i + 1];
}

/* Dims that are walked alike become one. */
static void merge(operand *o, int rank, const int64_t *dim, const int64_t *stride)
{
	for (int i = 0; i < rank; i++) {
		if (dim[i] == 1)
			continue;
		if (o->rank && o->stride[o->rank - 1] == stride[i] * dim[i]) {
			o->dim[o->rank - 1] *= dim[i];
			o->stride[o->rank - 1] = stride[i];
			continue;
		}
		o->dim[o->rank] = dim[i];
		o->stride[o->rank++] = stride[i];
	}
	o->contiguous = !o->rank || (o->rank == 1 && o->stride[0] == 1);
}

static bool same_operand(const operand *a, const operand *b)
{
	size_t n = (size_t)a->rank * sizeof *a->dim;
	return a->in == b->in && a->data == b->data && a->narrow == b->narrow && a->rank == b->rank &&
	       !memcmp(a->dim, b->dim, n) && !memcmp(a->stride, b->stride, n);
}

int chain_operand(cpu_chain *k, int in, const float *data, const gg_shape *s, gg_layout l,
                  const gg_shape *out, gg_layout lout, bool narrow)
{
	operand o = {.in = in, .data = data, .narrow = narrow};
	int64_t dim[GG_MAX_RANK], stride[GG_MAX_RANK];
	set_strides(&o, s, l, out, lout, stride);
	merge(&o, cpu_physical(out, lout, dim), dim, stride);
	for (size_t i = 0; i < k->nops; i++)
		if (same_operand(&k->op[i], &o))
			return OPERAND + (int)i;
	GG_PUSH(k->op, k->nops, k->cap_ops, o);
	return OPERAND + (int)k->nops - 1;
}

/* After so many elements it begins again. */
static int64_t period(const operand *o, int64_t total)
{
	return !o->rank ? 1 : o->stride[0] || !o->dim[0] ? total : total / o->dim[0];
}

/* ---- steps ---------------------------------------------------------------------------------- */

static int add_step(cpu_chain *k, step s)
{
	s.dst = (int)k->nsteps;
	s.out = -1;
	GG_PUSH(k->step, k->nsteps, k->cap_steps, s);
	return s.dst;
}

int chain_map(cpu_chain *k, size_t fn, int x, int y, const float *a, int na, bool narrow)
{
	step s = {.kind = CHAIN_MAP, .narrow = narrow, .x = x, .y = y < 0 ? x : y};
	s.map = *(vec_fn *const *)((const char *)vec + fn);
	for (int i = 0; i < na; i++)
		s.a[i] = a[i];
	return add_step(k, s);
}

int chain_fold(cpu_chain *k, chain_fold_fn *f, int x)
{
	return add_step(k, (step){.kind = CHAIN_FOLD, .narrow = true, .x = x, .y = x, .fold = f});
}

int chain_repeat(cpu_chain *k, int x) { return add_step(k, (step){.kind = CHAIN_REPEAT, .x = x, .y = x}); }

void chain_give(cpu_chain *k, int reg, int out, bool narrow)
{
	if (reg >= OPERAND || k->step[reg].out >= 0)
		reg = chain_map(k, FN(copy), reg, -1, 0, 0, narrow);
	k->step[reg].out = out;
}

/* ---- finishing ------------------------------------------------------------------------------ */

/* Steps write to fresh registers; now let them share: a register is free after its last reader. */
static void share_registers(cpu_chain *k)
{
	size_t n = k->nsteps;
	int *last = gg_xcalloc(n + 1, sizeof *last), *place = gg_xcalloc(n + 1, sizeof *place);
	bool *busy = gg_xcalloc(n + 1, sizeof *busy);
	for (size_t s = 0; s < n; s++) {
		int in[] = {k->step[s].x, k->step[s].y, (int)s};
		for (int i = 0; i < 3; i++)
			if (in[i] < OPERAND)
				last[in[i]] = (int)s;
	}
	for (size_t s = 0; s < n; s++) {
		step *p = &k->step[s];
		int read[] = {p->x, p->y}, free = 0;
		for (int i = 0; i < 2 && p->kind != CHAIN_REPEAT;
		     i++) /* it must not write over what it reads */
			if (read[i] < OPERAND && last[read[i]] == (int)s)
				busy[place[read[i]]] = false;
		while (busy[free])
			free++;
		for (int i = 0; i < 2; i++)
			if (read[i] < OPERAND && last[read[i]] == (int)s)
				busy[place[read[i]]] = false;
		p->x = p->x < OPERAND ? place[p->x] : p->x;
		p->y = p->y < OPERAND ? place[p->y] : p->y;
		busy[free] = last[s] != (int)s;
		place[s] = p->dst = free;
		k->nregs = free + 1 > k->nregs ? free + 1 : k->nregs;
	}
	free(last);
	free(place);
	free(busy);
}

/* Whole rows; else whole periods of what repeats most slowly within a tile. */
static void choose_tile(cpu_chain *k)
{
	int64_t unit = k->row > 0 ? k->row : 1;
	for (size_t j = 0; !k->row && j < k->nops; j++) {
		int64_t p = period(&k->op[j], k->total);
		if (!k->op[j].contiguous && p <= TILE && p > unit)
			unit = p;
	}
	k->tile = unit >= TILE ? unit : TILE / unit * unit;
	for (size_t j = 0; j < k->nops; j++) {
		operand *o = &k->op[j];
		int64_t p = period(o, o->narrow ? k->total / unit : k->total);
		o->fixed = !(o->contiguous && o->rank) && p &&
		           (o->narrow ? k->tile / unit : k->tile) % p == 0;
		o->contiguous &= !o->fixed;
	}
}

void chain_finish(cpu_chain *k)
{
	if (k->total)
		choose_tile(k);
	share_registers(k);
	k->step = gg_xrealloc(k->step, (k->nsteps + 1) * sizeof *k->step);
	k->op = gg_xrealloc(k->op, (k->nops + 1) * sizeof *k->op);
}

/* ---- running -------------------------------------------------------------------------------- */

/* n elements of a repeating operand from element `at` on: in place when they lie so, else into d. */
static const float *spread(const operand *o, const float *src, int64_t at, int64_t n, float *d)
{
	int64_t idx[GG_MAX_RANK], off = 0;
	int last = o->rank - 1;
	int64_t inner = last < 0 ? at + n : o->dim[last], s = last < 0 ? 0 : o->stride[last];
	int64_t row = at / inner, col = at % inner;
	float *to = d;
	for (int i = last; i-- > 0; row /= o->dim[i]) {
		idx[i] = row % o->dim[i];
		off += idx[i] * o->stride[i];
	}
	if (s == 1 && col + n <= inner)
		return src + off + col;
	for (int64_t m; n > 0; n -= m, to += m, col = 0) {
		m = cpu_min(n, inner - col);
		const float *p = src + off + col * s;
		if (s == 0)
			vec->fill(m, to, *p);
		else if (s == 1)
			memcpy(to, p, (size_t)m * sizeof *to);
		else
			for (int64_t j = 0; j < m; j++)
				to[j] = p[j * s];
		for (int i = last; i-- > 0;) {
			off += o->stride[i];
			if (++idx[i] < o->dim[i])
				break;
			off -= idx[i] * o->stride[i];
			idx[i] = 0;
		}
	}
	return d;
}

typedef struct tiles {
	const cpu_chain *k;
	const float **src, **reg; /* reg: registers, then operands */
	float *own, *fills;       /* TILE floats or a row for each register, for each operand */
	float *const *out;
} tiles;

static const float *reg_of(const tiles *t, int r)
{
	return t->reg[r < OPERAND ? r : t->k->nregs + r - OPERAND];
}

static void load(const tiles *t, size_t j, int64_t at, int64_t n)
{
	const operand *o = &t->k->op[j];
	int64_t unit = o->narrow && t->k->row ? t->k->row : 1;
	at /= unit;
	n /= unit;
	t->reg[(size_t)t->k->nregs + j] =
	    o->contiguous ? t->src[j] + at : spread(o, t->src[j], at, n, t->fills + (int64_t)j * t->k->tile);
}

static void run_step(const tiles *t, const step *p, int64_t at, int64_t n)
{
	int64_t row = t->k->row, rows = row ? n / row : n;
	float *d = t->own + p->dst * t->k->tile;
	const float *x = reg_of(t, p->x);
	if (p->out >= 0)
		d = t->out[p->out] + (p->narrow ? at / row : at);
	if (p->kind == CHAIN_MAP)
		p->map(p->narrow ? rows : n, d, x, reg_of(t, p->y), p->a);
	for (int64_t i = 0; p->kind == CHAIN_FOLD && i < rows; i++)
		d[i] = p->fold(row, x + i * row);
	for (int64_t i = 0; p->kind == CHAIN_REPEAT && i < rows; i++)
		vec->fill(row, d + i * row, x[i]);
	t->reg[p->dst] = d;
}

int64_t chain_tiles(const cpu_chain *k) { return k->total ? (k->total + k->tile - 1) / k->tile : 0; }

int64_t chain_elements(const cpu_chain *k) { return k->total; }

int chain_threads(int64_t elements, int64_t tiles)
{
	return elements < SMALL ? 1 : (int)cpu_min(cpu_threads, tiles);
}

void chain_run(const cpu_chain *k, const gg_call *c, float *const *out, int64_t a, int64_t b)
{
	size_t regs = (size_t)k->nregs + k->nops;
	tiles t = {.k = k, .out = out, .own = gg_xaligned((regs + 1) * (size_t)k->tile * sizeof(float))};
	const float **p = gg_xcalloc(regs + k->nops + 1, sizeof *p);
	t.fills = t.own + k->nregs * k->tile;
	t.reg = p;
	t.src = p + regs;
	for (size_t j = 0; j < k->nops; j++) {
		const operand *o = &k->op[j];
		t.src[j] = o->in == CHAIN_HEAD ? out[0] : o->in == CHAIN_DATA ? o->data : c->in[o->in].data;
		if (o->fixed)
			load(&t, j, 0, cpu_min(k->tile, k->total));
	}
	for (int64_t i = a; i < b; i++) {
		int64_t at = i * k->tile, n = cpu_min(k->tile, k->total - at);
		for (size_t j = 0; j < k->nops; j++)
			if (!k->op[j].fixed)
				load(&t, j, at, n);
		for (size_t s = 0; s < k->nsteps; s++)
			run_step(&t, &k->step[s], at, n);
	}
	free(p);
	free(t.own);
}

/* An operand that is not read at the place being written lies over the output; and none may that is read
 * after the head of a run wrote there. */
bool cpu_chain_overlaps(const cpu_chain *k, const gg_call *c)
{
	const char *out = c->out[0].data;
	bool head = false;
	for (size_t j = 0; j < k->nops; j++)
		head |= k->op[j].in == CHAIN_HEAD;
	for (size_t j = 0; j < k->nops; j++) {
		if (k->op[j].in < 0)
			continue;
		const char *p = c->in[k->op[j].in].data;
		bool apart = p + k->op[j].span * (int64_t)sizeof(float) <= out ||
		             out + k->total * (int64_t)sizeof(float) <= p;
		if (!apart && (head || p != out || !k->op[j].contiguous))
			return true;
	}
	return false;
}
