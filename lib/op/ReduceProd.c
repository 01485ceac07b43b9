#include "reduce.h"
#include "grad.h"

/* Along one axis, the product of the others: right where an element is 0 too. */
static gg_value *others(gg_builder *t, gg_value *x, int64_t axis)
{
	gg_tensor at = {.dtype = GG_I64, .data = &axis};
	gg_value *k = t->bad ? 0 : gg_add_tensor(t->g, "axis", &at), *side[2];
	for (int i = 0; i < 2; i++) {
		side[i] = gg_put(t, "CumProd", 2, (gg_value *[]){x, k}, 0);
		if (side[i]) {
			gg_set_attr_int(side[i]->producer, "exclusive", 1);
			gg_set_attr_int(side[i]->producer, "reverse", i);
		}
		side[i] = gg_put_done(t, side[i]);
	}
	return OP("Mul", side[0], side[1]);
}

/* One axis after another, by the chain rule. */
GG_GRAD(grad)
{
	int64_t axis[2 * GG_MAX_RANK];
	gg_value *x = IN(0), *at[GG_MAX_RANK + 1] = {x};
	int r = x->shape.rank, count = IN(1) || gg_get_int(n, "noop_with_empty_axes") ? 0 : r;
	if (r < 0 || (IN(1) && !gg_grad_ints(t, IN(1), axis, &count))) {
		gg_grad_lacks(t, n, "its axes are not constant, or the rank of its input is not known");
		return;
	}
	if (IN(1) && !count && !gg_get_int(n, "noop_with_empty_axes"))
		count = r;
	for (int i = 0; i < count; i++) {
		axis[i] = count == r ? i : axis[i] < 0 ? axis[i] + r : axis[i];
		at[i + 1] = gg_put_reduce(t, "ReduceProd", at[i], 1, &axis[i], true);
	}
	gg_value *g = gg_put_reshape(t, dy, at[count]);
	for (int i = count - 1; i >= 0; i--)
		g = OP("Mul", others(t, at[i], axis[i]), g);
	gg_give(t, x, g);
}

GG_REDUCTION(ReduceProd, "product over axes", GG_REDUCE_TYPES, false, 1, a *x, a, 1, GG_WRAP_MUL(a, x), a,
             .grad = grad);
