#include "opkit.h"
#include "grad.h"

static bool eval(gg_eval *e)
{
	gg_matmul(&e->in[0], &e->in[1], &e->out[0]);
	return true;
}

GG_GRAD(grad)
{
	gg_value *a = IN(0), *b = IN(1);
	if (a->shape.rank < 2 || b->shape.rank < 2) {
		gg_grad_lacks(t, n, "an operand is a vector, or of unknown rank");
		return;
	}
	if (gg_grad_wanted(a))
		gg_give_like(t, n, a, OP("MatMul", dy, gg_put_swap(t, b)));
	if (gg_grad_wanted(b))
		gg_give_like(t, n, b, OP("MatMul", gg_put_swap(t, a), dy));
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
