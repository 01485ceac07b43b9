#include "adam.h"

/* The root of the mean square, or with `centered` of the variance. */
static gg_value *spread(train *t, const char *name, gg_value *w, gg_value *g)
{
	gg_value *sq = adam_moment(t, train_state(t, name, "square_avg", w, 0), "alpha", 0.99,
	                           train_op(t, "Mul", g, g));
	if (train_flag(t, "centered")) {
		gg_value *mean = adam_moment(t, train_state(t, name, "grad_avg", w, 0), "alpha", 0.99, g);
		sq = mean ? train_op(t, "Sub", sq, train_op(t, "Mul", mean, mean)) : 0;
	}
	return train_op(t, "Sqrt", sq, 0);
}

static gg_value *update(train *t, const char *name, gg_value *w, gg_value *g)
{
	double momentum = train_option(t, "momentum", 0);
	g = train_add_scaled(t, g, "weight_decay", train_option(t, "weight_decay", 0), w);
	if (!g)
		return 0;
	gg_dtype type = (gg_dtype)w->dtype;
	gg_value *root = spread(t, name, w, g),
	         *eps = train_number(t, "eps", type, train_option(t, "eps", 1e-8));
	gg_value *u = root && eps ? train_op(t, "Div", g, train_op(t, "Add", root, eps)) : 0;
	if (momentum != 0 && u) {
		gg_value *buf = train_state(t, name, "momentum", w, 0);
		gg_value *kept = buf ? train_op(t, "Mul", train_number(t, "momentum", type, momentum), buf)
		                     : 0;
		u = kept ? train_op(t, "Add", kept, u) : 0;
		train_becomes(t, buf, u);
	}
	return u ? train_op(t, "Sub", w, train_op(t, "Mul", train_rate(t, type), u)) : 0;
}

/* Needs the gradients that the pass grad makes.
 * Breaks nothing: adds state. */
static bool run(gg_pass_run *p, gg_graph *g) { return train_run(p, g, 1e-2, update); }

const gg_pass gg_pass_rmsprop = {
    .name = "rmsprop",
    .help = "update parameters by RMSprop",
    .explain =
        "g = grad + weight_decay w;  s = alpha s + (1-alpha) g^2\n"
        "centered: a = alpha a + (1-alpha) g, and s - a^2 in the place of s below\n"
        "u = g / (sqrt(s) + eps);  with momentum: b = momentum b + u, and b in its place;  w -= lr u\n"
        "torch.optim.RMSprop. State: 'NAME.square_avg', 'NAME.grad_avg', 'NAME.momentum'." TRAIN_EXPLAIN,
    .pipeline = "",
    .options = TRAIN_OPTIONS("0.01") "; alpha=X: (0.99); eps=X: (1e-08); momentum=X: (0); centered=0|1: (0); "
                                     "weight_decay=X: on all parameters (0)",
    .interface = true,
    .run = run,
};
