#include "../train.h"

static gg_value *update(train *t, const char *name, gg_value *w, gg_value *g)
{
	g = train_add_scaled(t, g, "weight_decay", train_option(t, "weight_decay", 0), w);
	return train_op(t, "Sub", w, g ? train_op(t, "Mul", train_rate(t, (gg_dtype)w->dtype), g) : 0);
}

/* Needs the gradients that the pass grad makes.
 * Breaks nothing: adds state. */
static bool run(gg_pass_run *p, gg_graph *g) { return train_run(p, g, 1e-3, update); }

const gg_pass gg_pass_sgd = {
    .name = "sgd",
    .help = "update parameters by stochastic gradient descent",
    .explain = "g = grad + weight_decay w;  w -= lr g\n"
               "torch.optim.SGD without momentum; see the pass momentum for that." TRAIN_EXPLAIN,
    .pipeline = "",
    .options = TRAIN_OPTIONS("0.001") "; weight_decay=X: on all parameters (0)",
    .interface = true,
    .run = run,
};
