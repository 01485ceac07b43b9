/* Resize, nearest and linear, of the spatial axes: every output pixel is a sum of up to two input pixels
 * along each axis. A pixel is a line of channels where they lie last, else one number and each channel an
 * image. */
#include "cpu.h"
#include "../op/resize.h"
#include <stdlib.h>
#include <string.h>

enum { AXES = 3 };

typedef struct resize {
	int64_t in[AXES], out[AXES]; /* the missing ones of size 1 */
	int64_t *at[AXES];
	float *weight[AXES];
	bool reference;
} resize;

static void release(gg_call *c)
{
	resize *k = c->state;
	for (int i = 0; k && i < AXES; i++) {
		free(k->at[i]);
		free(k->weight[i]);
	}
	free(k);
	c->state = 0;
}

/* One axis of the node; -1: one that is missing. */
static bool make_axis(gg_eval *e, int axis, resize *k, int i)
{
	k->in[i] = axis < 0 ? 1 : e->in[0].shape.dim[axis];
	k->out[i] = axis < 0 ? 1 : e->out[0].shape.dim[axis];
	k->at[i] = gg_xcalloc((size_t)(2 * k->out[i]) + 1, sizeof **k->at);
	k->weight[i] = gg_xcalloc((size_t)(2 * k->out[i]) + 1, sizeof **k->weight);
	k->weight[i][0] = 1;
	return axis < 0 || gg_resize_axis(e, axis, k->at[i], k->weight[i]);
}

/* Batch and channels stay as they are. */
static bool is_kept(gg_eval *e, int axis)
{
	int64_t n = e->in[0].shape.dim[axis], *at = gg_xcalloc((size_t)(2 * n) + 1, sizeof *at);
	float *weight = gg_xcalloc((size_t)(2 * n) + 1, sizeof *weight);
	bool kept = e->out[0].shape.dim[axis] == n && gg_resize_axis(e, axis, at, weight);
	for (int64_t i = 0; kept && i < n; i++)
		kept = at[2 * i] == i && weight[2 * i] == 1 && weight[2 * i + 1] == 0;
	free(at);
	free(weight);
	return kept;
}

/* in, out: as Resize has them. */
static bool prepare_for(gg_call *c, int nin, gg_tensor *in, gg_tensor *out)
{
	resize *k = c->state = gg_xcalloc(1, sizeof *k);
	gg_arena a = {0};
	gg_eval e = {.n = c->node, .d = c->d, .a = &a, .nin = nin, .nout = 1, .in = in, .out = out};
	int nd = in[0].shape.rank - 2;
	bool ok = gg_count(&in[0]) && gg_count(&out[0]) && is_kept(&e, 0) && is_kept(&e, 1);
	for (int i = 0; i < AXES && ok; i++)
		ok = make_axis(&e, i < AXES - nd ? -1 : 2 + i - (AXES - nd), k, i);
	k->reference = !ok;
	gg_arena_fini(&a);
	return true;
}

static bool prepare(gg_call *c) { return prepare_for(c, c->nin, c->in, c->out); }

static bool prepare_grad(gg_call *c)
{
	gg_tensor in[RESIZE_SHAPE];
	memcpy(in, c->in, sizeof in);
	in[RESIZE_X] = c->out[0];
	return prepare_for(c, RESIZE_SHAPE, in, c->in);
}

/* One pixel of n channels, those of the input as `row` finds them. */
static void run_pixel(const resize *k, const float *x, const int64_t *o, int64_t n, float *y)
{
	bool first = true;
	for (int t = 0; t < 1 << AXES; t++) {
		float w = 1;
		int64_t at = 0;
		for (int i = 0; i < AXES; i++) {
			int64_t tap = 2 * o[i] + (t >> i & 1);
			w *= k->weight[i][tap];
			at = at * k->in[i] + k->at[i][tap];
		}
		if (w == 0)
			continue;
		const float *row = x + at * n;
		if (first)
			vec->scale(n, y, row, row, &w);
		else
			for (int64_t j = 0; j < n; j++)
				y[j] += w * row[j];
		first = false;
	}
	if (first)
		vec->fill(n, y, 0);
}

/* A line of an image of one channel: the outer axes' lines are mixed first. */
static void run_line(const resize *k, const float *x, int64_t a, int64_t b, float *line, float *y)
{
	int64_t n = k->in[2];
	vec->fill(n, line, 0);
	for (int t = 0; t < 4; t++) {
		float w = k->weight[0][2 * a + (t & 1)] * k->weight[1][2 * b + (t >> 1)];
		const float *row = x +
		                   (k->at[0][2 * a + (t & 1)] * k->in[1] + k->at[1][2 * b + (t >> 1)]) * n;
		for (int64_t j = 0; j < n && w != 0; j++)
			line[j] += w * row[j];
	}
	const int64_t *at = k->at[2];
	const float *w = k->weight[2];
	for (int64_t o = 0; o < k->out[2]; o++)
		y[o] = w[2 * o + 1] == 0 ? w[2 * o] * line[at[2 * o]]
		                         : w[2 * o] * line[at[2 * o]] + w[2 * o + 1] * line[at[2 * o + 1]];
}

static void run_all(const gg_call *c, const resize *k, float *out)
{
	bool last = c->out_layout[0] == GG_NHWC;
	int64_t batch = c->in[0].shape.dim[0], channels = c->in[0].shape.dim[1];
	int64_t images = last ? batch : batch * channels, n = last ? channels : 1;
	int64_t size = k->in[0] * k->in[1] * k->in[2] * n, lines = images * k->out[0] * k->out[1];
	const float *x = c->in[0].data;
#pragma omp parallel num_threads(cpu_threads) if (lines * k->out[2] * n > 8192)
	{
		float *line = last ? 0 : gg_xaligned((size_t)k->in[2] * sizeof *line);
#pragma omp for
		for (int64_t r = 0; r < lines; r++) {
			int64_t o[AXES] = {r / k->out[1] % k->out[0], r % k->out[1], 0};
			const float *px = x + r / (k->out[0] * k->out[1]) * size;
			float *py = out + r * k->out[2] * n;
			if (!last)
				run_line(k, px, o[0], o[1], line, py);
			for (; last && o[2] < k->out[2]; o[2]++, py += n)
				run_pixel(k, px, o, n, py);
		}
		free(line);
	}
}

/* By `all`, or by the reference where prepare found that it must. */
static bool run_by(gg_call *c, void (*all)(const gg_call *c, const resize *k, float *out))
{
	const resize *k = c->state;
	if (!gg_count(&c->out[0]))
		return true;
	float *out = cpu_out_begin(c, 1, (int[]){0});
	bool ok = true;
	if (k->reference)
		ok = cpu_reference(c, out);
	else
		all(c, k, out);
	cpu_out_end(c, out);
	return ok;
}

static bool run(gg_call *c) { return run_by(c, run_all); }

const gg_kernel cpu_resize = {"cpu_resize", prepare, run, release};

/* ---- its gradient ------------------------------------------------------------------------------------ */
/* What run_line reads gets its part of dy. */
static void spread_line(const resize *k, const float *dy, int64_t a, int64_t b, float *line, float *dx)
{
	int64_t n = k->in[2];
	const int64_t *at = k->at[2];
	const float *w = k->weight[2];
	vec->fill(n, line, 0);
	for (int64_t o = 0; o < 2 * k->out[2]; o++)
		if (w[o] != 0)
			line[at[o]] += w[o] * dy[o / 2];
	for (int t = 0; t < 4; t++) {
		float v = k->weight[0][2 * a + (t & 1)] * k->weight[1][2 * b + (t >> 1)];
		float *row = dx + (k->at[0][2 * a + (t & 1)] * k->in[1] + k->at[1][2 * b + (t >> 1)]) * n;
		for (int64_t j = 0; j < n && v != 0; j++)
			row[j] += v * line[j];
	}
}

static void spread_all(const gg_call *c, const resize *k, float *dx)
{
	int64_t images = c->in[0].shape.dim[0] * c->in[0].shape.dim[1];
	int64_t size = k->in[0] * k->in[1] * k->in[2], lines = k->out[0] * k->out[1];
	const float *dy = c->in[0].data;
#pragma omp parallel num_threads(cpu_threads) if (images * lines * k->out[2] > 8192)
	{
		float *line = gg_xaligned((size_t)k->in[2] * sizeof *line);
#pragma omp for
		for (int64_t i = 0; i < images; i++) {
			vec->fill(size, dx + i * size, 0);
			for (int64_t r = 0; r < lines; r++)
				spread_line(k, dy + (i * lines + r) * k->out[2], r / k->out[1], r % k->out[1],
				            line, dx + i * size);
		}
		free(line);
	}
}

static bool run_grad(gg_call *c) { return run_by(c, spread_all); }

const gg_kernel cpu_resize_grad = {"cpu_resize_grad", prepare_grad, run_grad, release};
