#include "nnkit.h"
#include "grad.h"
#include <math.h>

/* The first of equals wins, and the first NaN before all numbers, as in ArgMax. */
static void row(double *v, int64_t n, const gg_node *node)
{
	int64_t best = 0;
	for (int64_t i = 1; i < n; i++)
		if (v[i] > v[best] || (isnan(v[i]) && !isnan(v[best])))
			best = i;
	for (int64_t i = 0; i < n; i++)
		v[i] = i == best;
}

static bool eval(gg_eval *e) { return gg_eval_rows(e, gg_get_int(e->n, "axis"), row); }

const gg_op gg_op_Hardmax = {.name = "Hardmax",
                             .doc = "1 where an axis has its maximum, else 0",
                             .min_in = 1,
                             .max_in = 1,
                             .min_out = 1,
                             .max_out = 1,
                             .attrs = (const gg_attr_spec[]){{"axis", GG_ATTR_INT, .def = "-1"}, {0}},
                             .in = {{GG_FLOATS, 'T'}},
                             .out = {{GG_FLOATS, 'T'}},
                             .infer = gg_infer_rows,
                             .eval = eval,
                             .grad = gg_grad_zero};
