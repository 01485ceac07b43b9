#include "opkit.h"
#include "grad.h"

static bool eval(gg_eval *e)
{
	gg_matmul(&e->in[0], &e->in[1], &e->out[0]);
	return true;
}

/* A vector as a matrix of one row, or of one column. */
static gg_value *matrix(gg_builder *t, gg_value *v, const gg_value *vector, int64_t axis)
{
	return vector->shape.rank == 1 ? OP("Unsqueeze", v, gg_put_ints(t, 1, &axis)) : v;
}

GG_GRAD(grad)
{
	gg_value *a = IN(0), *b = IN(1);
	if (a->shape.rank < 1 || b->shape.rank < 1) {
		gg_grad_lacks(t, n, "the rank of an operand is not known");
		return;
	}
	gg_value *left = matrix(t, a, a, 0), *right = matrix(t, b, b, 1);
	dy = matrix(t, dy, b, -1);
	dy = matrix(t, dy, a, -2);
	gg_value *da = gg_grad_wanted(a) ? OP("MatMul", dy, gg_put_swap(t, right)) : 0;
	gg_value *db = gg_grad_wanted(b) ? OP("MatMul", gg_put_swap(t, left), dy) : 0;
	if (da)
		gg_give(t, a, gg_put_reshape(t, gg_grad_like(t, n, da, left), a));
	if (db)
		gg_give(t, b, gg_put_reshape(t, gg_grad_like(t, n, db, right), b));
}

#define TYPES (GG_FLOATS | GG_DT(GG_I32) | GG_DT(GG_I64) | GG_DT(GG_U32) | GG_DT(GG_U64))
const gg_op gg_op_MatMul = {.name = "MatMul",
                            .doc = "matrix product of a and b, as NumPy's matmul",
                            .min_in = 2,
                            .max_in = 2,
                            .min_out = 1,
                            .max_out = 1,
                            .in = {{TYPES, 'T'}, {TYPES, 'T'}},
                            .out = {{TYPES, 'T'}},
                            .infer = gg_infer_matmul,
                            .eval = eval,
                            .grad = grad};
