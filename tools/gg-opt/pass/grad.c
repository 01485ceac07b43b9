#include "../train.h"
#include "../../../lib/grad.h"
#include <fnmatch.h>

/* Marks what a gradient is wanted of: trained parameters, and what is made from them up to the loss. */
static void mark_wanted(gg_pass_run *p, gg_graph *g)
{
	const char *freeze = gg_pass_option(p, "freeze");
	for (size_t i = 0; i < g->nin; i++)
		g->in[i]->mark = 0;
	for (gg_value *v = g->consts; v; v = v->next_const)
		v->mark = v->kind == GG_PARAM && gg_dtype_class((gg_dtype)v->dtype) == 'F' && v->uses &&
		                  !(freeze && !fnmatch(freeze, v->name, 0))
		              ? GG_GRAD_WANTED
		              : 0;
	for (gg_node *n = g->first; n; n = n->next) {
		bool any = false;
		for (int i = 0; i < n->nin; i++)
			any |= n->in[i].value && n->in[i].value->mark;
		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				n->out[i]->mark = any && gg_dtype_class((gg_dtype)n->out[i]->dtype) == 'F'
				                      ? GG_GRAD_WANTED
				                      : 0;
	}
}

/* The way from a node to the loss, for the message. */
static const char *path_to_loss(gg_pass_run *p, const gg_node *n)
{
	gg_buf b = {0};
	const char *s;
	for (int steps = 0; n && steps < 12; steps++) {
		const gg_node *next = 0;
		gg_buf_printf(&b, "%s%s '%s'", b.len ? " -> " : "", n->op->name, gg_node_name(n));
		for (int i = 0; i < n->nout && !next; i++)
			for (const gg_use *u = n->out[i] ? n->out[i]->uses : 0; u && !next; u = u->next)
				if (u->node && u->node->nout && u->node->out[0] &&
				    gg_grad_of(u->node->out[0]))
					next = u->node;
		n = next;
	}
	s = gg_printf(&p->scratch, "%s", b.p ? b.p : "");
	gg_buf_fini(&b);
	return s;
}

static bool is_state(const gg_graph *g, const gg_value *v)
{
	for (size_t i = 0; i < g->nstate; i++)
		if (g->state[i]->param == v)
			return true;
	return false;
}

/* Says so when a glob is the name of nothing, which is most likely a misspelt one. */
static bool check_freeze(gg_pass_run *p, const gg_graph *g)
{
	const char *freeze = gg_pass_option(p, "freeze");
	const gg_value *v = g->consts;
	while (freeze && v && (v->kind != GG_PARAM || fnmatch(freeze, v->name, 0)))
		v = v->next_const;
	return !freeze || v ||
	       gg_error(p->d, GG_USAGE, "pass 'grad': freeze=%s is the name of no parameter", freeze);
}

/* Autocast's, which nothing reads yet; one that the network reads would be trained and scale as well. */
static bool check_scale(gg_pass_run *p, gg_graph *g)
{
	const gg_value *v = gg_find_value(g, "loss_scale");
	return !v || v->kind != GG_PARAM || !v->uses ||
	       gg_error(
	           p->d, GG_MALFORMED,
	           "pass 'grad': the parameter 'loss_scale' is read before the gradients: the name is for "
	           "autocast");
}

/* d loss / d loss: 1, or the loss scale. */
static gg_value *seed(train *t, gg_value *loss)
{
	gg_value *scale = gg_find_value(t->b.g, "loss_scale");
	if (scale && scale->kind == GG_PARAM)
		return train_cast(t, train_op(t, "Identity", scale, 0), (gg_dtype)loss->dtype);
	return train_number(t, "grad.one", (gg_dtype)loss->dtype, 1);
}

/* All gradients that came to its outputs were taken by the rule. */
static bool all_taken(train *t, const gg_node *n)
{
	for (int i = 1; i < n->nout; i++)
		if (gg_grad_of(n->out[i]) && !(n->mark >> (i < 63 ? i : 63) & 1))
			return gg_node_error(t->p->d, GG_UNSUPPORTED, n, "no gradient through its output %d",
			                     i);
	return true;
}

static bool walk_back(train *t, gg_value *loss)
{
	loss->mark = (uint64_t)(uintptr_t)seed(t, loss);
	for (gg_node *n = loss->producer, *prev; n && !t->b.bad; n = prev) {
		bool reached = false, any = false;
		prev = n->prev;
		for (int i = 0; i < n->nout; i++)
			reached |= gg_grad_of(n->out[i]) != 0;
		for (int i = 0; i < n->nin; i++)
			any |= gg_grad_wanted(n->in[i].value);
		if (!reached || !any)
			continue;
		if (!n->op->grad)
			return gg_node_error(t->p->d, GG_UNSUPPORTED, n,
			                     "no gradient for this op, on the way to the loss: %s",
			                     path_to_loss(t->p, n));
		n->mark = 0;
		n->op->grad(&t->b, n, gg_grad_out(n, 0));
		if (!t->b.bad && !all_taken(t, n))
			return false;
	}
	return !t->b.bad;
}

/* A fused op without a rule has the gradient of its plain ops. */
static void expand_fused(gg_graph *g, const gg_value *loss)
{
	gg_diag silent = {.silent = true};
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		if (n->op->expand && !n->op->aliases && !n->op->grad && n != loss->producer)
			n->op->expand(&silent, n);
	}
}

/* Gives each gradient its name. */
static bool name_gradients(train *t)
{
	size_t found = 0;
	bool outputs = train_flag(t, "outputs");
	for (gg_value *v = t->b.g->consts; v && !t->b.bad; v = v->next_const) {
		gg_value *dv = v->kind == GG_PARAM && !is_state(t->b.g, v) ? gg_grad_of(v) : 0, *y;
		const char *name = gg_printf(&t->p->scratch, "grad.%s", v->name);
		if (!dv)
			continue;
		if (gg_find_value(t->b.g, name))
			return gg_error(t->p->d, GG_MALFORMED,
			                "the name '%s' is taken: the graph has such a value already", name);
		found++;
		y = dv->kind == GG_TEMP && strncmp(dv->name, "grad.", 5) ? dv
		                                                         : train_op(t, "Identity", dv, 0);
		if (!y)
			return false;
		gg_rename(y, name);
		if (outputs)
			gg_add_output(t->b.g, y);
	}
	return found || gg_error(t->p->d, GG_USAGE, "pass 'grad': the loss depends on no parameter");
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
		return gg_error(p->d, GG_USAGE,
		                "pass 'grad': the graph has no value '%s': the pass loss comes first",
		                of ? of : "loss");
	if (gg_dtype_class((gg_dtype)loss->dtype) != 'F' || loss->shape.rank != 0)
		return gg_error(p->d, GG_USAGE, "pass 'grad': '%s' is not a scalar of floats", loss->name);
	if (!check_freeze(p, g) || !check_scale(p, g))
		return false;
	if (!gg_apply(p, loss->producer))
		return true;
	expand_fused(g, loss);
	mark_wanted(p, g);
	return walk_back(&t, loss) && name_gradients(&t);
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
        "Running statistics have none. With a 'loss_scale' (autocast) all gradients are multiplied by it.\n"
        "A fused op without a rule is first written in plain ops.\n"
        "An op without a rule is an error that names it and the way to the loss.",
    .pipeline = "",
    .options = "of=NAME: another value than 'loss'; freeze=GLOB: parameters without gradients; outputs=0|1: "
               "gradients are "
               "outputs (0)",
    .interface = true,
    .run = run,
};
