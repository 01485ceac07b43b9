#include "move.h"
#include <string.h>

static bool infer(gg_infer *f)
{
	f->out[0].dtype = GG_I64;
	gg_unknown_dims(f, 0, 2);
	if (f->in[0].shape.rank >= 0)
		f->out[0].shape.dim[0] = f->in[0].shape.rank;
	return true;
}

static bool is_zero(const gg_tensor *x, int64_t i)
{
	if (x->dtype == GG_STRING)
		return !*((const char *const *)x->data)[i];
	if (x->dtype == GG_C64) {
		const float *z = (const float *)x->data + 2 * i;
		return z[0] == 0 && z[1] == 0;
	}
	return gg_dtype_class(x->dtype) == 'F' ? gg_get_f64(x, i) == 0 : gg_get_i64(x, i) == 0;
}

static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0];
	int64_t count = gg_count(x), n = 0, at = 0, stride[GG_MAX_RANK];
	int rank = x->shape.rank;
	for (int64_t i = 0; i < count; i++)
		n += !is_zero(x, i);
	int64_t *y = gg_eval_alloc(e, 0, 2, (int64_t[]){rank, n});
	if (!y && rank * n > 0)
		return false;
	gg_strides(&x->shape, stride);
	for (int64_t i = 0; i < count; i++) {
		if (is_zero(x, i))
			continue;
		for (int k = 0; k < rank; k++)
			y[k * n + at] = i / stride[k] % x->shape.dim[k];
		at++;
	}
	return true;
}

const gg_op gg_op_NonZero = {.name = "NonZero",
                             .doc = "the indices of elements that are not zero, a column each",
                             .min_in = 1,
                             .max_in = 1,
                             .min_out = 1,
                             .max_out = 1,
                             .flags = GG_DATA_SHAPE,
                             .in = {{GG_ANY}},
                             .out = {{GG_DT(GG_I64)}},
                             .infer = infer,
                             .eval = eval};
