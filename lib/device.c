/* A frame's twin in a device's memory.
 *
 *     host     in ──┐      arena           a host call
 *                   │ up   ^ down  (what a host call reads)   │ up (what the device reads of it)
 *     device   in' ─┴─ recorded calls ───────────────────────┴── recorded calls ── out, when asked for
 *
 * The device's arena has the host's offsets, so one plan serves both. Which copy of a value is
 * good where is known when the frame is made, and so is each transfer. Between two host calls
 * the device's calls are recorded in the second run and from then on replayed. Constants go up
 * once, when the first frame asks for them. Parameters of the state live on the device. */
#include "twin.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 256 }; /* kernels read wide: what shares a buffer begins at multiples of it */

/* ---- constants and parameters ---------------------------------------------------------------- */

static const char *name_of(const gg_frame *f, uint32_t slot) { return f->scope->value[slot]->name; }

/* A copy of what lies at `host`; made once for an address. */
static void *uploaded(gg_exec *x, const void *host, size_t bytes, const char *what)
{
	void *p = gg_map_get(&x->uploaded, (uint64_t)(uintptr_t)host);

	if (p || !bytes)
		return p;
	if (!(p = x->device->alloc(x->d, bytes, what)))
		return NULL;
	gg_map_put(&x->uploaded, (uint64_t)(uintptr_t)host, p);
	return x->device->upload(x->d, p, host, bytes) ? p : NULL;
}

bool gg_param_to_device(gg_exec *x, const gg_tensor *t)
{
	void *p = gg_map_get(&x->uploaded, (uint64_t)(uintptr_t)t->data);

	return !p || x->device->upload(x->d, p, t->data, gg_nbytes(t));
}

bool gg_param_to_host(gg_exec *x, const gg_tensor *t)
{
	void *p = gg_map_get(&x->uploaded, (uint64_t)(uintptr_t)t->data);

	return !p || x->device->download(x->d, t->data, p, gg_nbytes(t));
}

void gg_device_drop(gg_exec *x)
{
	gg_graph *g = x->m->main;

	for (size_t i = 0; x->param && i < g->nstate; i++)
		if (x->param[i])
			gg_param_to_host(x, &x->main->base[gg_slot(x, g->state[i]->param)]);
	gg_map_each(&x->uploaded, x->device->release);
	gg_map_fini(&x->uploaded);
	if (x->device_stage)
		x->device->release(x->device_stage);
	x->device_stage = NULL;
	x->device_stage_len = 0;
}

/* ---- where a value lies ---------------------------------------------------------------------- */

bool gg_twin_constant(const gg_frame *f, uint32_t slot) { return (f->know[slot] & GG_HAS_DATA) != 0; }

/* NULL: no bytes, or reported. */
static void *constant(gg_frame *f, uint32_t slot)
{
	gg_exec *x = f->scope->x;
	const gg_tensor *t = &f->val[slot];
	size_t bytes = gg_nbytes(t);
	void *p;

	if (!(f->know[slot] & GG_FROM_SHAPE))
		return uploaded(x, t->data, bytes, name_of(f, slot));
	if (!bytes || !(p = x->device->alloc(x->d, bytes, name_of(f, slot))))
		return NULL;
	GG_PUSH(f->twin->owned, f->twin->nowned, f->twin->cap_owned, p);
	return x->device->upload(x->d, p, t->data, bytes) ? p : NULL;
}

static void *address(gg_frame *f, uint32_t slot)
{
	gg_exec *x = f->scope->x;
	gg_twin *w = f->twin;
	gg_value *root = gg_storage(f->scope->value[slot]);
	const gg_tensor *t = &f->val[slot];
	const char *host = t->data;
	void **in;

	if (gg_twin_constant(f, slot))
		return constant(f, slot);
	if (gg_twin_constant(f, gg_slot(x, root)))
		return constant(f, gg_slot(x, root));
	if (root->kind != GG_INPUT && host >= f->arena && host < f->arena + f->arena_size)
		return w->arena + (host - f->arena);
	if (root->kind != GG_INPUT)
		return uploaded(x, host, gg_nbytes(t), name_of(f, slot));
	in = &w->in[root->index];
	if (!*in)
		*in = x->device->alloc(x->d, gg_nbytes(&f->in[root->index]) + 1, root->name);
	return *in;
}

bool gg_twin_find(gg_frame *f, uint32_t slot, void **out)
{
	*out = address(f, slot);
	return *out || !gg_nbytes(&f->val[slot]);
}

/* ---- making ---------------------------------------------------------------------------------- */

static gg_segment *open_segment(gg_frame *f, bool host, size_t at)
{
	gg_twin *w = f->twin;
	gg_segment *s = w->nseg ? &w->seg[w->nseg - 1] : NULL;

	if (s && !s->host && !host) {
		s->to = at + 1;
		return s;
	}
	w->seg = gg_grow(w->seg, w->nseg, &w->cap_seg, sizeof *w->seg);
	s = &w->seg[w->nseg++];
	*s = (gg_segment){.host = host, .from = at, .to = at + 1};
	return s;
}

/* The device is going to read it. */
static bool want_on_device(gg_frame *f, uint32_t slot)
{
	gg_twin *w = f->twin;
	gg_segment *s = &w->seg[w->maker[slot]];

	if (w->where[slot] & GG_ON_DEVICE)
		return true;
	w->where[slot] |= GG_ON_DEVICE;
	if (gg_twin_constant(f, slot) || gg_storage(f->scope->value[slot])->kind != GG_TEMP ||
	    gg_twin_constant(f, gg_slot(f->scope->x, gg_storage(f->scope->value[slot]))))
		return true;
	if (!s->host)
		gg_bug("value '%s' is on the host, and no call there made it", name_of(f, slot));
	GG_PUSH(s->up, s->nup, s->cap_up, slot);
	return true;
}

/* ---- streams --------------------------------------------------------------------------------- */

static void number_events(gg_frame *f)
{
	const gg_order *o = &f->order;
	gg_twin *w = f->twin;

	w->event = gg_xcalloc((size_t)o->ncall + 2, sizeof *w->event);
	w->nevent = GG_FIRST_EVENT;
	for (uint32_t c = 1; c <= o->ncall; c++)
		w->event[c] = o->signals[c] ? w->nevent++ : 0;
}

static bool add_device_call(gg_frame *f, size_t at)
{
	gg_twin *w = f->twin;
	gg_todo *t = &f->todo[at];

	open_segment(f, false, at);
	for (int i = 0; i < t->nin; i++) {
		t->in[i].data = NULL;
		if (t->in_slot[i] == GG_ABSENT || (i < 64 && t->call.taken >> i & 1))
			continue;
		if (!want_on_device(f, t->in_slot[i]) || !gg_twin_find(f, t->in_slot[i], &t->in[i].data))
			return false;
	}
	for (int i = 0; i < t->nout; i++) {
		if (t->out_slot[i] == GG_ABSENT)
			continue;
		w->where[t->out_slot[i]] = GG_ON_DEVICE;
		w->maker[t->out_slot[i]] = (uint32_t)w->nseg - 1;
		if (!gg_twin_find(f, t->out_slot[i], &t->out[i].data))
			return false;
	}
	return true;
}

static void add_host_call(gg_frame *f, size_t at)
{
	gg_twin *w = f->twin;
	gg_todo *t = &f->todo[at];
	gg_segment *s = open_segment(f, true, at);

	for (int i = 0; i < t->nin; i++) {
		uint32_t slot = t->in_slot[i];
		if (slot == GG_ABSENT || (w->where[slot] & GG_ON_HOST))
			continue;
		w->where[slot] |= GG_ON_HOST;
		GG_PUSH(s->down, s->ndown, s->cap_down, slot);
	}
	for (int i = 0; i < t->nout; i++)
		if (t->out_slot[i] != GG_ABSENT) {
			w->where[t->out_slot[i]] = GG_ON_HOST;
			w->maker[t->out_slot[i]] = (uint32_t)w->nseg - 1;
		}
}

/* A node without a call: its outputs are known, or are its input under another name. */
static void follow(gg_frame *f, const gg_node *n)
{
	gg_exec *x = f->scope->x;
	gg_twin *w = f->twin;

	for (int i = 0; i < n->nout; i++) {
		uint32_t s = gg_slot(x, n->out[i]), from = gg_slot(x, gg_in(n, 0));
		if (s == GG_ABSENT)
			continue;
		if (gg_twin_constant(f, s) || from == GG_ABSENT) {
			w->where[s] = GG_ON_HOST;
			continue;
		}
		w->where[s] = w->where[from];
		w->maker[s] = w->maker[from];
	}
}

static void start_where(gg_frame *f)
{
	gg_scope *s = f->scope;

	for (size_t i = 0; i < s->nval; i++)
		f->twin->where[i] = GG_ON_HOST;
	for (size_t i = 0; i < s->g->nstate; i++)
		f->twin->where[gg_slot(s->x, s->g->state[i]->param)] = GG_ON_DEVICE;
}

static bool add_calls(gg_frame *f)
{
	const gg_node *n = f->scope->g->first;
	bool good = true;
	size_t k = 0;

	while (n && good) {
		const gg_todo *t = k < f->ntodo ? &f->todo[k] : NULL;
		if (!t || t->node[0] != n) {
			follow(f, n);
			n = n->next;
			continue;
		}
		if (t->kernel)
			good = add_device_call(f, k);
		else
			add_host_call(f, k);
		for (int i = 0; i < t->nnode; i++)
			n = n->next;
		k++;
	}
	return good;
}

/* ---- workspace ------------------------------------------------------------------------------- */
/* It lies where the plan leaves room while the call runs, and beside the arena where there is none,
 * or where calls of other streams run meanwhile. */

typedef struct life { /* of a buffer of the arena: between these calls */
	size_t from, to;
	int64_t off, end;
} life;

static void note_life(const gg_frame *f, life *l, uint32_t slot, size_t call)
{
	gg_exec *x = f->scope->x;
	const gg_value *v = slot == GG_ABSENT ? NULL : gg_storage(f->scope->value[slot]);

	if (!v || v->kind != GG_TEMP || v->mem_off < 0)
		return;
	l += gg_slot(x, v);
	if (l->end == 0)
		*l = (life){call, call, v->mem_off, v->mem_off + v->mem_len};
	l->to = call > l->to ? call : l->to;
}

static life *list_lives(const gg_frame *f)
{
	gg_scope *s = f->scope;
	life *l = gg_xcalloc(s->nval + 1, sizeof *l);

	for (size_t k = 0; k < f->ntodo; k++) {
		const gg_todo *t = &f->todo[k];
		for (int i = 0; i < t->nout; i++)
			note_life(f, l, t->out_slot[i], k);
		for (int i = 0; i < t->nin; i++)
			note_life(f, l, t->in_slot[i], k);
	}
	for (size_t i = 0; i < s->nval; i++)
		if (s->x->kept[s->value[i]->id] || gg_is_output(s->value[i]))
			note_life(f, l, (uint32_t)i, SIZE_MAX);
	for (size_t i = 0; i < s->g->nstate; i++)
		note_life(f, l, gg_slot(s->x, s->g->state[i]->final.value), SIZE_MAX);
	return l;
}

static int by_start(const void *a, const void *b)
{
	const life *x = a, *y = b;
	return (x->from > y->from) - (x->from < y->from);
}

/* Calls in their order, and the buffers in use during one, by their place. */
typedef struct sweep {
	life *all, *busy;
	size_t n, next, nbusy;
} sweep;

static sweep sweep_start(const gg_frame *f)
{
	sweep s = {.all = list_lives(f), .busy = gg_xcalloc(f->scope->nval + 1, sizeof *s.busy)};

	for (size_t i = 0; i < f->scope->nval; i++)
		if (s.all[i].end > s.all[i].off)
			s.all[s.n++] = s.all[i];
	if (s.n)
		qsort(s.all, s.n, sizeof *s.all, by_start);
	return s;
}

static void sweep_to(sweep *s, size_t k)
{
	size_t n = 0, at;

	for (size_t i = 0; i < s->nbusy; i++)
		if (s->busy[i].to >= k)
			s->busy[n++] = s->busy[i];
	for (; s->next < s->n && s->all[s->next].from <= k; s->next++) {
		const life *l = &s->all[s->next];
		for (at = n++; at > 0 && s->busy[at - 1].off > l->off; at--)
			s->busy[at] = s->busy[at - 1];
		s->busy[at] = *l;
	}
	s->nbusy = n;
}

/* Where `bytes` fit now; -1: nowhere. */
static int64_t find_gap(const gg_frame *f, const sweep *s, int64_t bytes)
{
	int64_t at = 0;

	for (size_t i = 0; i < s->nbusy && s->busy[i].off - at < bytes; i++)
		if (s->busy[i].end > at)
			at = (int64_t)gg_round_up((size_t)s->busy[i].end, PIECE);
	return bytes <= (int64_t)f->arena_size - at ? at : -1;
}

static bool give_scratch(gg_frame *f)
{
	gg_exec *x = f->scope->x;
	gg_twin *w = f->twin;
	size_t most[GG_MAX_STREAMS] = {0};
	bool share = !f->order.ncall && !x->o.no_reuse;
	sweep s = sweep_start(f);

	for (size_t k = 0; k < f->ntodo; k++) {
		gg_todo *t = &f->todo[k];
		size_t bytes = t->kernel ? t->call.workspace : 0, *m = &most[gg_twin_stream(f, k)];
		int64_t at = -1;
		sweep_to(&s, k);
		if (share && bytes)
			at = find_gap(f, &s, (int64_t)bytes);
		if (t->kernel)
			t->call.scratch = at < 0 ? NULL : w->arena + at;
		if (at < 0 && bytes > *m)
			*m = bytes;
	}
	free(s.all);
	free(s.busy);
	for (int i = 0; i < GG_MAX_STREAMS; i++) {
		if (most[i] && !(w->scratch[i] = x->device->alloc(x->d, most[i], "workspace")))
			return false;
		w->workspace += most[i];
	}
	for (size_t k = 0; k < f->ntodo; k++)
		if (f->todo[k].kernel && !f->todo[k].call.scratch)
			f->todo[k].call.scratch = w->scratch[gg_twin_stream(f, k)];
	return true;
}

/* A seed for each call that draws, at a place of its own: what is recorded reads it there. */
static bool give_seeds(gg_frame *f)
{
	gg_exec *x = f->scope->x;
	gg_twin *w = f->twin;

	for (size_t k = 0; k < f->ntodo; k++)
		if (f->todo[k].kernel && (f->todo[k].node[0]->op->flags & GG_RANDOM))
			GG_PUSH(w->draws, w->ndraws, w->cap_draws, k);
	if (!w->ndraws)
		return true;
	w->seed = gg_xcalloc(w->ndraws, sizeof *w->seed);
	if (!(w->seed_at = x->device->alloc(x->d, w->ndraws * sizeof *w->seed, "seeds")))
		return false;
	for (size_t i = 0; i < w->ndraws; i++)
		f->todo[w->draws[i]].call.seed_at = w->seed_at + i;
	return true;
}

/* What fills the plan: one value a buffer. */
static bool note_largest(const gg_frame *f)
{
	enum { SHOWN = 4 };
	const gg_value *top[SHOWN + 1] = {0};
	gg_buf b = {0};

	for (size_t i = 0; i < f->scope->nval; i++) {
		const gg_value *v = f->scope->value[i];
		int k = SHOWN;
		if (v->kind != GG_TEMP || v->alias || v->mem_off < 0)
			continue;
		for (; k > 0 && (!top[k - 1] || top[k - 1]->mem_len < v->mem_len); k--)
			top[k] = top[k - 1];
		top[k] = v;
	}
	for (int i = 0; i < SHOWN && top[i]; i++)
		gg_buf_printf(&b, "%s'%s' of node '%s' %.4g MB", i ? ", " : "", top[i]->name,
		              gg_node_name(top[i]->producer), (double)top[i]->mem_len * 1e-6);
	if (b.len)
		gg_note(f->scope->x->d, "the largest values of the plan: %s; a smaller batch needs less",
		        b.p);
	gg_buf_fini(&b);
	return false;
}

bool gg_twin_make(gg_frame *f)
{
	gg_exec *x = f->scope->x;
	gg_twin *w = f->twin = gg_xcalloc(1, sizeof *w);
	size_t nval = f->scope->nval + 1;

	w->where = gg_xcalloc(nval, 1);
	w->maker = gg_xcalloc(nval, sizeof *w->maker);
	w->in = gg_xcalloc(f->scope->g->nin + 1, sizeof *w->in);
	w->stage = gg_xcalloc(f->scope->g->nin + 1, sizeof *w->stage);
	w->fed = gg_xcalloc(f->scope->g->nin + 1, sizeof *w->fed);
	if (!(w->arena = x->device->alloc(x->d, f->arena_size, "the memory plan")))
		return note_largest(f);
	start_where(f);
	number_events(f);
	return add_calls(f) && give_scratch(f) && give_seeds(f);
}

void gg_twin_free(gg_frame *f)
{
	gg_twin *w = f->twin;
	const gg_device *dev = f->scope->x->device;
	gg_diag silent = {.silent = true}; /* what failed has been said */

	if (!w)
		return;
	dev->sync(&silent);
	gg_twin_forget(f);
	for (size_t i = 0; i < w->nseg; i++) {
		free(w->seg[i].piece);
		free(w->seg[i].down);
		free(w->seg[i].up);
	}
	for (size_t i = 0; i < w->nowned; i++)
		dev->release(w->owned[i]);
	for (size_t i = 0; i < f->scope->g->nin; i++) {
		if (w->in[i])
			dev->release(w->in[i]);
		if (w->stage[i])
			dev->release(w->stage[i]);
	}
	for (int i = 0; i < GG_MAX_STREAMS; i++)
		if (w->scratch[i])
			dev->release(w->scratch[i]);
	if (w->seed_at)
		dev->release(w->seed_at);
	free(w->seed);
	free(w->draws);
	free(w->event);
	if (w->arena)
		dev->release(w->arena);
	free(w->timed);
	free(w->seg);
	free(w->owned);
	free(w->in);
	free(w->stage);
	free(w->fed);
	free(w->where);
	free(w->maker);
	free(w);
	f->twin = NULL;
}

bool gg_exec_memory(const gg_exec *x, gg_memory *m)
{
	*m = (gg_memory){0};
	if (!x->device || !x->device->usage)
		return false;
	x->device->usage(&m->device);
	for (size_t k = 0; k < x->main->nframe; k++) {
		const gg_frame *f = x->main->frame[k];
		m->arena += f->arena_size;
		m->bound += (size_t)f->plan.bound;
		m->workspace += f->twin->workspace;
		for (size_t i = 0; i < x->m->main->nin; i++)
			m->inputs += gg_nbytes(&f->in[i]) *
			             ((f->twin->in[i] != NULL) + (f->twin->stage[i] != NULL));
	}
	m->weights = m->device.own - m->arena - m->workspace - m->inputs;
	return true;
}

/* ---- state ----------------------------------------------------------------------------------- */

/* params: by its place on the device, the host's buffer of a parameter. */
static bool is_other_param(const gg_map *params, const void *p, const void *own)
{
	const void *host = p ? gg_map_get(params, (uint64_t)(uintptr_t)p) : NULL;
	return host && host != own;
}

/* Finals that lie in another parameter's buffer (two that swap) are set aside first. */
static bool set_aside(gg_exec *x, const gg_map *params, void **from)
{
	gg_graph *g = x->m->main;
	size_t total = 0, at = 0;

	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < g->nstate; i++) {
			size_t bytes = gg_nbytes(&x->main->base[gg_slot(x, g->state[i]->param)]);
			if (!is_other_param(params, from[i], x->param[i]))
				continue;
			if (pass == 0) {
				total += gg_round_up(bytes, PIECE);
				continue;
			}
			if (!x->device->copy(x->d, (char *)x->device_stage + at, from[i], bytes))
				return false;
			from[i] = (char *)x->device_stage + at;
			at += gg_round_up(bytes, PIECE);
		}
		if (pass == 0 && total > x->device_stage_len) {
			if (x->device_stage)
				x->device->release(x->device_stage);
			x->device_stage_len = total;
			if (!(x->device_stage = x->device->alloc(x->d, total, "states that swap")))
				return false;
		}
	}
	return true;
}

static bool store_final(gg_exec *x, size_t i, const void *from)
{
	gg_state *st = x->m->main->state[i];
	gg_frame *f = x->main->frame[0];
	const gg_tensor *p = &x->main->base[gg_slot(x, st->param)];
	uint32_t slot = gg_slot(x, st->final.value);
	const gg_tensor *t = &f->val[slot];
	void *to = uploaded(x, p->data, gg_nbytes(p), st->param->name);

	if (!gg_shape_eq(&p->shape, &t->shape) || p->dtype != t->dtype)
		return gg_error(x->d, GG_MALFORMED,
		                "state '%s': its new value '%s' has another shape or dtype", st->param->name,
		                st->final.value->name);
	if (!gg_nbytes(p) || (to && to == from))
		return true;
	if (!to)
		return false;
	return from ? x->device->copy(x->d, to, from, gg_nbytes(p))
	            : x->device->upload(x->d, to, t->data, gg_nbytes(p));
}

bool gg_twin_update(gg_exec *x)
{
	gg_graph *g = x->m->main;
	gg_frame *f = x->main->frame[0];
	void **from = gg_xcalloc(g->nstate + 1, sizeof *from);
	gg_map params = {0};
	bool good = true;

	for (size_t i = 0; i < g->nstate && good; i++) {
		uint32_t slot = gg_slot(x, g->state[i]->final.value);
		void *there = gg_map_get(&x->uploaded, (uint64_t)(uintptr_t)x->param[i]);
		if (there)
			gg_map_put(&params, (uint64_t)(uintptr_t)there, x->param[i]);
		if (f->twin->where[slot] & GG_ON_DEVICE && !gg_twin_constant(f, slot))
			good = gg_twin_find(f, slot, &from[i]);
	}
	good = good && set_aside(x, &params, from);
	for (size_t i = 0; i < g->nstate && good; i++)
		good = store_final(x, i, from[i]);
	gg_map_fini(&params);
	free(from);
	return good;
}
