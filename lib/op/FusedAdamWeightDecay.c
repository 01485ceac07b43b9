#include "adam.h"

static const char roles[] = "ssssssvvvgss";

static void step_sum(double *v, const double *s, double g)
{
	double u = adam_direction(v, s, g, s[7]);
	v[0] -= s[5] * (s[6] * v[0] + u);
}

static void step_factor(double *v, const double *s, double g)
{
	double u = adam_direction(v, s, g, s[7]);
	v[0] = s[6] * v[0] - s[5] * u;
}

static bool infer(gg_infer *f)
{
	const char *how = gg_get_string(f->n, "decay");
	if (strcmp(how, "sum") && strcmp(how, "factor"))
		return gg_fail(f, "attribute 'decay' is '%s', expected sum or factor", how);
	return update_infer_group(f, roles, 0, 0);
}

static bool factor(const gg_node *n) { return !strcmp(gg_get_string(n, "decay"), "factor"); }

static bool eval(gg_eval *e)
{
	update_eval_group(e, roles, 0, 0, factor(e->n) ? step_factor : step_sum);
	return true;
}

static bool expand(gg_diag *d, gg_node *n)
{
	gg_dtype t = update_wide((gg_dtype)gg_in(n, 6)->dtype);
	gg_value *u = adam_expand(d, n, t, 11), *lr = update_arg(d, n, 5, t), *var = update_arg(d, n, 6, t);
	gg_value *kept = update_op(d, n, "Mul", update_arg(d, n, 10, t), var);
	if (factor(n))
		var = update_op(d, n, "Sub", kept, update_op(d, n, "Mul", lr, u));
	else
		var = update_op(d, n, "Sub", var,
		                update_op(d, n, "Mul", lr, update_op(d, n, "Add", kept, u)));
	if (!update_result(d, n, 0, var))
		return false;
	gg_remove_node(n);
	return true;
}

const gg_op gg_op_FusedAdamWeightDecay = {
    ADAM_OP(FusedAdamWeightDecay,
            "one step of Adam with decay: var -= lr (wd var + u), or var = factor var - lr u", 12),
    .attrs = (const gg_attr_spec[]){{"decay", GG_ATTR_STRING, false, "\"sum\""}, {0}}, .infer = infer,
    .eval = eval, .expand = expand};
