#include "match.h"
#include <stdlib.h>

static bool is_summary(const gg_node *n) { return n->nout == 0; }

/* Dropout lets all through. Between two declared names, or where its mask is read, it stays as a node. */
static void still_dropout(gg_node *n)
{
	bool mask = n->nout > 1 && n->out[1] && n->out[1]->uses;
	if (!mask && gg_can_replace(n->out[0], gg_in(n, 0))) {
		gg_replace_value(n->out[0], gg_in(n, 0));
		gg_remove_node(n);
	} else if (gg_in(n, 2)) {
		gg_remove_input_slot(n, 2);
	}
}

static bool has_reader(const gg_node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && n->out[i]->uses)
			return true;
	return n->nfollow > 0;
}

static void sweep(gg_graph *g)
{
	gg_graph *b;
	for (gg_node *n = g->last, *prev; n; n = prev) {
		prev = n->prev;
		if (!has_reader(n) && (!(gg_node_flags(n) & GG_EFFECT) || is_summary(n))) {
			gg_remove_node(n);
			continue;
		}
		for (int i = 0; (b = gg_body(n, i)); i++)
			sweep(b);
		for (int i = n->nin - 1; i >= gg_nargs(n); i--)
			if (!gg_capture_is_read(n, i))
				gg_remove_input_slot(n, i);
	}
	gg_sweep_consts(g, SIZE_MAX);
}

/* The same node with output 0 alone. */
static bool one_output(gg_pass_run *p, gg_node *n)
{
	const char *final = n->out[0]->name, *name = gg_fresh_name(n->graph, final);
	gg_value *in[6]; /* the last one of those that add */
	int nin = gg_nargs(n);
	for (int i = 0; i < nin; i++)
		in[i] = gg_in(n, i);
	gg_node *k = gg_add_node(n->graph, n, n->op, nin, in, 1, &name);
	gg_copy_attrs(k, n);
	gg_merge_loc(k, n);
	if (!gg_infer_node(p->d, k))
		return false;
	gg_replace_value(n->out[0], k->out[0]);
	gg_remove_node(n);
	if (k->out[0]->name != final)
		gg_rename(k->out[0], final);
	return true;
}

/* Running statistics, which stay what they are for whoever reads the new ones, and one result. */
static bool still_norm(gg_pass_run *p, gg_node *n)
{
	gg_set_attr_int(n, "training_mode", 0);
	for (int i = 1; i < n->nout; i++) {
		gg_value *v = n->out[i], *old = gg_in(n, i + 2);
		if (!v || !v->uses)
			continue;
		if (!gg_can_replace(v, old)) {
			const char *name = gg_fresh_name(n->graph, v->name);
			gg_node *k = gg_add_node(n->graph, n, gg_op_find("Identity"), 1, &old, 1, &name);
			gg_merge_loc(k, n);
			if (!gg_infer_node(p->d, k))
				return false;
			old = k->out[0];
		}
		gg_replace_value(v, old);
	}
	return n->nout < 2 || one_output(p, n);
}

static bool is_training_norm(const gg_node *n)
{
	return !strncmp(n->op->name, "BatchNorm", 9) && gg_op_attr(n->op, "training_mode") &&
	       gg_get_int(n, "training_mode");
}

static bool still(gg_pass_run *p, gg_graph *g)
{
	gg_graph *b;
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		for (int i = 0; (b = gg_body(n, i)); i++)
			if (!still(p, b))
				return false;
		if (!strcmp(n->op->name, "Dropout"))
			still_dropout(n);
		else if (is_training_norm(n) && !still_norm(p, n))
			return false;
	}
	return true;
}

/* Needs nothing; a graph without a loss is only put out of training mode.
 * Breaks the interface: the loss, its target and all state go. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	gg_value **out;
	bool *had;
	size_t n = 0;
	if (g->owner || !gg_apply(p, 0))
		return true;
	out = gg_alloc_n(&p->scratch, g->nout + 1, sizeof *out);
	had = gg_alloc_n(&p->scratch, g->nin + 1, sizeof *had);
	for (size_t i = 0; i < g->nin; i++)
		had[i] = g->in[i]->uses != 0;
	for (size_t i = 0; i < g->nout; i++)
		if (strcmp(g->out[i]->value->name, "loss") && strncmp(g->out[i]->value->name, "grad.", 5))
			out[n++] = g->out[i]->value;
	if (!n)
		return gg_error(p->d, GG_MALFORMED, "the graph has no output but the loss");
	gg_clear_results(g);
	for (size_t i = 0; i < n; i++)
		gg_add_output(g, out[i]);
	sweep(g);
	if (!still(p, g))
		return false;
	sweep(g);
	for (size_t i = g->nin; i-- > 0;)
		if (had[i] && !g->in[i]->uses)
			gg_remove_input(g, i);
	return true;
}

const gg_pass gg_pass_to_inference = {
    .name = "to_inference",
    .help = "turn a trained graph into one for inference",
    .explain =
        "The outputs 'loss' and 'grad.NAME', the updates, their state and inputs that only they read go; the "
        "other\n"
        "outputs stay. BatchNormalization takes its running statistics again, Dropout lets all through, in "
        "bodies "
        "too. Whoever\n"
        "reads what the running statistics would have become reads what they are.",
    .pipeline = "",
    .interface = true,
    .run = run,
};
