/* Softmax and LogSoftmax along one axis: rows where it is the last, columns in blocks elsewhere. */
#include "cpu.h"
#include <math.h>
#include <string.h>

enum { COLS = 512 };

static void row(bool log, int64_t n, const float *x, float *y)
{
	float max = vec->row_max(n, x), a;
	if (log) {
		/* the exponentials are only needed for their sum: a piece at a time */
		float piece[COLS];
		double sum = 0;
		for (int64_t i = 0; i < n; i += COLS)
			sum += vec->exp_sum(cpu_min(COLS, n - i), piece, x + i, max);
		vec->norm1(n, y, x, max, 1, -(float)logf((float)sum));
		return;
	}
	a = 1 / vec->exp_sum(n, y, x, max);
	vec->scale(n, y, y, y, &a);
}

/* `cols` columns, `step` apart from one line to the next, n lines. */
static void columns(bool log, int64_t n, int64_t step, int64_t cols, const float *x, float *y)
{
	float max[COLS], sum[COLS], line[COLS];
	memcpy(max, x, (size_t)cols * sizeof *max);
	vec->fill(cols, sum, 0);
	for (int64_t i = 1; i < n; i++)
		vec->max(cols, max, x + i * step, max, 0);
	for (int64_t i = 0; i < n; i++)
		vec->acc_exp(cols, log ? line : y + i * step, sum, x + i * step, max);
	if (log) {
		vec->log(cols, sum, sum, sum, 0);
		for (int64_t i = 0; i < n; i++) {
			vec->sub(cols, y + i * step, x + i * step, max, 0);
			vec->sub(cols, y + i * step, y + i * step, sum, 0);
		}
		return;
	}
	for (int64_t i = 0; i < n; i++)
		vec->div(cols, y + i * step, y + i * step, sum, 0);
}

static bool run(gg_call *c)
{
	const gg_shape *s = &c->in[0].shape;
	bool log = !strcmp(c->node->op->name, "LogSoftmax");
	int axis = gg_eval_axis(gg_get_int(c->node, "axis"), s->rank);
	int64_t total = gg_count(&c->in[0]), inner = 1, n = s->rank ? s->dim[axis] : 1;
	const float *x = c->in[0].data;
	float *y = c->out[0].data;
	if (!total)
		return true;
	for (int i = axis + 1; i < s->rank; i++)
		inner *= s->dim[i];
	int64_t blocks = inner == 1 ? 1 : (inner + COLS - 1) / COLS, outer = total / (n * inner);
	/* In place is fine for whole rows and columns, an overlap is not. */
	if (y != x)
		y = cpu_out_begin(c, 1, (int[]){0});
#pragma omp parallel for num_threads(cpu_threads) if (total > 4096)
	for (int64_t k = 0; k < outer * blocks; k++) {
		int64_t at = k / blocks * n * inner + k % blocks * COLS;
		if (inner == 1)
			row(log, n, x + at, y + at);
		else
			columns(log, n, inner, cpu_min(COLS, inner - k % blocks * COLS), x + at, y + at);
	}
	cpu_out_end(c, y);
	return true;
}

const gg_kernel cpu_softmax = {"cpu_softmax", 0, run, 0};
