/* Looking on while a graph runs: what each call wrote, and how long it took. */
#include "frame.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Bytes between neighbouring channels, and between neighbouring points of space, in layout l. */
void gg_copy_plain(const gg_tensor *t, gg_layout l, void *to)
{
	size_t size = gg_dtype_size(t->dtype);
	int64_t block = l == GG_BLOCK8 ? 8 : l == GG_BLOCK16 ? 16 : t->shape.dim[1], space = 1, per;
	const char *from = t->data;
	char *out = to;

	for (int i = 2; i < t->shape.rank; i++)
		space *= t->shape.dim[i];
	per = (t->shape.dim[1] + block - 1) / (block ? block : 1); /* blocks of channels */
	for (int64_t n = 0; n < t->shape.dim[0]; n++)
		for (int64_t c = 0; c < t->shape.dim[1]; c++)
			for (int64_t s = 0; s < space; s++, out += size)
				memcpy(out,
				       from + (((n * per + c / block) * space + s) * block + c % block) *
				                  (int64_t)size,
				       size);
}

double gg_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- what was written ------------------------------------------------------------------------ */

typedef struct seen {
	gg_frame *f;
	gg_value **v;
	gg_tensor *t;
	size_t n, cap_v, cap_t;
	void **own; /* copies in plain layout */
	size_t nown, cap_own;
} seen;

static void see(seen *s, gg_value *v)
{
	uint32_t slot = gg_slot(s->f->scope->x, v);
	gg_tensor t;

	if (slot == GG_ABSENT || s->f->scope->inner[slot])
		return;
	t = s->f->val[slot];
	if (!t.dtype || !gg_shape_known(&t.shape) || (!t.data && gg_nbytes(&t)))
		return;
	if (v->layout != GG_PLAIN && t.shape.rank > 1) {
		void *p = gg_xaligned(gg_nbytes(&t));
		gg_copy_plain(&t, (gg_layout)v->layout, p);
		t.data = p;
		GG_PUSH(s->own, s->nown, s->cap_own, p);
	}
	s->v = gg_grow(s->v, s->n, &s->cap_v, sizeof *s->v);
	s->t = gg_grow(s->t, s->n, &s->cap_t, sizeof *s->t);
	s->v[s->n] = v;
	s->t[s->n++] = t;
}

static void see_node(seen *s, const gg_node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			see(s, n->out[i]);
}

static bool tell(seen *s, const gg_todo *t)
{
	gg_exec *x = s->f->scope->x;
	gg_ran r = {.node = t ? t->node : NULL,
	            .nnode = t ? t->nnode : 0,
	            .run = s->f->scope->runs,
	            .nout = (int)s->n,
	            .out_value = s->v,
	            .out = s->t};
	bool good = !s->n || x->watch->wrote(&r, x->watch->arg);

	for (size_t i = 0; i < s->nown; i++)
		free(s->own[i]);
	free(s->own);
	free(s->v);
	free(s->t);
	return good;
}

static const gg_node *next_call(const gg_frame *f, size_t at)
{
	return at < f->ntodo ? f->todo[at].node[0] : NULL;
}

bool gg_watch_start(gg_frame *f)
{
	seen s = {.f = f};
	const gg_graph *g = f->scope->g;

	if (!f->scope->x->watch || !f->scope->x->watch->wrote)
		return true;
	for (size_t i = 0; i < g->nin; i++)
		see(&s, g->in[i]);
	for (const gg_node *n = g->first; n && n != next_call(f, 0); n = n->next)
		see_node(&s, n);
	return tell(&s, NULL);
}

bool gg_watch_wrote(gg_todo *t)
{
	gg_frame *f = t->frame;
	seen s = {.f = f};
	const gg_node *n = t->node[t->nnode - 1], *end = next_call(f, (size_t)(t - f->todo) + 1);

	if (!f->scope->x->watch || !f->scope->x->watch->wrote || f->scope->outer)
		return true;
	for (int i = 0; i < t->nnode; i++)
		see_node(&s, t->node[i]);
	for (n = n->next; n && n != end; n = n->next)
		see_node(&s, n);
	return tell(&s, t);
}

/* ---- how long it took ------------------------------------------------------------------------ */

bool gg_watch_times(const gg_exec *x) { return x->watch && x->watch->took; }

void gg_watch_took(const gg_todo *t, uint64_t run, int stream, double start, double seconds)
{
	const gg_exec *x = t->scope->x;
	gg_ran r = {.node = t->node,
	            .nnode = t->nnode,
	            .run = run,
	            .device = stream >= 0,
	            .stream = stream,
	            .nout = t->nout,
	            .out = t->out};

	for (const gg_scope *s = t->scope->outer; s; s = s->outer)
		r.depth++;
	x->watch->took(&r, start, seconds, x->watch->arg);
}
