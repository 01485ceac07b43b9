#include "nnkit.h"
#include "grad.h"
#include <math.h>
#include <stdlib.h>

static bool infer(gg_infer *f)
{
	const gg_attr *axes = gg_get_list(f->n, "axes");
	int rank = f->in[0].shape.rank, a;
	f->out[0].shape = f->in[0].shape;
	for (int i = 0; rank >= 0 && i < axes->n; i++)
		if (!gg_axis(f, "axes", axes->ints[i], rank, &a))
			return false;
	return true;
}

/* Elements whose kept axes agree share one slot of sum[]; at[] says which for each element. */
static int64_t *slots(gg_eval *e, int64_t count, int64_t *out_groups)
{
	const gg_shape *s = &e->in[0].shape;
	const gg_attr *axes = gg_get_list(e->n, "axes");
	int64_t *at = gg_xaligned((size_t)count * sizeof *at), stride[GG_MAX_RANK], idx[GG_MAX_RANK] = {0},
	        k = 0, step = 1;
	bool gone[GG_MAX_RANK] = {false};
	for (int i = 0; i < axes->n; i++)
		gone[gg_eval_axis(axes->ints[i], s->rank)] = true;
	for (int i = s->rank - 1; i >= 0; i--) {
		stride[i] = gone[i] ? 0 : step;
		step *= gone[i] ? 1 : s->dim[i];
	}
	do {
		at[k] = 0;
		for (int i = 0; i < s->rank; i++)
			at[k] += idx[i] * stride[i];
		k++;
	} while (gg_next_index(s, idx));
	*out_groups = step;
	return at;
}

/* The standard's function adds 1e-9 to the deviation. */
static bool eval(gg_eval *e)
{
	int64_t count = gg_count(&e->in[0]), groups;
	if (!count)
		return true;
	int64_t *at = slots(e, count, &groups);
	double *x = gg_doubles(&e->in[0]), n = (double)(count / groups);
	double *mean = gg_xcalloc((size_t)groups, sizeof *mean),
	       *var = gg_xcalloc((size_t)groups, sizeof *var);
	for (int64_t i = 0; i < count; i++)
		mean[at[i]] += x[i] / n;
	for (int64_t i = 0; i < count; i++) {
		x[i] -= mean[at[i]];
		var[at[i]] += x[i] * x[i] / n;
	}
	for (int64_t i = 0; i < count; i++)
		x[i] /= sqrt(var[at[i]]) + 1e-9;
	gg_store_all(&e->out[0], x);
	free(at);
	free(x);
	free(mean);
	free(var);
	return true;
}

GG_GRAD(grad)
{
	const gg_attr *axes = gg_get_list(n, "axes");
	gg_value *x = IN(0), *inverse;
	gg_value *hat = gg_grad_normal(t, x, 0, 1e-9, axes->n, axes->ints, &inverse);
	gg_give(t, x, gg_grad_normalised(t, dy, hat, inverse, axes->n, axes->ints));
}

const gg_op gg_op_MeanVarianceNormalization = {
    .name = "MeanVarianceNormalization",
    .doc = "mean 0 and variance 1 over the axes given",
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"axes", GG_ATTR_INTS, .def = "[0, 2, 3]"}, {0}},
    .in = {{GG_FLOATS, 'T'}},
    .out = {{GG_FLOATS, 'T'}},
    .infer = infer,
    .eval = eval,
    .grad = grad};
