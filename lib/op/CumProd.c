#include "cumulate.h"
#include "grad.h"

/* CumSum or CumProd of v, as n goes, or the other way. */
static gg_value *running(gg_builder *t, gg_node *n, const char *op, gg_value *v, bool exclusive, bool back)
{
	gg_value *y = gg_put(t, op, 2, (gg_value *[]){v, IN(1)}, 0);
	if (y) {
		gg_set_attr_int(y->producer, "exclusive", exclusive);
		gg_set_attr_int(y->producer, "reverse", gg_get_int(n, "reverse") != back);
	}
	return gg_put_done(t, y);
}

/* Before the first 0 of a line: the sum of dy y over what comes later, divided by x. At it: the same with a
 * 1 in its place. Behind it all products have it. */
GG_GRAD(grad)
{
	bool apart = gg_get_int(n, "exclusive");
	gg_value *x = IN(0), *one = NUM(x, 1), *zero = NUM(x, 0), *none = OP("Equal", x, zero);
	gg_value *seen = running(t, n, "CumSum", gg_put_cast(t, none, (gg_dtype)x->dtype), false, false);
	gg_value *first = OP("And", none, OP("Equal", seen, one)), *before = OP("Equal", seen, zero);
	gg_value *filled = running(t, n, "CumProd", gg_put_where(t, first, one, x), apart, false);
	gg_value *at = running(t, n, "CumSum", OP("Mul", dy, filled), apart, true);
	gg_value *each = running(t, n, "CumSum", OP("Mul", dy, OUT), apart, true);
	each = OP("Div", each, gg_put_where(t, none, one, x));
	gg_give(t, x, gg_put_where(t, before, each, gg_put_where(t, first, at, zero)));
}

GG_CUMULATE(CumProd, "running product along an axis", true, .grad = grad);
