#include "move.h"
#include "grad.h"
#include <string.h>

static bool infer(gg_infer *f)
{
	if (f->in[0].shape.rank == 0 || f->in[0].shape.rank == 1)
		return gg_fail(f, "input has rank %d, expected 2 or more", f->in[0].shape.rank);
	return gg_infer_same(f);
}

static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0], *y = &e->out[0];
	int rank = x->shape.rank;
	int64_t rows = x->shape.dim[rank - 2], cols = x->shape.dim[rank - 1], k = gg_eval_int(e, 1, 0);
	bool upper = gg_get_int(e->n, "upper");
	int64_t batches = gg_span(&x->shape, 0, rank - 2);
	size_t size = gg_dtype_size(x->dtype), row = (size_t)cols * size;
	const char *empty = gg_intern(""), *src = x->data;
	char *dst = y->data;
	const uint64_t zero = 0;
	const void *fill = x->dtype == GG_STRING ? (const void *)&empty : &zero;
	k = k < -rows ? -rows : k > cols ? cols : k;
	for (int64_t i = 0; i < batches * rows && cols > 0; i++, src += row, dst += row) {
		int64_t cut = i % rows + k + !upper; /* first column of the upper part, or after the lower */
		cut = cut < 0 ? 0 : cut > cols ? cols : cut;
		size_t at = (size_t)cut * size;
		if (dst != src)
			memcpy(dst, src, row);
		if (upper)
			gg_move_fill(size, dst, fill, cut);
		else
			gg_move_fill(size, dst + at, fill, cols - cut);
	}
	return true;
}

GG_GRAD(grad) { gg_give(t, IN(0), gg_grad_node(t, n, "Trilu", dy, IN(1), 0)); }

const gg_op gg_op_Trilu = {.name = "Trilu",
                           .doc = "the upper or lower triangle of matrices, from diagonal k",
                           .min_in = 1,
                           .max_in = 2,
                           .min_out = 1,
                           .max_out = 1,
                           .attrs = (const gg_attr_spec[]){{"upper", GG_ATTR_INT, false, "1"}, {0}},
                           .flags = GG_MOVES,
                           .in = {{GG_ANY, 'T'}, {GG_DT(GG_I64)}},
                           .out = {{GG_ANY, 'T'}},
                           .optional = 1 << 1,
                           .infer = infer,
                           .eval = eval,
                           .grad = grad};
