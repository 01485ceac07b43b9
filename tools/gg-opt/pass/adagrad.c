#include "../train.h"

/* lr / (1 + (t-1) lr_decay) */
static gg_value *rate(train *t, gg_dtype type)
{
	double decay = train_option(t, "lr_decay", 0);
	gg_value **v = &t->memo[type == GG_F64];
	if (decay == 0)
		return train_rate(t, type);
	if (*v || t->b.bad)
		return *v;
	gg_builder was = train_scalars(t);
	gg_value *by = train_op(t, "Mul", train_cast(t, t->step, GG_F64),
	                        train_number(t, "adagrad.decay", GG_F64, decay));
	by = train_op(t, "Add", by, train_number(t, "adagrad.one", GG_F64, 1));
	gg_value *lr = t->rate ? t->rate : train_number(t, "adagrad.lr", GG_F64, t->lr);
	*v = train_cast(t, train_op(t, "Div", lr, by), type);
	train_back(t, was);
	return *v;
}

static gg_value *update(train *t, const char *name, gg_value *w, gg_value *g)
{
	g = train_add_scaled(t, g, "weight_decay", train_option(t, "weight_decay", 0), w);
	gg_value *s = g ? train_state(t, name, "sum", w, train_option(t, "start", 0)) : 0;
	if (!s)
		return 0;
	gg_dtype type = (gg_dtype)w->dtype;
	gg_value *sum = train_op(t, "Add", s, train_op(t, "Mul", g, g));
	gg_value *eps = train_number(t, "eps", type, train_option(t, "eps", 1e-10));
	train_becomes(t, s, sum);
	gg_value *root = eps ? train_op(t, "Add", train_op(t, "Sqrt", sum, 0), eps) : 0;
	gg_value *u = root ? train_op(t, "Div", g, root) : 0, *lr = rate(t, type);
	return u && lr ? train_op(t, "Sub", w, train_op(t, "Mul", lr, u)) : 0;
}

/* Needs the gradients that the pass grad makes.
 * Breaks nothing: adds state. */
static bool run(gg_pass_run *p, gg_graph *g) { return train_run(p, g, 1e-2, update); }

const gg_pass gg_pass_adagrad = {
    .name = "adagrad",
    .help = "update parameters by Adagrad",
    .explain = "g = grad + weight_decay w;  s += g^2;  w -= lr / (1 + (t-1) lr_decay) g / (sqrt(s) + eps)\n"
               "torch.optim.Adagrad; s starts as 'start' (its initial_accumulator_value). State: "
               "'NAME.sum'." TRAIN_EXPLAIN,
    .pipeline = "",
    .options = TRAIN_OPTIONS("0.01") "; lr_decay=X: (0); eps=X: (1e-10); start=X: (0); "
                                     "weight_decay=X: on all parameters (0)",
    .interface = true,
    .run = run,
};
