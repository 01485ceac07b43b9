/* Normalisations, in two passes over a row: mean, then squares of the differences to it, so that
 * a large mean costs no digits. */
#include "cpu.h"
#include <math.h>
#include <string.h>

/* ---- BatchNormalization and BatchNormRelu ------------------------------------------------------ */

enum { ROWS = 256 }; /* summed in float before they go into a double */

static bool prepare_batchnorm(gg_call *c)
{
	size_t channels = (size_t)c->in[0].shape.dim[1];
	c->workspace = channels * 2 * sizeof(float);
	if (gg_get_int(c->node, "training_mode"))
		c->workspace += channels * (2 * sizeof(double) + 2 * sizeof(float)) + 64;
	return true;
}

/* Sums over rows of all channels, of x or of the squares of x - mean. */
static void sum_last(int64_t rows, int64_t n, const float *x, const float *mean, double *sum, float *some,
                     float *line)
{
	for (int64_t k = 0; k < n; k++)
		sum[k] = 0;
	for (int64_t r = 0; r < rows; r += ROWS) {
		vec->fill(n, some, 0);
		for (int64_t i = r; i < r + ROWS && i < rows; i++)
			if (mean) {
				vec->sub(n, line, x + i * n, mean, 0);
				vec->acc_square(n, some, line);
			} else {
				vec->acc_sum(n, some, x + i * n);
			}
		for (int64_t k = 0; k < n; k++)
			sum[k] += some[k];
	}
}

/* The same of channel k, where each of its rows lies together. */
static double sum_rows(int64_t batch, int64_t channels, int64_t n, const float *x, int64_t k,
                       const float *mean)
{
	double sum = 0;
	for (int64_t b = 0; b < batch; b++)
		for (int64_t i = 0; i < n; i += ROWS * 64) {
			const float *p = x + (b * channels + k) * n + i;
			int64_t len = cpu_min(ROWS * 64, n - i);
			sum += mean ? vec->sum_square(len, p, *mean) : vec->sum(len, p);
		}
	return sum;
}

/* Mean and variance of the batch; scratch: a row of channels twice in double, twice in float. */
static void batch_moments(const gg_call *c, bool last, const float *x, float *mean, float *var,
                          double *scratch)
{
	const gg_shape *s = &c->in[0].shape;
	int64_t channels = s->dim[1], total = gg_count(&c->in[0]), each = total / channels;
	float *some = (float *)(scratch + 2 * channels), *line = some + channels;
	if (last) {
		sum_last(each, channels, x, 0, scratch, some, line);
		for (int64_t k = 0; k < channels; k++)
			mean[k] = (float)(scratch[k] / (double)each);
		sum_last(each, channels, x, mean, scratch, some, line);
		for (int64_t k = 0; k < channels; k++)
			var[k] = (float)(scratch[k] / (double)each);
		return;
	}
	int64_t n = each / s->dim[0];
#pragma omp parallel for num_threads(cpu_threads) if (total > 16384)
	for (int64_t k = 0; k < channels; k++) {
		mean[k] = (float)(sum_rows(s->dim[0], channels, n, x, k, 0) / (double)each);
		var[k] = (float)(sum_rows(s->dim[0], channels, n, x, k, mean + k) / (double)each);
	}
}

/* running = old * momentum + new * (1 - momentum), in place or not. */
static void run_on(gg_call *c, int out, const float *old, const float *new)
{
	double m = gg_get_float(c->node, "momentum");
	float *p = out < c->nout && c->out[out].dtype ? c->out[out].data : 0;
	for (int64_t k = 0; p && k < c->in[0].shape.dim[1]; k++)
		p[k] = (float)(old[k] * m + new[k] * (1 - m));
}

static bool run_batchnorm(gg_call *c)
{
	const gg_shape *s = &c->in[0].shape;
	const float *in[5];
	float eps = gg_get_float(c->node, "epsilon"), *scale = c->scratch;
	int64_t batch = s->dim[0], channels = s->dim[1], total = gg_count(&c->in[0]);
	int relu = !strcmp(c->node->op->name, "BatchNormRelu");
	if (!total)
		return true;
	for (int i = 0; i < 5; i++)
		in[i] = cpu_in(c, cpu_slot(c, c->node, i));
	float *shift = scale + channels;
	bool last = c->out_layout[0] == GG_NHWC || s->rank == 2,
	     training = gg_get_int(c->node, "training_mode");
	if (training) {
		size_t at = ((size_t)channels * 2 * sizeof(float) + 7) / 8;
		batch_moments(c, last, in[0], shift, scale, (double *)c->scratch + at);
		run_on(c, 1, in[3], shift);
		run_on(c, 2, in[4], scale);
	}
	for (int64_t i = 0; i < channels; i++) {
		double mean = training ? shift[i] : in[3][i], var = training ? scale[i] : in[4][i];
		double k = in[1][i] / sqrt(var + eps);
		scale[i] = (float)k;
		shift[i] = (float)(in[2][i] - mean * k);
	}
	int64_t n = last ? channels : total / (batch * channels), rows = total / n;
	float *out = c->out[0].data;
#pragma omp parallel for num_threads(cpu_threads) if (total > 16384)
	for (int64_t r = 0; r < rows; r++) {
		if (last)
			vec->affine(n, out + r * n, in[0] + r * n, scale, shift, relu);
		else
			vec->affine1(n, out + r * n, in[0] + r * n, scale[r % channels], shift[r % channels],
			             relu);
	}
	return true;
}
const gg_kernel cpu_batchnorm = {"cpu_batchnorm", prepare_batchnorm, run_batchnorm, 0};

/* ---- LayerNormalization ------------------------------------------------------------------------- */

static bool run_layernorm(gg_call *c)
{
	const gg_node *n = c->node;
	const gg_shape *s = &c->in[0].shape;
	int axis = gg_eval_axis(gg_get_int(n, "axis"), s->rank), ks = cpu_slot(c, n, 1),
	    kb = cpu_slot(c, n, 2);
	int64_t len = 1, total = gg_count(&c->in[0]);
	for (int i = axis; i < s->rank; i++)
		len *= s->dim[i];
	bool rms = !strcmp(n->op->name, "RMSNormalization"); /* about 0, not about the mean */
	if (!total)
		return true;
	/* scale and bias that repeat, or broaden the result, are for ref */
	bool whole = ks >= 0 && gg_count(&c->in[ks]) == len && (kb < 0 || gg_count(&c->in[kb]) == len) &&
	             gg_count(&c->out[0]) == total;
	float *out = cpu_out_begin(c, 2, (int[]){ks, kb}), eps = gg_get_float(n, "epsilon");
	const float *x = cpu_in(c, cpu_slot(c, n, 0)), *scale = cpu_in(c, ks),
	            *bias = kb < 0 ? 0 : cpu_in(c, kb);
	bool ok = whole || cpu_reference(c, out);
	int64_t rows = whole ? total / len : 0;
#pragma omp parallel for num_threads(cpu_threads) if (total > 16384)
	for (int64_t r = 0; r < rows; r++) {
		const float *p = x + r * len;
		float mean = rms ? 0 : vec->sum(len, p) / (float)len;
		float inv = 1 / sqrtf(vec->sum_square(len, p, mean) / (float)len + eps);
		vec->norm(len, out + r * len, p, mean, inv, scale, bias);
	}
	cpu_out_end(c, out);
	return ok;
}
const gg_kernel cpu_layernorm = {"cpu_layernorm", 0, run_layernorm, 0};

/* ---- InstanceNormalization and GroupNormalization ------------------------------------------------ */

static bool run_groupnorm(gg_call *c)
{
	const gg_node *n = c->node;
	const gg_shape *s = &c->in[0].shape;
	int ks = cpu_slot(c, n, 1), kb = cpu_slot(c, n, 2);
	int64_t batch = s->dim[0], channels = s->dim[1], total = gg_count(&c->in[0]);
	int64_t groups = gg_op_attr(n->op, "num_groups") ? gg_get_int(n, "num_groups") : channels;
	if (!total)
		return true;
	int64_t positions = total / (batch * channels), each = channels / groups;
	float *out = cpu_out_begin(c, 2, (int[]){ks, kb}), eps = gg_get_float(n, "epsilon");
	const float *x = cpu_in(c, cpu_slot(c, n, 0)), *scale = cpu_in(c, ks), *bias = cpu_in(c, kb);
	bool ok = true, mine = gg_count(&c->in[ks]) == channels && gg_count(&c->in[kb]) == channels;
	if (!mine)
		ok = cpu_reference(c, out);
#pragma omp parallel for num_threads(cpu_threads) if (total > 16384)
	for (int64_t g = 0; g < (mine ? batch * groups : 0); g++) {
		int64_t len = each * positions;
		const float *p = x + g * len;
		float mean = vec->sum(len, p) / (float)len;
		float inv = 1 / sqrtf(vec->sum_square(len, p, mean) / (float)len + eps);
		for (int64_t k = 0; k < each; k++) {
			int64_t ch = g % groups * each + k, at = g * len + k * positions;
			vec->norm1(positions, out + at, x + at, mean, inv * scale[ch], bias[ch]);
		}
	}
	cpu_out_end(c, out);
	return ok;
}
const gg_kernel cpu_groupnorm = {"cpu_groupnorm", 0, run_groupnorm, 0};
