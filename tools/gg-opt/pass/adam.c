#include "adam.h"

static gg_value *update(train *t, const char *name, gg_value *w, gg_value *g)
{
	g = train_add_scaled(t, g, "weight_decay", train_option(t, "weight_decay", 0), w);
	gg_value *u = adam_direction(t, name, w, g);
	return u ? train_op(t, "Sub", w, train_op(t, "Mul", adam_scalar(t, STEP_SIZE, (gg_dtype)w->dtype), u))
	         : 0;
}

/* Needs the gradients that the pass grad makes.
 * Breaks nothing: adds state. */
static bool run(gg_pass_run *p, gg_graph *g) { return train_run(p, g, 1e-3, update); }

const gg_pass gg_pass_adam = {
    .name = "adam",
    .help = "update parameters by Adam",
    .explain = "g = grad + weight_decay w;  m = beta1 m + (1-beta1) g;  v = beta2 v + (1-beta2) g^2\n"
               "w -= lr / (1-beta1^t) m / (sqrt(v) / sqrt(1-beta2^t) + eps)\n"
               "torch.optim.Adam: decay is added to the gradient (L2), the bias is corrected, eps stands "
               "outside the root; t counts\n"
               "from 1. State: 'NAME.exp_avg' (m), 'NAME.exp_avg_sq' (v)." TRAIN_EXPLAIN,
    .pipeline = "",
    .options = TRAIN_OPTIONS("0.001") "; " ADAM_OPTIONS "; weight_decay=X: on all parameters (0)",
    .interface = true,
    .run = run,
};
