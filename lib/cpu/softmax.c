/* Softmax and LogSoftmax along one axis, their gradients, and the losses of classes: rows where the axis is
 * the last, columns in blocks elsewhere. */
#include "cpu.h"
#include <math.h>
#include <string.h>

enum { COLS = 512 };

/* log of the sum of exp(x - max): the exponentials are only needed for their sum, a piece at a time */
static float log_sum(int64_t n, const float *x, float max)
{
	float piece[COLS];
	double sum = 0;
	for (int64_t i = 0; i < n; i += COLS)
		sum += vec->exp_sum(cpu_min(COLS, n - i), piece, x + i, max);
	return logf((float)sum);
}

static void row(bool log, int64_t n, const float *x, float *y)
{
	float max = vec->row_max(n, x), a;
	if (log) {
		vec->norm1(n, y, x, max, 1, -log_sum(n, x, max));
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

/* The tensor as outer x n x inner; blocks of columns. */
typedef struct lines {
	int64_t total, outer, n, inner, blocks;
} lines;

static lines along(const gg_shape *s, int axis)
{
	lines l = {.total = gg_shape_count(s), .outer = 1, .n = s->rank ? s->dim[axis] : 1, .inner = 1};
	for (int i = 0; i < axis; i++)
		l.outer *= s->dim[i];
	for (int i = axis + 1; i < s->rank; i++)
		l.inner *= s->dim[i];
	l.blocks = l.inner == 1 ? 1 : (l.inner + COLS - 1) / COLS;
	return l;
}

static bool run(gg_call *c)
{
	const gg_shape *s = &c->in[0].shape;
	bool log = !strcmp(c->node->op->name, "LogSoftmax");
	lines l = along(s, gg_eval_axis(gg_get_int(c->node, "axis"), s->rank));
	const float *x = c->in[0].data;
	float *y = c->out[0].data;
	if (!l.total)
		return true;
	/* In place is fine for whole rows and columns, an overlap is not. */
	if (y != x)
		y = cpu_out_begin(c, 1, (int[]){0});
#pragma omp parallel for num_threads(cpu_threads) if (l.total > 4096)
	for (int64_t k = 0; k < l.outer * l.blocks; k++) {
		int64_t col = k % l.blocks * COLS, at = k / l.blocks * l.n * l.inner + col;
		if (l.inner == 1)
			row(log, l.n, x + at, y + at);
		else
			columns(log, l.n, l.inner, cpu_min(COLS, l.inner - col), x + at, y + at);
	}
	cpu_out_end(c, y);
	return true;
}

const gg_kernel cpu_softmax = {"cpu_softmax", 0, run, 0};

/* ---- gradients ----------------------------------------------------------------------------------- */

/* dx = y (dy - sum of dy y), or dy - exp(y) sum of dy */
static void row_grad(bool log, int64_t n, const float *dy, const float *y, float *dx)
{
	float piece[COLS];
	double sum = 0;
	for (int64_t i = 0; i < n; i += COLS) {
		int64_t m = cpu_min(COLS, n - i);
		if (!log)
			vec->mul(m, piece, dy + i, y + i, 0);
		sum += vec->sum(m, log ? dy + i : piece);
	}
	if (!log)
		vec->norm(n, dx, dy, (float)sum, 1, y, 0);
	for (int64_t i = 0; log && i < n; i += COLS) {
		int64_t m = cpu_min(COLS, n - i);
		vec->exp(m, piece, y + i, y + i, 0);
		memcpy(dx + i, dy + i, (size_t)m * sizeof *dx);
		vec->acc_scaled(m, dx + i, piece, -(float)sum);
	}
}

static void columns_grad(bool log, int64_t n, int64_t step, int64_t cols, const float *dy, const float *y,
                         float *dx)
{
	float sum[COLS], line[COLS];
	vec->fill(cols, sum, 0);
	for (int64_t i = 0; i < n; i++) {
		if (!log)
			vec->mul(cols, line, dy + i * step, y + i * step, 0);
		vec->acc_sum(cols, sum, log ? dy + i * step : line);
	}
	for (int64_t i = 0; i < n; i++)
		if (log) {
			vec->exp(cols, line, y + i * step, y + i * step, 0);
			vec->mul(cols, line, line, sum, 0);
			vec->sub(cols, dx + i * step, dy + i * step, line, 0);
		} else {
			vec->sub(cols, line, dy + i * step, sum, 0);
			vec->mul(cols, dx + i * step, line, y + i * step, 0);
		}
}

static bool run_grad(gg_call *c)
{
	const gg_shape *s = &c->in[0].shape;
	bool log = !strcmp(c->node->op->name, "LogSoftmaxGrad");
	lines l = along(s, gg_eval_axis(gg_get_int(c->node, "axis"), s->rank));
	const float *dy = c->in[0].data, *y = c->in[1].data;
	float *dx = c->out[0].data;
	if (!l.total)
		return true;
#pragma omp parallel for num_threads(cpu_threads) if (l.total > 4096)
	for (int64_t k = 0; k < l.outer * l.blocks; k++) {
		int64_t col = k % l.blocks * COLS, at = k / l.blocks * l.n * l.inner + col;
		if (l.inner == 1)
			row_grad(log, l.n, dy + at, y + at, dx + at);
		else
			columns_grad(log, l.n, l.inner, cpu_min(COLS, l.inner - col), dy + at, y + at,
			             dx + at);
	}
	return true;
}

const gg_kernel cpu_softmax_grad = {"cpu_softmax_grad", 0, run_grad, 0};

/* ---- losses of classes --------------------------------------------------------------------------- */

/* Each label's negated log-probability goes into one[]. */
typedef struct nll {
	lines l;
	bool logs; /* the input has logarithms already */
	const float *x, *weight;
	float *out; /* log-probabilities, or NULL */
	const int64_t *label;
	double *one;
} nll;

static void nll_row(const nll *k, int64_t i)
{
	int64_t n = k->l.n, label = k->label[i];
	const float *x = k->x + i * n;
	float max = k->logs ? 0 : vec->row_max(n, x), log = k->logs ? 0 : log_sum(n, x, max);
	k->one[i] = label < 0 ? 0 : -(double)(x[label] - max - log);
	if (k->out)
		vec->norm1(n, k->out + i * n, x, max, 1, -log);
}

static void nll_columns(const nll *k, int64_t o, int64_t col)
{
	int64_t step = k->l.inner, cols = cpu_min(COLS, step - col), at = o * k->l.n * step + col;
	float max[COLS] = {0}, log[COLS] = {0}, line[COLS];
	const float *x = k->x + at;
	if (!k->logs)
		memcpy(max, x, (size_t)cols * sizeof *max);
	for (int64_t i = 1; !k->logs && i < k->l.n; i++)
		vec->max(cols, max, x + i * step, max, 0);
	for (int64_t i = 0; !k->logs && i < k->l.n; i++)
		vec->acc_exp(cols, line, log, x + i * step, max);
	if (!k->logs)
		vec->log(cols, log, log, log, 0);
	for (int64_t j = 0; j < cols; j++) {
		int64_t label = k->label[o * step + col + j];
		k->one[o * step + col + j] = label < 0 ? 0 : -(double)(x[label * step + j] - max[j] - log[j]);
	}
	for (int64_t i = 0; k->out && i < k->l.n; i++) {
		vec->sub(cols, line, x + i * step, max, 0);
		vec->sub(cols, k->out + at + i * step, line, log, 0);
	}
}

/* Labels that are to be ignored become -1. */
static bool read_labels(gg_call *c, int64_t classes, int64_t *label)
{
	const gg_attr *skip = gg_find_attr(c->node, "ignore_index");
	for (int64_t i = 0; i < gg_count(&c->in[1]); i++) {
		label[i] = gg_get_i64(&c->in[1], i);
		if (skip && label[i] == skip->i)
			label[i] = -1;
		else if (label[i] < 0 || label[i] >= classes)
			return gg_node_error(c->d, GG_MALFORMED, c->node,
			                     "label %lld, element %lld of '%s', is not a class of %lld",
			                     (long long)label[i], (long long)i, c->node->in[1].value->name,
			                     (long long)classes);
	}
	return true;
}

static void reduce(const gg_call *c, const nll *k)
{
	const char *how = gg_get_string(c->node, "reduction");
	float *out = c->out[0].data;
	double loss = 0, weights = 0;
	for (int64_t i = 0; i < k->l.outer * k->l.inner; i++) {
		double w = k->label[i] < 0 ? 0 : k->weight ? k->weight[k->label[i]] : 1;
		if (!strcmp(how, "none"))
			out[i] = (float)(w * k->one[i]);
		loss += w * k->one[i];
		weights += w;
	}
	if (strcmp(how, "none"))
		*out = (float)(strcmp(how, "mean") ? loss : loss / weights);
}

static bool prepare_nll(gg_call *c)
{
	c->workspace = (size_t)gg_count(&c->in[1]) * (sizeof(double) + sizeof(int64_t));
	return true;
}

static bool run_nll(gg_call *c)
{
	nll k = {.l = along(&c->in[0].shape, 1),
	         .logs = !strcmp(c->node->op->name, "NegativeLogLikelihoodLoss"),
	         .x = c->in[0].data,
	         .weight = cpu_in(c, 2),
	         .out = c->nout > 1 && c->out[1].dtype ? c->out[1].data : 0,
	         .one = c->scratch};
	int64_t *label = (int64_t *)(k.one + gg_count(&c->in[1]));
	k.label = label;
	if (!read_labels(c, k.l.n, label))
		return false;
#pragma omp parallel for num_threads(cpu_threads) if (k.l.total > 4096)
	for (int64_t i = 0; i < (k.l.total ? k.l.outer * k.l.blocks : 0); i++) {
		if (k.l.inner == 1)
			nll_row(&k, i);
		else
			nll_columns(&k, i / k.l.blocks, i % k.l.blocks * COLS);
	}
	reduce(c, &k);
	return true;
}

const gg_kernel cpu_nll = {"cpu_nll", prepare_nll, run_nll, 0};
