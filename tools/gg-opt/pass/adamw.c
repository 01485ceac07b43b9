#include "adam.h"

/* 1 - lr wd, once for all parameters where the rate is constant. */
static gg_value *kept(train *t, gg_value *w, double decay)
{
	gg_dtype type = (gg_dtype)w->dtype;
	if (!t->rate)
		return train_op(t, "Mul", w, train_number(t, "decay", type, 1 - t->lr * decay));
	gg_builder was = train_scalars(t);
	gg_value *f = train_op(t, "Mul", t->rate, train_number(t, "weight_decay", GG_F64, decay));
	f = train_cast(t, train_op(t, "Sub", train_number(t, "adam.one", GG_F64, 1), f), type);
	train_back(t, was);
	return f ? train_op(t, "Mul", w, f) : 0;
}

static gg_value *update(train *t, const char *name, gg_value *w, gg_value *g)
{
	double decay = train_option(t, "weight_decay", 0.01);
	gg_value *u = adam_direction(t, name, w, g);
	u = u ? train_op(t, "Mul", adam_scalar(t, STEP_SIZE, (gg_dtype)w->dtype), u) : 0;
	return u ? train_op(t, "Sub", decay != 0 ? kept(t, w, decay) : w, u) : 0;
}

/* Needs the gradients that the pass grad makes.
 * Breaks nothing: adds state. */
static bool run(gg_pass_run *p, gg_graph *g) { return train_run(p, g, 1e-3, update); }

const gg_pass gg_pass_adamw = {
    .name = "adamw",
    .help = "update parameters by Adam with decoupled weight decay",
    .explain = "m = beta1 m + (1-beta1) grad;  v = beta2 v + (1-beta2) grad^2\n"
               "w = (1 - lr weight_decay) w - lr / (1-beta1^t) m / (sqrt(v) / sqrt(1-beta2^t) + eps)\n"
               "torch.optim.AdamW: decay is not part of the gradient. State: 'NAME.exp_avg' (m), "
               "'NAME.exp_avg_sq' (v)." TRAIN_EXPLAIN,
    .pipeline = "",
    .options = TRAIN_OPTIONS("0.001") "; " ADAM_OPTIONS "; weight_decay=X: on all parameters (0.01)",
    .interface = true,
    .run = run,
};
