/* Pooling over channels-last images: a row of channels at a time. Plain ones are reordered on the
 * way, as for convolutions. */
#include "cpu.h"
#include "../window.h"
#include <math.h>
#include <string.h>

typedef struct pool {
	bool max, include_pad;
	int64_t batch, channels;
	/* always three axes, the missing ones of size 1 */
	int64_t in[3], out[3], kernel[3], stride[3], dilation[3], begin[3], end[3];
} pool;

static bool describe(const gg_call *c, pool *p)
{
	const gg_shape *x = &c->in[0].shape;
	gg_window w;
	if (!gg_window_pool(c->d, c->node, x, &w))
		return false;
	p->max = !strcmp(c->node->op->name, "MaxPool");
	p->include_pad = !p->max && gg_get_int(c->node, "count_include_pad");
	p->batch = x->dim[0];
	p->channels = x->dim[1];
	for (int i = 0; i < 3; i++) {
		int axis = i - (3 - w.nd);
		bool real = axis >= 0;
		p->in[i] = real ? x->dim[2 + axis] : 1;
		p->out[i] = real ? c->out[0].shape.dim[2 + axis] : 1;
		p->kernel[i] = real ? w.kernel[axis] : 1;
		p->stride[i] = real ? w.stride[axis] : 1;
		p->dilation[i] = real ? w.dilation[axis] : 1;
		p->begin[i] = real ? w.begin[axis] : 0;
		p->end[i] = real ? w.end[axis] : 0;
	}
	return true;
}

/* Kernel taps of axis i that lie inside the input for output position o, from and to; returns how
 * many there are with padding counted. */
static int64_t taps(const pool *p, int i, int64_t o, int64_t *from, int64_t *to)
{
	int64_t start = o * p->stride[i] - p->begin[i], d = p->dilation[i], k = p->kernel[i];
	*from = start < 0 ? (-start + d - 1) / d : 0;
	*to = start >= p->in[i] ? 0 : cpu_min(k, (p->in[i] - start + d - 1) / d);
	return cpu_min(k, (p->in[i] + p->end[i] - start + d - 1) / d);
}

static void run_pixel(const pool *p, const float *x, const int64_t *o, float *y)
{
	int64_t from[3], to[3], count = 1, inside = 1, n = p->channels;
	for (int i = 0; i < 3; i++) {
		count *= taps(p, i, o[i], &from[i], &to[i]);
		inside *= to[i] > from[i] ? to[i] - from[i] : 0;
	}
	bool first = p->max; /* the first tap is copied, the others are compared with it */
	if (!p->max || !inside)
		vec->fill(n, y, p->max ? -INFINITY : 0);
	for (int64_t a = from[0]; a < to[0]; a++)
		for (int64_t b = from[1]; b < to[1]; b++)
			for (int64_t e = from[2]; e < to[2]; e++) {
				int64_t z = o[0] * p->stride[0] - p->begin[0] + a * p->dilation[0];
				int64_t h = o[1] * p->stride[1] - p->begin[1] + b * p->dilation[1];
				int64_t w = o[2] * p->stride[2] - p->begin[2] + e * p->dilation[2];
				const float *row = x + ((z * p->in[1] + h) * p->in[2] + w) * n;
				if (first)
					memcpy(y, row, (size_t)n * sizeof *y);
				else if (p->max)
					vec->max(n, y, row, y, 0);
				else
					vec->acc_sum(n, y, row);
				first = false;
			}
	if (!p->max) {
		float scale = 1.f / (float)(p->include_pad ? count : inside);
		vec->scale(n, y, y, y, &scale);
	}
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
static size_t round_up(size_t n) { return (n + 63) & ~(size_t)63; }

static bool prepare(gg_call *c)
{
	if (!is_nhwc(&c->in[0], c->in_layout[0]))
		c->workspace += round_up(gg_nbytes(&c->in[0]));
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
	if (!describe(c, &p))
		return false;
	float *out = cpu_out_begin(c, 1, (int[]){0});
	gg_tensor final = {.dtype = y.dtype, .shape = y.shape, .data = out};
	y.data = out;
	if (!is_nhwc(&x, c->in_layout[0])) {
		x.data = scratch;
		scratch += round_up(gg_nbytes(&x));
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
