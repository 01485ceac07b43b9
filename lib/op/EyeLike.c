#include "move.h"
#include "grad.h"

static bool infer(gg_infer *f)
{
	gg_dtype t = gg_get_dtype(f->n, "dtype");
	f->out[0].dtype = t ? t : f->in[0].dtype;
	f->out[0].shape = f->in[0].shape;
	if (!(GG_DT(f->out[0].dtype) & (GG_NUMBERS | GG_DT(GG_BOOL))))
		return gg_unsupported(f, "dtype %s", gg_dtype_name(f->out[0].dtype));
	if (f->in[0].shape.rank >= 0 && f->in[0].shape.rank != 2)
		return gg_fail(f, "input has rank %d, expected 2", f->in[0].shape.rank);
	return true;
}

static bool eval(gg_eval *e)
{
	gg_tensor *y = &e->out[0];
	int64_t rows = y->shape.dim[0], cols = y->shape.dim[1], k = gg_get_int(e->n, "k");
	const uint64_t zero = 0;
	gg_move_fill(gg_dtype_size(y->dtype), y->data, &zero, rows * cols);
	for (int64_t i = 0; i < rows; i++)
		if (k >= -i && k < cols - i)
			gg_set_f64(y, i * cols + i + k, 1);
	return true;
}

const gg_op gg_op_EyeLike = {
    .name = "EyeLike",
    .doc = "ones on diagonal k, zeros elsewhere, in the shape of x",
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"dtype", GG_ATTR_DTYPE}, {"k", GG_ATTR_INT, false, "0"}, {0}},
    .in = {{GG_NUMBERS | GG_DT(GG_BOOL)}},
    .out = {{GG_NUMBERS | GG_DT(GG_BOOL)}},
    .infer = infer,
    .eval = eval,
    .grad = gg_grad_zero};
