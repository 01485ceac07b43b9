#include "move.h"
#include "grad.h"
#include <string.h>

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape, *lens = &f->in[1].shape;
	int64_t batch = gg_get_int(f->n, "batch_axis"), time = gg_get_int(f->n, "time_axis");
	if (s->rank >= 0 && s->rank < 2)
		return gg_fail(f, "input has rank %d, expected 2 or more", s->rank);
	if (batch == time || batch < 0 || batch > 1 || time < 0 || time > 1)
		return gg_fail(f, "batch_axis %lld and time_axis %lld must be 0 and 1", (long long)batch,
		               (long long)time);
	if (s->rank >= 0 && lens->rank == 1 && gg_dim_known(lens->dim[0]) && gg_dim_known(s->dim[batch]) &&
	    lens->dim[0] != s->dim[batch])
		return gg_fail(f, "%lld sequence lengths for a batch of %lld", (long long)lens->dim[0],
		               (long long)s->dim[batch]);
	return gg_infer_same(f);
}

static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0], *y = &e->out[0];
	int batch = (int)gg_get_int(e->n, "batch_axis"), time = 1 - batch;
	int64_t nb = x->shape.dim[batch], nt = x->shape.dim[time], stride[GG_MAX_RANK];
	const int64_t *len = gg_eval_ints(e, 1);
	gg_strides(&x->shape, stride);
	size_t size = gg_dtype_size(x->dtype), row = (size_t)gg_span(&x->shape, 2, x->shape.rank) * size;
	if (gg_count(x) == 0)
		return true;
	for (int64_t b = 0; b < nb; b++) {
		if (len[b] < 0 || len[b] > nt)
			return gg_fail(e, "sequence %lld has the length %lld of %lld", (long long)b,
			               (long long)len[b], (long long)nt);
		for (int64_t t = 0; t < nt; t++) {
			int64_t from = t < len[b] ? len[b] - 1 - t : t;
			memcpy((char *)y->data + (size_t)(b * stride[batch] + t * stride[time]) * size,
			       (const char *)x->data +
			           (size_t)(b * stride[batch] + from * stride[time]) * size,
			       row);
		}
	}
	return true;
}

GG_GRAD(grad) { gg_give(t, IN(0), gg_grad_node(t, n, "ReverseSequence", dy, IN(1), 0)); }

const gg_op gg_op_ReverseSequence = {
    .name = "ReverseSequence",
    .doc = "the first elements of each sequence reversed, as many as its length says",
    .min_in = 2,
    .max_in = 2,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"batch_axis", GG_ATTR_INT, false, "1"},
                                    {"time_axis", GG_ATTR_INT, false, "0"},
                                    {0}},
    .flags = GG_MOVES,
    .in = {{GG_ANY, 'T'}, {GG_DT(GG_I64)}},
    .out = {{GG_ANY, 'T'}},
    .infer = infer,
    .eval = eval,
    .grad = grad};
