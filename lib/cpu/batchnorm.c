/* BatchNormalization, alone or with the Relu or the addition and Relu behind it, and the gradients.
 *
 * Statistics of a batch are taken in one pass, of the differences to the mean of a few rows, so that a large
 * mean costs no digits. Channels-last rows are summed in parts, always the same ones, so that the number of
 * threads changes nothing; a plain channel's row is cut into tiles that are summed like channels. */
#include "cpu.h"
#include <math.h>
#include <string.h>

/* Rows summed in float before they go into a double; parts; width of a tile; rows for the first mean. */
enum { ROWS = 256, PARTS = 16, TILE = 256, FEW = 64, SUMS = 4 };

typedef struct batch {
	bool last; /* channels innermost */
	int64_t batch, channels, plane, total, rows;
	const float *x, *dy, *y;
	int parts;
	/* in scratch: SUMS of each channel, of each part; where differences start; the same in float */
	double *sum;
	float *from, *some;
} batch;

static void describe(const gg_tensor *x, uint8_t layout, batch *b)
{
	const gg_shape *s = &x->shape;
	*b = (batch){.last = layout == GG_NHWC || s->rank == 2, .batch = s->dim[0], .channels = s->dim[1]};
	b->total = gg_count(x);
	b->rows = b->total / (b->channels ? b->channels : 1);
	b->plane = b->batch ? b->rows / b->batch : 0;
	b->parts = !b->last ? 1 : b->rows < PARTS * FEW ? (int)(b->rows / FEW) + 1 : PARTS;
	b->x = x->data;
}

/* Bytes of scratch; the sums stand first, then the floats. */
static size_t room(const batch *b)
{
	size_t n = (size_t)b->channels * (size_t)b->parts * SUMS;
	return n * sizeof(double) + ((size_t)b->channels * 5 + n) * sizeof(float);
}

static float *place(batch *b, void *scratch)
{
	size_t n = (size_t)b->channels * (size_t)b->parts * SUMS;
	b->sum = scratch;
	b->some = (float *)(b->sum + n);
	b->from = b->some + n;
	return b->from + b->channels; /* four rows of channels */
}

static const float *row_of(const batch *b, int64_t r)
{
	return b->last ? b->x + r * b->channels : b->x + r / b->plane * b->channels * b->plane + r % b->plane;
}

/* The mean of a few rows of each channel. */
static void start_from(const batch *b)
{
	int64_t few = cpu_min(FEW, b->rows), step = b->last ? 1 : b->plane;
	for (int64_t k = 0; k < b->channels; k++) {
		double sum = 0;
		for (int64_t i = 0; i < few; i++)
			sum += row_of(b, i * b->rows / few)[k * step];
		b->from[k] = (float)(sum / (double)few);
	}
}

static void flush(int64_t n, float *some, double *sum)
{
	for (int64_t k = 0; k < n; k++)
		sum[k] += some[k];
	vec->fill(n, some, 0);
}

static const float *at(const float *p, int64_t i) { return p ? p + i : 0; }

static void sum_part(const batch *b, int part)
{
	int64_t n = b->channels, end = (part + 1) * b->rows / b->parts;
	double *sum = b->sum + part * n * SUMS;
	float *some = b->some + part * n * SUMS;
	memset(sum, 0, (size_t)n * SUMS * sizeof *sum);
	vec->fill(n * SUMS, some, 0);
	for (int64_t r = part * b->rows / b->parts, k = 1; r < end; r++, k++) {
		vec->acc_moments(n, some, b->x + r * n, b->from, at(b->dy, r * n), at(b->y, r * n));
		if (k % ROWS == 0 || r + 1 == end)
			flush(n * SUMS, some, sum);
	}
}

static void sum_channel(const batch *b, int64_t k)
{
	float from[TILE], some[SUMS * TILE];
	double sum[SUMS] = {0};
	vec->fill(TILE, from, b->from[k]);
	for (int64_t i = 0; i < b->batch; i++)
		for (int64_t p = 0, first = (i * b->channels + k) * b->plane; p < b->plane;
		     p += ROWS * TILE) {
			int64_t end = cpu_min(p + ROWS * TILE, b->plane);
			for (int64_t q = p, n = 0; q < end; q += n) {
				/* whole tiles are added up, what is left is a narrower one of its own */
				bool fresh = q == p || end - q < TILE;
				if (fresh && q != p)
					for (int j = 0; j < SUMS * TILE; j++)
						sum[j / TILE] += some[j];
				n = cpu_min(TILE, end - q);
				if (fresh)
					vec->fill(SUMS * n, some, 0);
				vec->acc_moments(n, some, b->x + first + q, from, at(b->dy, first + q),
				                 at(b->y, first + q));
				if (q + n >= end)
					for (int64_t j = 0; j < SUMS * n; j++)
						sum[j / n] += some[j];
			}
		}
	for (int j = 0; j < SUMS; j++)
		b->sum[j * b->channels + k] = sum[j];
}

/* The sums of all channels: SUMS rows of them at b->sum. */
static void sum_all(const batch *b)
{
#pragma omp parallel for num_threads(cpu_threads) if (b->total > 16384)
	for (int64_t i = 0; i < (b->last ? b->parts : b->channels); i++) {
		if (b->last)
			sum_part(b, (int)i);
		else
			sum_channel(b, i);
	}
	for (int64_t p = 1; b->last && p < b->parts; p++)
		for (int64_t k = 0; k < b->channels * SUMS; k++)
			b->sum[k] += b->sum[p * b->channels * SUMS + k];
}

/* Mean and variance of channel k from its sums. */
static void moments(const batch *b, int64_t k, double *mean, double *var)
{
	double n = (double)b->rows, d = b->sum[k] / n, v = b->sum[b->channels + k] / n - d * d;
	*mean = b->from[k] + d;
	*var = v < 0 ? 0 : v;
}

/* ---- forward ------------------------------------------------------------------------------------- */

static bool prepare_batchnorm(gg_call *c)
{
	batch b;
	describe(&c->in[0], c->out_layout[0], &b);
	c->workspace = room(&b);
	return true;
}

/* running = old * momentum + new * (1 - momentum), in place or not. */
static void run_on(gg_call *c, int out, const float *old, int64_t k, double now)
{
	double m = gg_get_float(c->node, "momentum");
	if (out < c->nout && c->out[out].dtype)
		((float *)c->out[out].data)[k] = (float)(old[k] * m + now * (1 - m));
}

/* p: mean, scale and shift of all channels; z: what is added, or NULL. */
static void apply(const batch *b, float *out, const float *p, const float *z, int relu)
{
	int64_t n = b->last ? b->channels : b->plane;
	const float *scale = p + b->channels, *shift = scale + b->channels;
#pragma omp parallel for num_threads(cpu_threads) if (b->total > 16384)
	for (int64_t r = 0; r < b->total / n; r++) {
		int64_t k = r % b->channels;
		float *y = out + r * n;
		if (b->last)
			vec->affine(n, y, b->x + r * n, p, scale, shift, relu && !z);
		else
			vec->affine1(n, y, b->x + r * n, p[k], scale[k], shift[k], relu && !z);
		if (z) {
			vec->add(n, y, y, z + r * n, 0);
			vec->relu(n, y, y, y, 0);
		}
	}
}

static bool run_batchnorm(gg_call *c)
{
	const float *in[6];
	double eps = gg_get_float(c->node, "epsilon"), mean, var;
	bool training = gg_get_int(c->node, "training_mode");
	batch b;
	describe(&c->in[0], c->out_layout[0], &b);
	if (!b.total)
		return true;
	float *p = place(&b, c->scratch);
	for (int i = 0; i < 6; i++)
		in[i] = cpu_in(c, cpu_slot(c, c->node, i));
	if (training) {
		start_from(&b);
		sum_all(&b);
	}
	for (int64_t k = 0; k < b.channels; k++) {
		if (training) {
			moments(&b, k, &mean, &var);
			run_on(c, 1, in[3], k, mean);
			run_on(c, 2, in[4], k, var);
		} else {
			mean = in[3][k];
			var = in[4][k];
		}
		double s = in[1][k] / sqrt(var + eps);
		p[k] = (float)mean;
		p[b.channels + k] = (float)s;
		p[2 * b.channels + k] = (float)(in[2][k] - (mean - p[k]) * s);
	}
	apply(&b, c->out[0].data, p, in[5], strcmp(c->node->op->name, "BatchNormalization"));
	return true;
}
const gg_kernel cpu_batchnorm = {"cpu_batchnorm", prepare_batchnorm, run_batchnorm, 0};

/* ---- gradients ----------------------------------------------------------------------------------- */

static int x_slot(const gg_call *c) { return strcmp(c->node->op->name, "BatchNormGrad") ? 2 : 1; }

static bool prepare_grad(gg_call *c)
{
	batch b;
	describe(&c->in[x_slot(c)], c->out_layout[0], &b);
	c->workspace = room(&b);
	return true;
}

static float *out_of(const gg_call *c, int i) { return i < c->nout && c->out[i].dtype ? c->out[i].data : 0; }

/* The factors of each channel, and the gradients of scale and bias: see norm_grad. */
static void factors(const gg_call *c, const batch *b, int x, float *p)
{
	double eps = gg_get_float(c->node, "epsilon"), n = (double)b->rows, mean, var;
	bool training = gg_get_int(c->node, "training_mode");
	const float *scale = c->in[x + 1].data;
	float *dscale = out_of(c, 1), *dbias = out_of(c, 2);
	int64_t all = b->channels;
	for (int64_t k = 0; k < all; k++) {
		moments(b, k, &mean, &var);
		if (!training) {
			mean = ((const float *)c->in[x + 2].data)[k];
			var = ((const float *)c->in[x + 3].data)[k];
		}
		double inverse = 1 / sqrt(var + eps), sum = b->sum[2 * all + k];
		double dot = inverse * (b->sum[3 * all + k] - (mean - b->from[k]) * sum),
		       a = scale[k] * inverse;
		if (dscale)
			dscale[k] = (float)dot;
		if (dbias)
			dbias[k] = (float)sum;
		p[k] = (float)mean;
		p[all + k] = (float)a;
		p[2 * all + k] = training ? (float)(-a * inverse * dot / n) : 0;
		p[3 * all + k] = training ? (float)(-a * sum / n) : 0;
	}
}

static void tiles(const batch *b, int64_t r, const float *p, float *dx, float *dz)
{
	float q[4 * TILE];
	int64_t k = r % b->channels, end = (r + 1) * b->plane, n;
	for (int64_t i = r * b->plane; i < end; i += n) {
		n = cpu_min(TILE, end - i);
		for (int j = 0; j < 4; j++)
			vec->fill(n, q + j * n, p[j * b->channels + k]);
		vec->norm_grad(n, dx ? dx + i : 0, dz ? dz + i : 0, b->x + i, b->dy + i, at(b->y, i), q);
	}
}

static bool run_grad(gg_call *c)
{
	int x = x_slot(c);
	batch b;
	describe(&c->in[x], c->out_layout[0], &b);
	float *p = place(&b, c->scratch), *dx = out_of(c, 0), *dz = out_of(c, 3);
	b.dy = c->in[0].data;
	b.y = x == 2 ? c->in[1].data : 0;
	for (int i = 1; i < 3; i++)
		if (out_of(c, i) && !b.total)
			vec->fill(b.channels, out_of(c, i), 0);
	if (!b.total)
		return true;
	start_from(&b);
	sum_all(&b);
	factors(c, &b, x, p);
	int64_t n = b.channels;
#pragma omp parallel for num_threads(cpu_threads) if (b.total > 16384)
	for (int64_t r = 0; r < (b.last ? b.rows : b.batch * n); r++) {
		if (b.last)
			vec->norm_grad(n, dx ? dx + r * n : 0, dz ? dz + r * n : 0, b.x + r * n, b.dy + r * n,
			               at(b.y, r * n), p);
		else
			tiles(&b, r, p, dx, dz);
	}
	return true;
}
const gg_kernel cpu_batchnorm_grad = {"cpu_batchnorm_grad", prepare_grad, run_grad, 0};
