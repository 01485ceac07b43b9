#include "../train.h"
#include "../../../lib/grad.h"
#include <fnmatch.h>

static bool named(const char *glob, const gg_value *v) { return !fnmatch(glob, v->name, 0); }

/* wrt=parameters, inputs, all, or a glob of both; freeze takes out again. */
static bool chosen(gg_pass_run *p, const gg_graph *g, const gg_value *v)
{
	const char *freeze = gg_pass_option(p, "freeze"), *wrt = gg_pass_option(p, "wrt");
	bool param = v->kind == GG_PARAM;
	if (gg_dtype_class((gg_dtype)v->dtype) != 'F' || !v->uses || (param && v->updated) ||
	    !(param || v->kind == GG_INPUT) || (freeze && named(freeze, v)))
		return false;
	if (!wrt || !strcmp(wrt, "parameters"))
		return param;
	return !strcmp(wrt, "all") || (strcmp(wrt, "inputs") ? named(wrt, v) : !param);
}

/* Calls `each` on inputs, then on parameters and constants. */
static bool sources(train *t, bool (*each)(train *t, gg_value *v))
{
	for (size_t i = 0; i < t->b.g->nin; i++)
		if (!each(t, t->b.g->in[i]))
			return false;
	for (gg_value *v = t->b.g->consts; v; v = v->next_const)
		if (v->kind == GG_PARAM && !each(t, v))
			return false;
	return true;
}

static bool want(train *t, gg_value *v)
{
	v->mark = chosen(t->p, t->b.g, v) ? GG_GRAD_WANTED : 0;
	return true;
}

/* A glob that is the name of nothing is most likely a misspelt one. */
static bool check_glob(gg_pass_run *p, const gg_graph *g, const char *option, const char *what)
{
	const char *glob = gg_pass_option(p, option);
	bool stop = !strcmp(option, "stop"), wrt = !strcmp(option, "wrt");
	if (!glob ||
	    (wrt && (!strcmp(glob, "parameters") || !strcmp(glob, "inputs") || !strcmp(glob, "all"))))
		return true;
	for (size_t i = 0; i < g->nin; i++)
		if (named(glob, g->in[i]))
			return true;
	for (const gg_value *v = g->consts; v; v = v->next_const)
		if (v->kind == GG_PARAM && named(glob, v))
			return true;
	for (const gg_node *n = g->first; stop && n; n = n->next)
		for (int i = 0; i < n->nout; i++)
			if (n->out[i] && named(glob, n->out[i]))
				return true;
	return gg_error(p->d, GG_USAGE, "%s=%s is the name of no %s", option, glob, what);
}

/* Gives a gradient its name. */
static bool name_gradient(train *t, gg_value *v)
{
	gg_value *dv = chosen(t->p, t->b.g, v) ? gg_grad_of(v) : 0, *y;
	const char *prefix = gg_pass_option(t->p, "prefix");
	const char *name = gg_printf(&t->p->scratch, "%s%s", prefix ? prefix : "grad.", v->name);
	if (!dv)
		return true;
	if (gg_find_value(t->b.g, name))
		return gg_error(t->p->d, GG_MALFORMED,
		                "the name '%s' is taken: the graph has such a value already", name);
	y = dv->kind == GG_TEMP && !dv->mark ? dv : train_op(t, "Identity", dv, 0);
	if (!y)
		return false;
	gg_rename(y, name);
	y->mark = 1; /* has its name */
	if (train_flag(t, "outputs"))
		gg_add_output(t->b.g, y);
	t->named++;
	return !t->b.bad;
}

/* Needs the value 'loss' that the pass loss makes.
 * Breaks nothing: adds nodes behind the loss. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	const char *of = gg_pass_option(p, "of");
	gg_value *loss = gg_find_value(g, of ? of : "loss");
	train t = {.p = p, .b = {.d = p->d, .g = g, .name = "gradient"}};
	if (g->owner)
		return true;
	if (!loss || !loss->producer)
		return gg_error(p->d, GG_USAGE, "the graph has no value '%s': the pass loss comes first",
		                of ? of : "loss");
	if (gg_dtype_class((gg_dtype)loss->dtype) != 'F' || loss->shape.rank != 0)
		return gg_error(p->d, GG_USAGE, "'%s' is not a scalar of floats", loss->name);
	if (!check_glob(p, g, "freeze", "parameter") || !check_glob(p, g, "wrt", "input or parameter") ||
	    !check_glob(p, g, "stop", "value"))
		return false;
	if (!gg_apply(p, loss->producer))
		return true;
	loss = gg_grad_begin(g, loss, 0);
	sources(&t, want);
	gg_value *one = train_number(&t, "one", (gg_dtype)loss->dtype, 1);
	if (!gg_grad_walk(&t.b, loss, one, gg_pass_option(p, "stop")) || !sources(&t, name_gradient))
		return false;
	return t.named || gg_error(p->d, GG_USAGE, "the loss depends on no %s",
	                           gg_pass_option(p, "wrt") ? "value that wrt names" : "parameter");
}

const gg_pass gg_pass_grad = {
    .name = "grad",
    .help = "make the gradients of the loss with respect to the parameters",
    .explain =
        "For each floating parameter that the value 'loss' depends on, the value 'grad.NAME' in plain ops, "
        "behind "
        "the loss.\n"
        "What broadcasting repeated is summed; Relu has the slope 0 at 0, MaxPool gives to the first of "
        "equals.\n"
        "Running statistics have none. Behind ScaleGradient (autocast's loss scale) gradients are multiplied "
        "by it;\n"
        "StopGradient, and values that `stop` names, let none through.\n"
        "A fused op without a rule is first written in plain ops.\n"
        "An op without a rule is an error that names it and the way to the loss.",
    .pipeline = "",
    .options =
        "of=NAME: another value than 'loss'; wrt=parameters|inputs|all|GLOB: of what (parameters); "
        "freeze=GLOB: what has no gradients; stop=GLOB: values through which none flows; prefix=TEXT: of "
        "their names (grad.); outputs=0|1: gradients are outputs (0)",
    .interface = true,
    .run = run,
};
