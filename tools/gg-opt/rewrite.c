/* What passes share. */
#include "pass.h"
#include <stdlib.h>
#include <string.h>

bool gg_apply(gg_pass_run *p, const gg_node *n)
{
	if (!gg_allowed(p))
		return false;
	gg_applied(p, 1);
	p->at = n ? gg_node_name(n) : 0;
	p->at_op = n ? n->op->name : 0;
	if (n)
		gg_verbose(p->d, "%s: '%s' (%s)", p->pass->name, gg_node_name(n), n->op->name);
	return true;
}

size_t gg_allowed(const gg_pass_run *p) { return *p->left < 0 ? SIZE_MAX : (size_t)*p->left; }

void gg_applied(gg_pass_run *p, size_t n)
{
	if (*p->left > 0)
		*p->left -= (int64_t)n;
	p->applied += n;
	p->tried += n;
}

void gg_take_back(gg_pass_run *p, const gg_node *n, const char *why)
{
	if (*p->left >= 0)
		++*p->left;
	p->applied--;
	p->tried--;
	gg_refused(p, n, why);
}

void gg_refused(gg_pass_run *p, const gg_node *n, const char *why)
{
	size_t i = 0;
	p->tried++;
	while (i < p->nrefusal && strcmp(p->refusal[i].why, why))
		i++;
	if (i == p->nrefusal)
		GG_PUSH(p->refusal, p->nrefusal, p->cap_refusal, ((gg_refusal){gg_intern(why), 0}));
	p->refusal[i].n++;
	if (p->remarks)
		gg_note(p->d, "%s: node '%s' (%s): %s", p->pass->name, gg_node_name(n), n->op->name, why);
}

const char *gg_pass_option(const gg_pass_run *p, const char *key)
{
	size_t n = strlen(key);
	for (int i = 0; i < p->noption; i++)
		if (!strncmp(p->option[i], key, n) && p->option[i][n] == '=')
			return p->option[i] + n + 1;
	return 0;
}

/* Gives `to` the place, type and name of `from`, which goes with its node. */
static void take_over(gg_value *to, gg_value *from)
{
	to->dtype = from->dtype;
	to->shape = from->shape;
	to->layout = from->layout;
	to->content = from->content;
	gg_replace_value(from, to);
}

gg_node *gg_fuse(gg_node *first, gg_node *last, const gg_op *op)
{
	gg_graph *g = first->graph;
	gg_value **in = gg_xcalloc((size_t)first->nin, sizeof *in);
	const char **name = gg_xcalloc((size_t)first->nout, sizeof *name);
	const char **final = gg_xcalloc((size_t)first->nout, sizeof *final);
	for (int i = 0; i < first->nin; i++)
		in[i] = first->in[i].value;
	for (int i = 0; i < first->nout; i++) {
		const gg_value *v = i ? first->out[i] : last->out[0];
		final[i] = v ? v->name : 0;
		name[i] = v ? gg_fresh_name(g, v->name) : 0;
	}
	gg_node *n = gg_add_node(g, first, op, first->nin, in, first->nout, name);
	gg_copy_attrs(n, first);
	gg_merge_loc(n, first);
	gg_merge_loc(n, last);
	take_over(n->out[0], last->out[0]);
	for (int i = 1; i < n->nout; i++)
		if (n->out[i])
			take_over(n->out[i], first->out[i]);
	gg_remove_node(last);
	gg_remove_node(first);
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && n->out[i]->name != final[i])
			gg_rename(n->out[i], final[i]);
	free(in);
	free(name);
	free(final);
	return n;
}
