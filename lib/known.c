/* What hangs on constants alone is computed once, before the first frame: a weight times a folded
 * scale would otherwise be made, and packed, in every run. Never where it would take much more
 * room than what it is made of. */
#include "frame.h"

#include <stdlib.h>

enum { SLACK = 4096 };

static bool plain_and_known(const gg_value *v, int64_t *bytes)
{
	int64_t n = v->layout || !v->dtype || !gg_shape_known(&v->shape) ? -1 : gg_value_bytes(v, &v->shape);

	*bytes += n > 0 ? n : 0;
	return n >= 0;
}

static bool can_fold(const gg_scope *s, const gg_node *n)
{
	int64_t in = SLACK, out = 0;

	if ((n->op->flags & (GG_RANDOM | GG_EFFECT | GG_DATA_SHAPE | GG_NOFOLD)) || n->ncap || n->nafter ||
	    !n->op->eval || gg_body(n, 0) || !n->nin)
		return false;
	for (int i = 0; i < n->nin; i++) {
		const gg_value *v = n->in[i].value;
		if (v && (!(s->know[gg_slot(s->x, v)] & GG_HAS_DATA) || !plain_and_known(v, &in)))
			return false;
	}
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && !plain_and_known(n->out[i], &out))
			return false;
	return out <= in;
}

static bool fold(gg_scope *s, const gg_node *n)
{
	gg_tensor *in = gg_alloc_n(&s->tmp, (size_t)n->nin, sizeof *in);
	gg_tensor *out = gg_alloc_n(&s->tmp, (size_t)n->nout, sizeof *out);

	for (int i = 0; i < n->nin; i++)
		if (n->in[i].value)
			in[i] = s->base[gg_slot(s->x, n->in[i].value)];
	if (!gg_eval_node(s->x->d, n, n->nin, in, n->nout, out))
		return false;
	for (int i = 0; i < n->nout; i++) {
		uint32_t slot = gg_slot(s->x, n->out[i]);
		if (slot == GG_ABSENT) {
			free(out[i].data);
			continue;
		}
		s->base[slot] = out[i];
		s->know[slot] = GG_HAS_SHAPE | GG_HAS_DATA;
	}
	return true;
}

bool gg_scope_fold(gg_scope *s)
{
	bool good = true;

	for (const gg_node *n = s->g->first; n && good; n = n->next)
		if (can_fold(s, n)) {
			good = fold(s, n);
			gg_arena_reset(&s->tmp);
		}
	return good;
}

void gg_scope_unfold(gg_scope *s)
{
	for (size_t i = 0; s->base && i < s->nval; i++)
		if (s->value[i]->kind == GG_TEMP && s->know[i]) {
			free(s->base[i].data);
			s->base[i] = (gg_tensor){0};
			s->know[i] = 0;
		}
}

bool gg_scope_folded(const gg_scope *s, const gg_node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			return s->know[gg_slot(s->x, n->out[i])] & GG_HAS_DATA;
	return false;
}
