#include "pointwise.h"
#include "grad.h"

/* 2 / sqrt(pi) exp(-x^2) */
GG_GRAD(grad)
{
	gg_value *x = IN(0), *bell = OP("Exp", OP("Neg", OP("Mul", x, x), 0), 0);
	gg_give(t, x, OP("Mul", dy, OP("Mul", bell, NUM(x, 1.12837916709551257390))));
}

GG_UNARY(Erf, "error function of x", GG_FLOATS, erf(x), 0, .grad = grad);
