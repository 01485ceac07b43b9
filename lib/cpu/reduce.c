/* Reductions. Axes are merged into kept and reduced runs; a shape that is then
 *
 *     kept reduced            folds rows,
 *     kept reduced kept       folds lines into a line,
 *     anything else           is first moved so that the reduced axes come last. */
#include "cpu.h"
#include "../move.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum kind { SUM, MEAN, MAX, MIN, SQUARE, L1, L2, KINDS };
static const char *const names[KINDS] = {"ReduceSum",       "ReduceMean", "ReduceMax", "ReduceMin",
                                         "ReduceSumSquare", "ReduceL1",   "ReduceL2"};

static uint32_t reduced_axes(const gg_call *c, int rank)
{
	int k = cpu_slot(c, c->node, 1);
	uint32_t bits = 0;
	int64_t n = k < 0 ? 0 : gg_count(&c->in[k]);
	if (!n)
		return gg_get_int(c->node, "noop_with_empty_axes") ? 0 : (1u << rank) - 1;
	for (int64_t i = 0; i < n; i++)
		bits |= 1u << gg_eval_axis(gg_get_i64(&c->in[k], i), rank);
	return bits;
}

static float fold_row(enum kind kind, int64_t n, const float *x)
{
	switch (kind) {
	case MAX:
		return vec->row_max(n, x);
	case MIN:
		return vec->row_min(n, x);
	case L1:
		return vec->sum_abs(n, x);
	case SQUARE:
	case L2:
		return vec->sum_square(n, x, 0);
	default:
		return vec->sum(n, x);
	}
}

/* n lines of `cols` into one; sums in blocks of lines, so that they keep their digits. */
static void fold_lines(enum kind kind, int64_t n, int64_t cols, int64_t step, const float *x, float *y)
{
	float part[512];
	bool sums = kind != MAX && kind != MIN;
	vec->fill(cols, y, sums ? 0 : kind == MAX ? -INFINITY : INFINITY);
	for (int64_t i = 0; i < n; i += 64) {
		vec->fill(cols, part, 0);
		for (int64_t j = i; j < cpu_min(i + 64, n); j++) {
			const float *p = x + j * step;
			if (kind == MAX)
				vec->max(cols, y, p, y, 0);
			else if (kind == MIN)
				vec->min(cols, y, p, y, 0);
			else
				(kind == L1                     ? vec->acc_abs
				 : kind == SQUARE || kind == L2 ? vec->acc_square
				                                : vec->acc_sum)(cols, part, p);
		}
		if (sums)
			vec->acc_sum(cols, y, part);
	}
}

static void fold(enum kind kind, int64_t outer, int64_t n, int64_t inner, const float *x, float *y)
{
	int64_t blocks = inner == 1 ? 1 : (inner + 511) / 512;
#pragma omp parallel for num_threads(cpu_threads) if (outer * n * inner > 16384)
	for (int64_t k = 0; k < outer * blocks; k++) {
		int64_t o = k / blocks, col = k % blocks * 512;
		if (inner == 1)
			y[o] = fold_row(kind, n, x + o * n);
		else
			fold_lines(kind, n, cpu_min(512, inner - col), inner, x + o * n * inner + col,
			           y + o * inner + col);
	}
	float scale = 1.f / (float)n;
	if (kind == MEAN)
		vec->scale(outer * inner, y, y, y, &scale);
	if (kind == L2)
		vec->sqrt(outer * inner, y, y, y, 0);
}

/* Reduced axes last, in a buffer of its own. */
static float *move_last(const gg_tensor *t, uint32_t bits)
{
	int64_t dim[GG_MAX_RANK], from[GG_MAX_RANK], to[GG_MAX_RANK], stride[GG_MAX_RANK], n = 1;
	int rank = t->shape.rank, k = 0;
	float *p = gg_xaligned(gg_nbytes(t));
	gg_strides(&t->shape, stride);
	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < rank; i++)
			if ((bits >> i & 1) == (uint32_t)pass) {
				dim[k] = t->shape.dim[i];
				from[k++] = stride[i];
			}
	for (int i = rank; i-- > 0; n *= dim[i])
		to[i] = n;
	gg_move(sizeof(float), rank, dim, t->data, from, p, to);
	return p;
}

/* The result's axes longer than 1 in the order in which folding leaves them, and as they shall lie. */
typedef struct order {
	int n, axis[GG_MAX_RANK];
} order;

static int physical(int k, int rank, gg_layout l) /* the axis that lies at place k */
{
	return l != GG_NHWC || rank < 3 || k == 0 ? k : k == rank - 1 ? 1 : k + 1;
}

static order folded_order(const gg_call *c, int rank, gg_layout l, uint32_t bits)
{
	order o = {0};
	bool keep = gg_get_int(c->node, "keepdims");
	for (int k = 0; k < rank; k++) {
		int i = physical(k, rank, l), gone = keep ? 0 : __builtin_popcount(bits & ((1u << i) - 1));
		if (!(bits >> i & 1) && c->out[0].shape.dim[i - gone] != 1)
			o.axis[o.n++] = i - gone;
	}
	return o;
}

static order wanted_order(const gg_call *c)
{
	order o = {0};
	const gg_shape *y = &c->out[0].shape;
	for (int k = 0; k < y->rank; k++) {
		int i = physical(k, y->rank, c->out_layout[0]);
		if (y->dim[i] != 1)
			o.axis[o.n++] = i;
	}
	return o;
}

static void reorder(const gg_call *c, const order *is, const order *want, const float *from, float *to)
{
	int64_t dim[GG_MAX_RANK], s[GG_MAX_RANK], d[GG_MAX_RANK], by_axis[GG_MAX_RANK], n = 1;
	for (int k = want->n; k-- > 0; n *= c->out[0].shape.dim[want->axis[k]])
		by_axis[want->axis[k]] = n;
	n = 1;
	for (int k = is->n; k-- > 0; n *= dim[k]) {
		dim[k] = c->out[0].shape.dim[is->axis[k]];
		s[k] = n;
		d[k] = by_axis[is->axis[k]];
	}
	gg_move(sizeof *to, is->n, dim, from, s, to, d);
}

/* Folds x, whose axes are in the order of memory. */
static void fold_all(enum kind kind, const gg_tensor *x, uint32_t bits, int64_t count, float *y)
{
	int64_t size[GG_MAX_RANK + 2] = {1}; /* kept, reduced, kept, ... */
	int runs = 0;
	float *moved = 0;
	for (int i = 0; i < x->shape.rank; i++) {
		if (x->shape.dim[i] == 1)
			continue;
		if ((bits >> i & 1) != (uint32_t)(runs & 1))
			size[++runs] = 1;
		size[runs] *= x->shape.dim[i];
	}
	if (runs > 2) {
		moved = move_last(x, bits);
		size[0] = count;
		size[1] = gg_count(x) / count;
	}
	fold(kind, size[0], runs ? size[1] : 1, runs == 2 ? size[2] : 1, moved ? moved : x->data, y);
	free(moved);
}

static bool run(gg_call *c)
{
	int slot = cpu_slot(c, c->node, 0), kind = 0;
	gg_tensor x = c->in[slot];
	gg_layout l = c->in_layout[slot];
	int rank = x.shape.rank;
	uint32_t bits = reduced_axes(c, rank), there = 0;
	while (strcmp(names[kind], c->node->op->name))
		kind++;
	if (!gg_count(&c->out[0]))
		return true;
	if (!gg_count(&x) || !bits)
		return cpu_reference(c, c->out[0].data);
	cpu_physical(&c->in[slot].shape, l, x.shape.dim);
	for (int k = 0; k < rank; k++)
		there |= (bits >> physical(k, rank, l) & 1) << k;
	order is = folded_order(c, rank, l, bits), want = wanted_order(c);
	bool turn = memcmp(is.axis, want.axis, sizeof is.axis);
	float *out = cpu_out_begin(c, 1, (int[]){slot}), *y = turn ? gg_xaligned(gg_nbytes(&c->out[0])) : out;
	fold_all(kind, &x, there, gg_count(&c->out[0]), y);
	if (turn) {
		reorder(c, &is, &want, y, out);
		free(y);
	}
	cpu_out_end(c, out);
	return true;
}

const gg_kernel cpu_reduce = {"cpu_reduce", 0, run, 0};
