/* Pooling over channels-last images and its gradients: a row of channels at a time. Plain ones are
 * reordered on the way, as for convolutions. */
#include "cpu.h"
#include "../window.h"
#include <math.h>
#include <string.h>

enum { TILE = 256 }; /* channels of a gradient in one go */

typedef struct pool {
	bool max, include_pad;
	int64_t batch, channels;
	/* always three axes, the missing ones of size 1 */
	int64_t in[3], out[3], kernel[3], stride[3], dilation[3], begin[3], end[3];
} pool;

/* x: what is pooled, y: what that gives. */
static bool describe(const gg_call *c, const gg_shape *x, const gg_shape *y, pool *p)
{
	gg_window w;
	if (!gg_window_pool(c->d, c->node, x, &w))
		return false;
	p->max = !strncmp(c->node->op->name, "Max", 3);
	p->include_pad = !p->max && gg_get_int(c->node, "count_include_pad");
	p->batch = x->dim[0];
	p->channels = x->dim[1];
	for (int i = 0; i < 3; i++) {
		int axis = i - (3 - w.nd);
		bool real = axis >= 0;
		p->in[i] = real ? x->dim[2 + axis] : 1;
		p->out[i] = real ? y->dim[2 + axis] : 1;
		p->kernel[i] = real ? w.kernel[axis] : 1;
		p->stride[i] = real ? w.stride[axis] : 1;
		p->dilation[i] = real ? w.dilation[axis] : 1;
		p->begin[i] = real ? w.begin[axis] : 0;
		p->end[i] = real ? w.end[axis] : 0;
	}
	return true;
}

/* The taps of a window that lie inside the input, and one of them. */
typedef struct taps {
	int64_t from[3], to[3], at[3];
	int64_t inside, padded; /* how many, without the padding and with it */
} taps;

static taps window_at(const pool *p, const int64_t *o)
{
	taps t = {.inside = 1, .padded = 1};
	for (int i = 0; i < 3; i++) {
		int64_t start = o[i] * p->stride[i] - p->begin[i], d = p->dilation[i], k = p->kernel[i];
		t.at[i] = t.from[i] = start < 0 ? (-start + d - 1) / d : 0;
		t.to[i] = start >= p->in[i] ? 0 : cpu_min(k, (p->in[i] - start + d - 1) / d);
		t.inside *= t.to[i] > t.from[i] ? t.to[i] - t.from[i] : 0;
		t.padded *= cpu_min(k, (p->in[i] + p->end[i] - start + d - 1) / d);
	}
	return t;
}

static bool next_tap(taps *t)
{
	for (int i = 2; i >= 0; i--) {
		if (++t->at[i] < t->to[i])
			return true;
		t->at[i] = t->from[i];
	}
	return false;
}

/* Where the channels of the tap lie in the image. */
static int64_t place(const pool *p, const int64_t *o, const taps *t)
{
	int64_t at = 0;
	for (int i = 0; i < 3; i++)
		at = at * p->in[i] + o[i] * p->stride[i] - p->begin[i] + t->at[i] * p->dilation[i];
	return at * p->channels;
}

static float share(const pool *p, const taps *t)
{
	return 1.f / (float)(p->include_pad ? t->padded : t->inside);
}

/* The greatest of n channels over the taps, of which there is one at least. */
static void greatest(const pool *p, int64_t n, const int64_t *o, taps t, const float *x, float *y)
{
	memcpy(y, x + place(p, o, &t), (size_t)n * sizeof *y);
	while (next_tap(&t))
		vec->max(n, y, x + place(p, o, &t), y, 0);
}

static void run_pixel(const pool *p, const float *x, const int64_t *o, float *y)
{
	int64_t n = p->channels;
	taps t = window_at(p, o);
	float scale = share(p, &t);
	if (p->max && t.inside) {
		greatest(p, n, o, t, x, y);
		return;
	}
	vec->fill(n, y, p->max ? -INFINITY : 0);
	if (p->max || !t.inside)
		return;
	do
		vec->acc_sum(n, y, x + place(p, o, &t));
	while (next_tap(&t));
	vec->scale(n, y, y, y, &scale);
}

static void run_pool(const pool *p, const float *x, float *y)
{
	int64_t image = p->in[0] * p->in[1] * p->in[2] * p->channels, rows = p->batch * p->out[0] * p->out[1];
#pragma omp parallel for num_threads(cpu_threads) if (rows * p->out[2] * p->channels > 8192)
	for (int64_t r = 0; r < rows; r++) {
		int64_t o[3] = {r / p->out[1] % p->out[0], r % p->out[1], 0};
		const float *px = x + r / (p->out[0] * p->out[1]) * image;
		for (float *py = y + r * p->out[2] * p->channels; o[2] < p->out[2]; o[2]++, py += p->channels)
			run_pixel(p, px, o, py);
	}
}

static bool is_nhwc(const gg_tensor *t, uint8_t layout)
{
	return layout == GG_NHWC || cpu_same_bytes(&t->shape);
}

static bool prepare(gg_call *c)
{
	if (!is_nhwc(&c->in[0], c->in_layout[0]))
		c->workspace += cpu_round(gg_nbytes(&c->in[0]));
	if (!is_nhwc(&c->out[0], c->out_layout[0]))
		c->workspace += gg_nbytes(&c->out[0]);
	return true;
}

static bool run(gg_call *c)
{
	pool p;
	gg_tensor x = c->in[0], y = c->out[0];
	char *scratch = c->scratch;
	if (!gg_count(&y))
		return true;
	if (!describe(c, &x.shape, &y.shape, &p))
		return false;
	float *out = cpu_out_begin(c, 1, (int[]){0});
	gg_tensor final = {.dtype = y.dtype, .shape = y.shape, .data = out};
	y.data = out;
	if (!is_nhwc(&x, c->in_layout[0])) {
		x.data = scratch;
		scratch += cpu_round(gg_nbytes(&x));
		cpu_convert(&c->in[0], GG_PLAIN, &x, GG_NHWC);
	}
	bool aside = !is_nhwc(&y, c->out_layout[0]);
	if (aside)
		y.data = scratch;
	run_pool(&p, x.data, y.data);
	if (aside)
		cpu_convert(&y, GG_NHWC, &final, GG_PLAIN);
	cpu_out_end(c, out);
	return true;
}

const gg_kernel cpu_pool = {"cpu_pool", prepare, run, 0};

/* ---- gradients ----------------------------------------------------------------------------------- */

/* Of n channels; images begin at the first of them. An average is shared by its taps; of a window's
 * greatest, the first has it all. */
static void grad_pixel(const pool *p, int64_t n, const int64_t *o, const float *dy, const float *x, float *dx)
{
	float most[TILE], rest[TILE];
	taps t = window_at(p, o);
	float part = share(p, &t);
	if (!t.inside)
		return;
	if (p->max) {
		greatest(p, n, o, t, x, most);
		memcpy(rest, dy, (size_t)n * sizeof *dy);
	}
	do {
		int64_t at = place(p, o, &t);
		if (p->max)
			vec->max_grad(n, dx + at, x + at, most, rest);
		else
			vec->acc_scaled(n, dx + at, dy, part);
	} while (next_tap(&t));
}

/* Some channels of an image, as windows overlap. */
static void grad_channels(const pool *p, int64_t n, const float *dy, const float *x, float *dx)
{
	int64_t in = p->in[0] * p->in[1] * p->in[2], out = p->out[0] * p->out[1] * p->out[2];
	for (int64_t i = 0; i < in; i++)
		vec->fill(n, dx + i * p->channels, 0);
	for (int64_t i = 0; i < out; i++) {
		int64_t o[3] = {i / p->out[2] / p->out[1], i / p->out[2] % p->out[1], i % p->out[2]};
		grad_pixel(p, n, o, dy + i * p->channels, x, dx);
	}
}

static void run_grad(const pool *p, const float *dy, const float *x, float *dx)
{
	int64_t in = p->in[0] * p->in[1] * p->in[2], out = p->out[0] * p->out[1] * p->out[2], n = p->channels;
	int64_t tile = p->batch < cpu_threads ? 32 : TILE, parts = (n + tile - 1) / tile;
#pragma omp parallel for num_threads(cpu_threads) if (p->batch * in * n > 8192)
	for (int64_t i = 0; i < p->batch * parts; i++) {
		int64_t b = i / parts, k = i % parts * tile;
		grad_channels(p, cpu_min(tile, n - k), dy + b * out * n + k, x ? x + b * in * n + k : 0,
		              dx + b * in * n + k);
	}
}

static bool grad_reads_x(const gg_call *c) { return !strcmp(c->node->op->name, "MaxPoolGrad"); }

static bool prepare_grad(gg_call *c)
{
	for (int i = 0; i < (grad_reads_x(c) ? 2 : 1); i++)
		c->workspace += is_nhwc(&c->in[i], c->in_layout[i]) ? 0 : cpu_round(gg_nbytes(&c->in[i]));
	c->workspace += is_nhwc(&c->out[0], c->out_layout[0]) ? 0 : gg_nbytes(&c->out[0]);
	return true;
}

static bool run_pool_grad(gg_call *c)
{
	pool p;
	gg_tensor in[2] = {0}, dx = c->out[0];
	char *scratch = c->scratch;
	if (!gg_count(&dx))
		return true;
	if (!describe(c, &dx.shape, &c->in[0].shape, &p))
		return false;
	for (int i = 0; i < (grad_reads_x(c) ? 2 : 1); i++) {
		in[i] = c->in[i];
		if (is_nhwc(&in[i], c->in_layout[i]))
			continue;
		in[i].data = scratch;
		scratch += cpu_round(gg_nbytes(&in[i]));
		cpu_convert(&c->in[i], GG_PLAIN, &in[i], GG_NHWC);
	}
	bool aside = !is_nhwc(&dx, c->out_layout[0]);
	if (aside)
		dx.data = scratch;
	run_grad(&p, in[0].data, in[1].data, dx.data);
	return !aside || cpu_convert(&dx, GG_NHWC, &c->out[0], GG_PLAIN);
}

const gg_kernel cpu_pool_grad = {"cpu_pool_grad", prepare_grad, run_pool_grad, 0};

/* ---- global: one value a channel, so that both layouts of the output are the same bytes ------- */

/* Positions in blocks, so that no long chain of float additions loses digits. */
static void rows_to_one(bool max, int64_t n, int64_t channels, const float *x, float *y, float *part)
{
	vec->fill(channels, y, max ? -INFINITY : 0);
	for (int64_t i = 0; i < n; i += 64) {
		vec->fill(channels, part, 0);
		for (int64_t j = i; j < cpu_min(i + 64, n); j++)
			if (max)
				vec->max(channels, y, x + j * channels, y, 0);
			else
				vec->acc_sum(channels, part, x + j * channels);
		if (!max)
			vec->acc_sum(channels, y, part);
	}
}

static bool prepare_global(gg_call *c)
{
	c->workspace = (size_t)(c->in[0].shape.dim[1] * c->in[0].shape.dim[0]) * sizeof(float);
	return true;
}

static bool run_global(gg_call *c)
{
	const gg_shape *s = &c->in[0].shape;
	bool max = !strcmp(c->node->op->name, "GlobalMaxPool"), last = c->in_layout[0] == GG_NHWC;
	int64_t batch = s->dim[0], channels = s->dim[1], n = gg_count(&c->in[0]);
	if (!batch || !channels)
		return true;
	if (!n)
		return cpu_reference(c, c->out[0].data);
	n /= batch * channels;
	float *out = cpu_out_begin(c, 1, (int[]){0}), scale = 1.f / (float)n;
	const float *x = c->in[0].data;
#pragma omp parallel for num_threads(cpu_threads) if (n * batch * channels > 16384)
	for (int64_t b = 0; b < batch * (last ? 1 : channels); b++) {
		if (last)
			rows_to_one(max, n, channels, x + b * n * channels, out + b * channels,
			            (float *)c->scratch + b * channels);
		else
			out[b] = max ? vec->row_max(n, x + b * n) : vec->sum(n, x + b * n);
	}
	if (!max)
		vec->scale(batch * channels, out, out, out, &scale);
	cpu_out_end(c, out);
	return true;
}

const gg_kernel cpu_global_pool = {"cpu_global_pool", prepare_global, run_global, 0};
