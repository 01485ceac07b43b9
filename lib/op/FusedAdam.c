#include "adam.h"

static const char roles[] = "ssssssvvvgs";

static void step(double *v, const double *s, double g) { v[0] -= s[5] * adam_direction(v, s, g, s[6]); }

static bool infer(gg_infer *f) { return update_infer_group(f, roles, 0, 0); }

static bool eval(gg_eval *e)
{
	update_eval_group(e, roles, 0, 0, step);
	return true;
}

static bool expand(gg_diag *d, gg_node *n)
{
	gg_dtype t = update_wide((gg_dtype)gg_in(n, 6)->dtype);
	gg_value *u = adam_expand(d, n, t, 10);
	gg_value *move = update_op(d, n, "Mul", update_arg(d, n, 5, t), u);
	if (!update_result(d, n, 0, update_op(d, n, "Sub", update_arg(d, n, 6, t), move)))
		return false;
	gg_remove_node(n);
	return true;
}

const gg_op gg_op_FusedAdam = {ADAM_OP(FusedAdam, "one step of Adam: var -= lr u", 11), .infer = infer,
                               .eval = eval, .expand = expand};
