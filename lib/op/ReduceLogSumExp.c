#include "reduce.h"
#include "grad.h"

/* exp would overflow: the largest element is taken out of the sum. */
static void log_sum_exp(gg_dtype t, const void *src, int64_t off, int64_t n, double *out)
{
	double v[512], sum = 0, max = -INFINITY;
	for (int pass = 0; pass < 2; pass++) {
		if (pass && !isfinite(max))
			break; /* NaN, infinite, or nothing to sum */
		for (int64_t at = 0; at < n; at += 512) {
			int64_t k = n - at < 512 ? n - at : 512;
			gg_load_f64(t, src, off + at, k, v);
			for (int64_t i = 0; i < k; i++) {
				if (pass)
					sum += exp(v[i] - max);
				else
					max = isnan(max) || max > v[i] ? max : v[i];
			}
		}
	}
	*out = isfinite(max) ? max + log(sum) : max;
}

static const gg_reduction row_ReduceLogSumExp = {.row = log_sum_exp};

GG_GRAD(grad)
{
	gg_value *p = OP("Exp", OP("Sub", IN(0), gg_grad_kept(t, n, OUT)), 0);
	gg_give(t, IN(0), OP("Mul", gg_grad_spread(t, n, dy), p));
}

GG_REDUCE_OP(ReduceLogSumExp, "log of the sum of exp over axes", GG_FLOATS, .grad = grad);
