#include "../train.h"

/* The first gradient enters whole, whatever the dampening. */
static gg_value *damped(train *t, gg_value *buf, gg_value *g, gg_value *momentum, double dampening)
{
	gg_dtype type = (gg_dtype)g->dtype;
	gg_value *kept = train_op(t, "Mul", buf, momentum);
	gg_value *part = train_op(t, "Mul", g, train_number(t, "momentum.part", type, 1 - dampening));
	gg_value *first = train_op(t, "Equal", t->step, train_number(t, "momentum.first", GG_I64, 0));
	return first ? train_select(t, first, g, train_op(t, "Add", kept, part)) : 0;
}

static gg_value *apply(train *t, gg_value *buf, gg_value *w, gg_value *g, gg_value *momentum, bool nesterov)
{
	gg_value *in[] = {w, buf, train_rate(t, (gg_dtype)w->dtype), g, momentum};
	const char *out[] = {gg_fresh_name(t->b.g, w->name), gg_fresh_name(t->b.g, buf->name)};
	if (t->b.bad)
		return 0;
	gg_node *n = gg_add_node(t->b.g, t->b.at, gg_op_find("ApplyMomentum"), 5, in, 2, out);
	if (nesterov)
		gg_set_attr_int(n, "use_nesterov", 1);
	if (!gg_infer_node(t->p->d, n)) {
		t->b.bad = true;
		return 0;
	}
	train_becomes(t, buf, n->out[1]);
	return n->out[0];
}

static gg_value *update(train *t, const char *name, gg_value *w, gg_value *g)
{
	double dampening = train_option(t, "dampening", 0);
	bool nesterov = train_flag(t, "nesterov");
	if (nesterov && dampening != 0) {
		t->b.bad = true;
		gg_error(t->p->d, GG_USAGE, "nesterov goes with dampening 0 only");
	}
	g = train_add_scaled(t, g, "weight_decay", train_option(t, "weight_decay", 0), w);
	gg_value *buf = g ? train_state(t, name, "momentum", w, 0) : 0;
	gg_value *momentum =
	    buf ? train_number(t, "momentum", (gg_dtype)w->dtype, train_option(t, "momentum", 0.9)) : 0;
	if (!momentum)
		return 0;
	if (dampening == 0)
		return apply(t, buf, w, g, momentum, nesterov);
	gg_value *next = damped(t, buf, g, momentum, dampening);
	train_becomes(t, buf, next);
	return next ? train_op(t, "Sub", w, train_op(t, "Mul", train_rate(t, (gg_dtype)w->dtype), next)) : 0;
}

/* Needs the gradients that the pass grad makes.
 * Breaks nothing: adds state. */
static bool run(gg_pass_run *p, gg_graph *g) { return train_run(p, g, 1e-3, update); }

const gg_pass gg_pass_momentum = {
    .name = "momentum",
    .help = "update parameters by stochastic gradient descent with momentum",
    .explain =
        "g = grad + weight_decay w;  m = momentum m + (1 - dampening) g, but g in the first update\n"
        "w -= lr m;  nesterov: w -= lr (g + momentum m)\n"
        "torch.optim.SGD, where momentum is 0 unless it is given and here 0.9. Without dampening this is the "
        "op\n"
        "ApplyMomentum, which is one kernel or expands into these. State: 'NAME.momentum'." TRAIN_EXPLAIN,
    .pipeline = "",
    .options = TRAIN_OPTIONS("0.001") "; momentum=X: (0.9); dampening=X: (0); nesterov=0|1: (0); "
                                      "weight_decay=X: on all parameters (0)",
    .interface = true,
    .run = run,
};
