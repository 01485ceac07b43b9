#include "pointwise.h"
#include "grad.h"

/* x Phi(x): Phi(x) + x phi(x) */
static gg_value *slope(gg_builder *t, gg_value *x)
{
	gg_value *half = NUM(x, 0.5), *bell = OP("Exp", OP("Neg", OP("Mul", half, OP("Mul", x, x)), 0), 0);
	gg_value *phi = OP("Erf", OP("Mul", x, NUM(x, 0.70710678118654752440)), 0);
	phi = OP("Mul", OP("Add", phi, NUM(x, 1)), half);
	return OP("Add", phi, OP("Mul", x, OP("Mul", bell, NUM(x, 0.39894228040143267794))));
}

/* The other form, by the chain rule. */
static gg_value *tanh_slope(gg_builder *t, gg_value *x)
{
	gg_value *one = NUM(x, 1), *x2 = OP("Mul", x, x), *c = NUM(x, 0.79788456080286535588);
	gg_value *in = OP("Mul", OP("Add", OP("Mul", x2, NUM(x, 0.044715)), one), OP("Mul", x, c));
	gg_value *h = OP("Tanh", in, 0), *inner = OP("Add", OP("Mul", x2, NUM(x, 0.134145)), one);
	gg_value *bend = OP("Mul", OP("Sub", one, OP("Mul", h, h)), OP("Mul", inner, c));
	return OP("Mul", OP("Add", OP("Add", one, h), OP("Mul", x, bend)), NUM(x, 0.5));
}

GG_GRAD(grad)
{
	bool by_tanh = !strcmp(gg_get_string(n, "approximate"), "tanh");
	gg_give(t, IN(0), OP("Mul", dy, by_tanh ? tanh_slope(t, IN(0)) : slope(t, IN(0))));
}

GG_UNARY_ATTR(Gelu, "x times the normal distribution function of x",
              GG_ATTRS({"approximate", GG_ATTR_STRING, false, "\"none\""}),
              a != 0 ? 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)))
                     : 0.5 * x * erfc(-0.70710678118654752440 * x),
              .grad = grad);
