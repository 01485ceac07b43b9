#include "pointwise.h"
#include "grad.h"

/* 1 / (1 + |x|)^2 */
GG_GRAD(grad)
{
	gg_value *d = OP("Add", OP("Abs", IN(0), 0), NUM(dy, 1));
	gg_give(t, IN(0), OP("Div", dy, OP("Mul", d, d)));
}

GG_UNARY(Softsign, "x / (1 + |x|)", GG_FLOATS, x / (1 + fabs(x)), 0, .grad = grad);
