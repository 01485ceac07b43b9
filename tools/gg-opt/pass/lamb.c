#include "adam.h"

static gg_value *norm(train *t, gg_value *v) { return train_all(t, "ReduceL2", v); }

/* |w| / |u|, or 1 where one of them is 0. */
static gg_value *trust(train *t, gg_value *w, gg_value *u)
{
	gg_value *a = norm(t, w), *b = norm(t, u);
	if (!a || !b)
		return 0;
	gg_value *zero = train_number(t, "lamb.zero", (gg_dtype)w->dtype, 0);
	gg_value *one = train_number(t, "lamb.one", (gg_dtype)w->dtype, 1);
	gg_value *both = train_op(t, "Greater", train_op(t, "Mul", a, b), zero);
	return both ? train_select(t, both, train_op(t, "Div", a, b), one) : 0;
}

static gg_value *update(train *t, const char *name, gg_value *w, gg_value *g)
{
	gg_dtype type = (gg_dtype)w->dtype;
	gg_value *u = adam_direction(t, name, w, g), *lr = train_rate(t, type), *fix;
	if (!u || !lr || !(fix = adam_scalar(t, STEP_SIZE, type)))
		return 0;
	/* the step size is lr / (1-beta1^t): here the direction wants the correction alone */
	u = train_op(t, "Mul", train_op(t, "Div", fix, lr), u);
	u = train_add_scaled(t, u, "weight_decay", train_option(t, "weight_decay", 0.01), w);
	u = u ? train_op(t, "Mul", trust(t, w, u), u) : 0;
	return u ? train_op(t, "Sub", w, train_op(t, "Mul", lr, u)) : 0;
}

/* Needs the gradients that the pass grad makes.
 * Breaks nothing: adds state. */
static bool run(gg_pass_run *p, gg_graph *g) { return train_run(p, g, 1e-3, update); }

const gg_pass gg_pass_lamb = {
    .name = "lamb",
    .help = "update parameters by LAMB",
    .explain = "m = beta1 m + (1-beta1) grad;  v = beta2 v + (1-beta2) grad^2\n"
               "u = m / (1-beta1^t) / (sqrt(v) / sqrt(1-beta2^t) + eps) + weight_decay w\n"
               "w -= lr r u, where r = |w| / |u| over each parameter, 1 where one of the norms is 0\n"
               "You et al. 2020, version 5; PyTorch has none. State: 'NAME.exp_avg' (m), 'NAME.exp_avg_sq' "
               "(v)." TRAIN_EXPLAIN,
    .pipeline = "",
    .options = TRAIN_OPTIONS("0.001") "; " ADAM_OPTIONS "; weight_decay=X: on all parameters (0.01)",
    .interface = true,
    .run = run,
};
