/* Normalisations, in two passes over a row: mean, then squares of the differences to it, so that
 * a large mean costs no digits. */
#include "cpu.h"
#include <math.h>
#include <string.h>

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
