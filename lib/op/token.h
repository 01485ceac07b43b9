/* Ops of imported graphs that say order or grouping and compute nothing: tokens and copies.
 *
 * A token is an empty bool[0]: it has no bytes, only a producer and readers. */
#ifndef GG_OP_TOKEN_H
#define GG_OP_TOKEN_H

#include "move.h"
#include <string.h>

/* out[o] is in[i]. */
static inline void infer_copy(gg_infer *f, int o, int i)
{
	f->out[o].dtype = f->in[i].dtype;
	f->out[o].shape = f->in[i].shape;
	f->out[o].content = f->in[i].content;
}

static inline bool eval_one(gg_eval *e, int o, int i)
{
	size_t n = gg_nbytes(&e->in[i]);
	if (e->out[o].dtype && n && e->out[o].data != e->in[i].data)
		memmove(e->out[o].data, e->in[i].data, n);
	return true;
}

static inline bool infer_first(gg_infer *f)
{
	infer_copy(f, 0, 0);
	return true;
}

/* No gap in the list of inputs from `first` on. */
static inline bool all_given(gg_infer *f, int first)
{
	for (int i = first; i < f->nin; i++)
		if (!f->in[i].dtype && !f->n->in[i].value)
			return gg_fail(f, "input %d is missing", i);
	return true;
}

static inline bool infer_token(gg_infer *f)
{
	f->out[0].shape = gg_shape_of(1, (gg_dim[]){0});
	return true;
}

#endif
