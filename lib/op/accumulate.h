/* Ops that compute what another op does and add input 3 to it, whose buffer they may take. */
#ifndef GG_OP_ACCUMULATE_H
#define GG_OP_ACCUMULATE_H

#include "nnkit.h"
#include "opkit.h"
#include <stdlib.h>

enum { ADDEND = 3 };

/* z may lie where y goes: it is read first. Rounded where the single ops round. */
static inline bool eval_plus(gg_eval *e, const gg_op *op)
{
	double *z = gg_doubles(&e->in[ADDEND]);
	bool good = op->eval(e);
	for (int64_t i = 0; good && i < gg_count(&e->out[0]); i++)
		gg_set_f64(&e->out[0], i, gg_get_f64(&e->out[0], i) + z[i]);
	free(z);
	return good;
}

static inline bool infer_plus(gg_infer *f, const gg_op *op)
{
	const gg_shape *y = &f->out[0].shape, *z = &f->in[ADDEND].shape;
	if (!op->infer(f))
		return false;
	if (gg_shape_known(y) && gg_shape_known(z) && !gg_shape_eq(y, z))
		return gg_fail(f, "z has shape %s, expected %s", gg_str(f, z), gg_str(f, y));
	return true;
}

static inline bool expand_plus(gg_diag *d, gg_node *n, const gg_op *op)
{
	gg_value *in[] = {gg_in(n, 0), gg_in(n, 1), gg_in(n, 2)};
	const char *name = gg_fresh_name(n->graph, n->out[0]->name);
	gg_node *c = gg_add_node(n->graph, n, op, in[2] ? 3 : 2, in, 1, &name);
	gg_copy_attrs(c, n);
	gg_merge_loc(c, n);
	gg_value *y = gg_infer_node(d, c)
	                  ? gg_expand_node(d, n, "Add", 2, (gg_value *[]){c->out[0], gg_in(n, ADDEND)})
	                  : 0;
	if (!y)
		return false;
	gg_replace_value(n->out[0], y);
	gg_remove_node(n);
	return true;
}

#endif
