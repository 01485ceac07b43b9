#include "cumulate.h"
#include "grad.h"

/* The sums run the other way. */
GG_GRAD(grad)
{
	gg_value *y = gg_put(t, "CumSum", 2, (gg_value *[]){dy, IN(1)}, 0);
	if (y) {
		gg_set_attr_int(y->producer, "exclusive", gg_get_int(n, "exclusive"));
		gg_set_attr_int(y->producer, "reverse", !gg_get_int(n, "reverse"));
	}
	gg_give(t, IN(0), gg_put_done(t, y));
}

GG_CUMULATE(CumSum, "running sum along an axis", false, .grad = grad);
