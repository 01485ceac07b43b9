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

static bool run(gg_call *c)
{
	const gg_tensor *x = &c->in[cpu_slot(c, c->node, 0)];
	int rank = x->shape.rank, runs = 0, kind = 0;
	uint32_t bits = reduced_axes(c, rank);
	int64_t size[GG_MAX_RANK + 2] = {1}, total = gg_count(x); /* kept, reduced, kept, ... */
	while (strcmp(names[kind], c->node->op->name))
		kind++;
	if (!gg_count(&c->out[0]))
		return true;
	if (!total || !bits)
		return cpu_reference(c, c->out[0].data);
	for (int i = 0; i < rank; i++) {
		if (x->shape.dim[i] == 1)
			continue;
		if ((bits >> i & 1) != (uint32_t)(runs & 1))
			size[++runs] = 1;
		size[runs] *= x->shape.dim[i];
	}
	float *out = cpu_out_begin(c, 1, (int[]){0}), *moved = 0;
	if (runs > 2) {
		moved = move_last(x, bits);
		size[0] = gg_count(&c->out[0]);
		size[1] = total / size[0];
	}
	fold(kind, size[0], runs ? size[1] : 1, runs == 2 ? size[2] : 1, moved ? moved : x->data, out);
	free(moved);
	cpu_out_end(c, out);
	return true;
}

const gg_kernel cpu_reduce = {"cpu_reduce", 0, run, 0};
