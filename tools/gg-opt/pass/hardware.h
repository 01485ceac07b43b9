/* What the fusions after selection share. */
#ifndef GG_PASS_HARDWARE_H
#define GG_PASS_HARDWARE_H

#include "../../../lib/target.h"
#include "../pass.h"
#include <stdlib.h>
#include <string.h>

/* Before selection only meaning counts; afterwards the target must have a row for the op. */
static inline bool has_kernel(const gg_pass_run *p, const char *op)
{
	const gg_target *t = p->m->target ? gg_target_find(p->m->target) : 0;
	if (!t || !t->backend)
		return true;
	for (int i = 0; i < t->nrows; i++)
		if (!strcmp(t->rows[i].op, op))
			return true;
	return false;
}

static inline gg_node *add_fused(gg_node *before, const char *op, int nin, gg_value *const *in, int nout,
                                 const char *const *base)
{
	const char *name[3];
	for (int i = 0; i < nout; i++)
		name[i] = base[i] ? gg_fresh_name(before->graph, base[i]) : 0;
	return gg_add_node(before->graph, before, gg_op_find(op), nin, in, nout, name);
}

/* `to` gets the readers, the name and the layout of `from`. */
static inline void take_place(gg_value *to, gg_value *from)
{
	const char *name = from->name;
	to->layout = from->layout;
	gg_rename(from, gg_fresh_name(from->graph, name));
	gg_rename(to, name);
	gg_replace_uses(from, to);
}

/* `to` waits for what `from` waits for. */
static inline void take_after(gg_node *to, const gg_node *from)
{
	for (int i = 0; i < from->nafter; i++)
		gg_add_after(to, from->after[i]);
}

#endif
