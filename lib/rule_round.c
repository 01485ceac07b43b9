/* What a rewrite changes about rounding: a graph rounds where it says so. An f32 that is computed by way of
 * f16 where it was not before, or no longer is, differs by less than its tolerance, so that no comparison of
 * numbers would tell. */
#include "rule_in.h"

enum { EXACT = 1 << 10 };

/* Bits of the float that output i of a node is rounded to; EXACT: of none. */
static int rounds_to(const gg_node *n, int i)
{
	const gg_value *v = n->out[i], *x = gg_in(n, 0);
	if (!v || gg_dtype_class((gg_dtype)v->dtype) != 'F')
		return EXACT;
	int bits = gg_dtype_bits((gg_dtype)v->dtype);
	bool moves = gg_op_moves(n->op) && x && gg_dtype_bits((gg_dtype)x->dtype) <= bits;
	return moves ? EXACT : bits;
}

/* The least of them, below what the results have. */
static int narrowest(gg_node *const *node, int n, int result, gg_dtype *t)
{
	int least = result;
	for (int k = 0; k < n; k++)
		for (int i = 0; node[k] && i < node[k]->nout; i++)
			if (rounds_to(node[k], i) < least) {
				least = rounds_to(node[k], i);
				*t = (gg_dtype)node[k]->out[i]->dtype;
			}
	return least;
}

const char *rule_rounding(gg_node *const *old, int nold, gg_node *const *now, int nnow, int result)
{
	gg_dtype was = GG_NONE, is = GG_NONE;
	int before = narrowest(old, nold, result, &was), after = narrowest(now, nnow, result, &is);
	if (after < before)
		return rule_say("it rounds to %s, which it did not before", gg_dtype_name(is));
	return before < after ? rule_say("it does not round to %s any more", gg_dtype_name(was)) : 0;
}
