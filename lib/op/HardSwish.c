#include "pointwise.h"
#include "grad.h"

/* x h, h = HardSigmoid(x) with 1/6 and 1/2: h, and x / 6 where h bends not */
GG_GRAD(grad)
{
	gg_value *x = IN(0), *third = NUM(x, 1 / 3.0), *half = NUM(x, 0.5);
	gg_value *inside = OP("Less", OP("Abs", x, 0), NUM(x, 3));
	gg_value *above = gg_put_cast(t, OP("Greater", x, NUM(x, 0)), (gg_dtype)x->dtype);
	gg_value *slope = gg_put_where(t, inside, OP("Add", OP("Mul", x, third), half), above);
	gg_give(t, x, OP("Mul", dy, slope));
}

GG_UNARY(HardSwish, "x * max(0, min(1, x / 6 + 1 / 2))", GG_FLOATS, x *(x<-3 ? 0 : x> 3 ? 1 : x / 6 + 0.5), 0,
         .grad = grad);
