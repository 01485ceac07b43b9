/* Back to before selection. */
#include "target.h"
#include <string.h>

static void forget_value(gg_value *v) { v->layout = GG_PLAIN; }

static void forget_graph(gg_graph *g)
{
	gg_graph *b;

	for (size_t i = 0; i < g->nin; i++)
		forget_value(g->in[i]);
	for (gg_value *v = g->consts; v; v = v->next_const)
		forget_value(v);
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		n->kernel = NULL;
		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				forget_value(n->out[i]);
		for (int i = 0; (b = gg_body(n, i)); i++)
			forget_graph(b);
		if (!strcmp(n->op->name, "Reorder") && gg_out(n, 0) &&
		    gg_can_replace(n->out[0], gg_in(n, 0))) {
			gg_replace_value(n->out[0], gg_in(n, 0));
			gg_remove_node(n);
		}
	}
}

void gg_forget_choices(gg_model *m)
{
	forget_graph(m->main);
	m->target = NULL;
	gg_target_describe(NULL, m, NULL);
	gg_drop_plan(m);
	m->stage = "opt";
}
