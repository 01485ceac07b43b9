#include "momentum.h"

static bool nesterov(const gg_node *n) { return gg_get_int(n, "use_nesterov"); }

static void classical_step(double *v, const double *s, double g) { momentum_apply(v, g, s[0], s[1], false); }

static void nesterov_step(double *v, const double *s, double g) { momentum_apply(v, g, s[0], s[1], true); }

static bool infer(gg_infer *f) { return update_infer_group(f, "vvsgs", 0, 0); }

static bool eval(gg_eval *e)
{
	update_eval_group(e, "vvsgs", 0, 0, nesterov(e->n) ? nesterov_step : classical_step);
	return true;
}

static bool expand(gg_diag *d, gg_node *n)
{
	if (!momentum_expand(d, n, 0, 0, -1, -1, nesterov(n)))
		return false;
	gg_remove_node(n);
	return true;
}

const gg_op gg_op_ApplyMomentum = {
    UPDATE_OP(ApplyMomentum, "var, acc: acc = momentum acc + grad; var -= lr acc"),
    .min_in = 5,
    .max_in = 5,
    .min_out = 1,
    .max_out = 2,
    .attrs = (const gg_attr_spec[]){{"use_nesterov", GG_ATTR_INT, false, "0"}, {0}},
    .aliases = (const signed char[]){0, 0, 1, 1, -1},
    .infer = infer,
    .eval = eval,
    .expand = expand};
