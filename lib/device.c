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
#include "frame.h"

#include <stdlib.h>
#include <string.h>

enum { HOST = 1, DEVICE = 2 };

typedef struct segment { /* one host call, or device calls in a row */
	bool host;
	size_t from, to; /* of the frame's calls */
	void *recorded;
	uint32_t *down, *up; /* slots */
	size_t ndown, nup, cap_down, cap_up;
} segment;

typedef struct gg_twin {
	char *arena;
	void *scratch[GG_MAX_STREAMS];
	size_t workspace; /* bytes of all of it */
	size_t *event;    /* by call of the order that somebody waits for */
	size_t nevent;
	void **in; /* by graph input; NULL: no call on the device reads it */
	void **owned;
	size_t nowned, cap_owned;
	uint8_t *where;  /* by slot, at the end of a run */
	uint32_t *maker; /* by slot: the segment that made it */
	segment *seg;
	size_t nseg, cap_seg;
	uint64_t runs;
	size_t *timed; /* calls between marks 2i + 1 and 2i + 2 of this run */
	size_t ntimed, cap_timed;
	double started; /* when mark 0 was made */
} gg_twin;

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

static bool is_constant(const gg_frame *f, uint32_t slot) { return (f->know[slot] & GG_HAS_DATA) != 0; }

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

	if (is_constant(f, slot))
		return constant(f, slot);
	if (is_constant(f, gg_slot(x, root)))
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

static bool find(gg_frame *f, uint32_t slot, void **out)
{
	*out = address(f, slot);
	return *out || !gg_nbytes(&f->val[slot]);
}

/* ---- making ---------------------------------------------------------------------------------- */

static segment *open_segment(gg_frame *f, bool host, size_t at)
{
	gg_twin *w = f->twin;
	segment *s = w->nseg ? &w->seg[w->nseg - 1] : NULL;

	if (s && !s->host && !host) {
		s->to = at + 1;
		return s;
	}
	w->seg = gg_grow(w->seg, w->nseg, &w->cap_seg, sizeof *w->seg);
	s = &w->seg[w->nseg++];
	*s = (segment){.host = host, .from = at, .to = at + 1};
	return s;
}

/* The device is going to read it. */
static bool want_on_device(gg_frame *f, uint32_t slot)
{
	gg_twin *w = f->twin;
	segment *s = &w->seg[w->maker[slot]];

	if (w->where[slot] & DEVICE)
		return true;
	w->where[slot] |= DEVICE;
	if (is_constant(f, slot) || gg_storage(f->scope->value[slot])->kind != GG_TEMP ||
	    is_constant(f, gg_slot(f->scope->x, gg_storage(f->scope->value[slot]))))
		return true;
	if (!s->host)
		gg_bug("value '%s' is on the host, and no call there made it", name_of(f, slot));
	GG_PUSH(s->up, s->nup, s->cap_up, slot);
	return true;
}

/* ---- streams --------------------------------------------------------------------------------- */

static uint32_t call_of(const gg_frame *f, size_t at) { return f->scope->step[f->todo[at].node[0]->order]; }

static int stream_of(const gg_frame *f, size_t at)
{
	return f->order.ncall ? f->order.stream[call_of(f, at)] : 0;
}

static void number_events(gg_frame *f)
{
	const gg_order *o = &f->order;
	gg_twin *w = f->twin;

	w->event = gg_xcalloc((size_t)o->ncall + 2, sizeof *w->event);
	for (uint32_t c = 1; c <= o->ncall; c++)
		w->event[c] = o->signals[c] ? w->nevent++ : 0;
}

static bool add_device_call(gg_frame *f, size_t at, size_t *scratch)
{
	gg_twin *w = f->twin;
	gg_todo *t = &f->todo[at];

	open_segment(f, false, at);
	scratch += stream_of(f, at);
	*scratch = t->call.workspace > *scratch ? t->call.workspace : *scratch;
	for (int i = 0; i < t->nin; i++) {
		t->in[i].data = NULL;
		if (t->in_slot[i] == GG_ABSENT || (i < 64 && t->call.taken >> i & 1))
			continue;
		if (!want_on_device(f, t->in_slot[i]) || !find(f, t->in_slot[i], &t->in[i].data))
			return false;
	}
	for (int i = 0; i < t->nout; i++) {
		if (t->out_slot[i] == GG_ABSENT)
			continue;
		w->where[t->out_slot[i]] = DEVICE;
		w->maker[t->out_slot[i]] = (uint32_t)w->nseg - 1;
		if (!find(f, t->out_slot[i], &t->out[i].data))
			return false;
	}
	return true;
}

static void add_host_call(gg_frame *f, size_t at)
{
	gg_twin *w = f->twin;
	gg_todo *t = &f->todo[at];
	segment *s = open_segment(f, true, at);

	for (int i = 0; i < t->nin; i++) {
		uint32_t slot = t->in_slot[i];
		if (slot == GG_ABSENT || (w->where[slot] & HOST))
			continue;
		w->where[slot] |= HOST;
		GG_PUSH(s->down, s->ndown, s->cap_down, slot);
	}
	for (int i = 0; i < t->nout; i++)
		if (t->out_slot[i] != GG_ABSENT) {
			w->where[t->out_slot[i]] = HOST;
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
		if (is_constant(f, s) || from == GG_ABSENT) {
			w->where[s] = HOST;
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
		f->twin->where[i] = HOST;
	for (size_t i = 0; i < s->g->nstate; i++)
		f->twin->where[gg_slot(s->x, s->g->state[i]->param)] = DEVICE;
}

static bool add_calls(gg_frame *f, size_t *scratch)
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
			good = add_device_call(f, k, scratch);
		else
			add_host_call(f, k);
		for (int i = 0; i < t->nnode; i++)
			n = n->next;
		k++;
	}
	return good;
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
		gg_buf_printf(&b, "%s'%s' of node '%s' %.1f MB", i ? ", " : "", top[i]->name,
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
	size_t nval = f->scope->nval + 1, scratch[GG_MAX_STREAMS] = {0};

	w->where = gg_xcalloc(nval, 1);
	w->maker = gg_xcalloc(nval, sizeof *w->maker);
	w->in = gg_xcalloc(f->scope->g->nin + 1, sizeof *w->in);
	if (!(w->arena = x->device->alloc(x->d, f->arena_size, "the memory plan")))
		return note_largest(f);
	start_where(f);
	number_events(f);
	if (!add_calls(f, scratch))
		return false;
	for (int i = 0; i < GG_MAX_STREAMS; i++) {
		if (scratch[i] && !(w->scratch[i] = x->device->alloc(x->d, scratch[i], "workspace")))
			return false;
		w->workspace += scratch[i];
	}
	for (size_t i = 0; i < f->ntodo; i++)
		if (f->todo[i].kernel)
			f->todo[i].call.scratch = w->scratch[stream_of(f, i)];
	return true;
}

void gg_twin_free(gg_frame *f)
{
	gg_twin *w = f->twin;
	const gg_device *dev = f->scope->x->device;

	if (!w)
		return;
	dev->sync(f->scope->x->d);
	for (size_t i = 0; i < w->nseg; i++) {
		if (w->seg[i].recorded)
			dev->forget(w->seg[i].recorded);
		free(w->seg[i].down);
		free(w->seg[i].up);
	}
	for (size_t i = 0; i < w->nowned; i++)
		dev->release(w->owned[i]);
	for (size_t i = 0; i < f->scope->g->nin; i++)
		if (w->in[i])
			dev->release(w->in[i]);
	for (int i = 0; i < GG_MAX_STREAMS; i++)
		if (w->scratch[i])
			dev->release(w->scratch[i]);
	free(w->event);
	if (w->arena)
		dev->release(w->arena);
	free(w->timed);
	free(w->seg);
	free(w->owned);
	free(w->in);
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
			m->inputs += f->twin->in[i] ? gg_nbytes(&f->in[i]) : 0;
	}
	m->weights = m->device.own - m->arena - m->workspace - m->inputs;
	return true;
}

/* ---- running --------------------------------------------------------------------------------- */

static bool up(gg_frame *f, uint32_t slot)
{
	gg_exec *x = f->scope->x;
	const gg_tensor *t = &f->val[slot];
	void *to;

	return find(f, slot, &to) && (!to || x->device->upload(x->d, to, t->data, gg_nbytes(t)));
}

static bool down(gg_frame *f, uint32_t slot)
{
	gg_exec *x = f->scope->x;
	const gg_tensor *t = &f->val[slot];
	void *from;

	return find(f, slot, &from) && (!from || x->device->download(x->d, t->data, from, gg_nbytes(t)));
}

static bool run_host(gg_frame *f, const segment *s)
{
	bool good = true;

	for (size_t i = 0; i < s->ndown && good; i++)
		good = down(f, s->down[i]);
	good = good && gg_run_todo(&f->todo[s->from]);
	for (size_t i = 0; i < s->nup && good; i++)
		good = up(f, s->up[i]);
	return good;
}

/* ---- looking on ------------------------------------------------------------------------------ */

static bool wants_values(const gg_exec *x) { return x->o.check_finite || (x->watch && x->watch->wrote); }

/* What the call wrote, and what comes of it without a call, is brought to the host. */
static bool look(gg_frame *f, size_t at)
{
	gg_exec *x = f->scope->x;
	gg_twin *w = f->twin;
	gg_todo *t = &f->todo[at];
	const gg_node *n = t->node[t->nnode - 1]->next;
	const gg_node *end = at + 1 < f->ntodo ? f->todo[at + 1].node[0] : NULL;
	bool good = true;

	for (int i = 0; good && i < t->nout; i++)
		good = t->out_slot[i] == GG_ABSENT || down(f, t->out_slot[i]);
	for (; good && n && n != end; n = n->next)
		for (int i = 0; i < n->nout && good; i++) {
			uint32_t s = gg_slot(x, n->out[i]);
			good = s == GG_ABSENT || !(w->where[s] & DEVICE) || w->seg[w->maker[s]].host ||
			       gg_storage(n->out[i])->kind == GG_INPUT || is_constant(f, s) || down(f, s);
		}
	return good && (!x->o.check_finite || gg_todo_finite(t)) && gg_watch_wrote(t);
}

/* Who looks at values sees them one after the other. */
static bool spread(const gg_frame *f) { return f->order.ncall && !wants_values(f->scope->x); }

static bool start_times(gg_frame *f)
{
	gg_exec *x = f->scope->x;

	f->twin->ntimed = 0;
	if (!gg_watch_times(x))
		return true;
	if (!x->device->sync(x->d) || !x->device->mark(x->d, 0))
		return false;
	f->twin->started = gg_clock();
	return true;
}

static bool end_times(gg_frame *f)
{
	gg_exec *x = f->scope->x;
	gg_twin *w = f->twin;
	double *at;
	bool good;

	if (!gg_watch_times(x) || !w->ntimed)
		return true;
	at = gg_xmalloc((2 * w->ntimed + 1) * sizeof *at);
	good = x->device->sync(x->d) && x->device->marked(x->d, 2 * w->ntimed + 1, at);
	for (size_t i = 0; i < w->ntimed && good; i++)
		gg_watch_took(&f->todo[w->timed[i]], f->scope->runs,
		              spread(f) ? stream_of(f, w->timed[i]) : 0, w->started + at[2 * i + 1],
		              at[2 * i + 2] - at[2 * i + 1]);
	free(at);
	return good;
}

static bool run_timed(gg_frame *f, size_t k)
{
	gg_exec *x = f->scope->x;
	gg_twin *w = f->twin;
	gg_todo *t = &f->todo[k];

	if (!gg_watch_times(x))
		return t->kernel->run(&t->call);
	GG_PUSH(w->timed, w->ntimed, w->cap_timed, k);
	return x->device->mark(x->d, 2 * w->ntimed - 1) && t->kernel->run(&t->call) &&
	       x->device->mark(x->d, 2 * w->ntimed);
}

/* The other streams of a segment begin after all that is in stream 0, and it goes on after them. */
static bool fork_or_join(gg_frame *f, unsigned streams, bool join)
{
	const gg_device *dev = f->scope->x->device;
	gg_diag *d = f->scope->x->d;
	size_t event = f->twin->nevent;
	bool good = join || dev->signal(d, event);

	for (int s = 1; s < f->order.nstream && good; s++) {
		if (!(streams >> s & 1))
			continue;
		good = dev->use(d, s) && (join ? dev->signal(d, event + (size_t)s) : dev->wait(d, event)) &&
		       dev->use(d, 0) && (!join || dev->wait(d, event + (size_t)s));
	}
	return good;
}

/* One call: what it waits for in this segment, its kernels, and the event that others wait for. */
static bool spread_call(gg_frame *f, uint32_t call, uint32_t begin, size_t *at, size_t end)
{
	const gg_order *o = &f->order;
	const gg_device *dev = f->scope->x->device;
	gg_diag *d = f->scope->x->d;
	bool good = dev->use(d, o->stream[call]);

	for (uint32_t i = o->first[call]; i < o->first[call + 1] && good; i++)
		good = o->wait[i] < begin || dev->wait(d, f->twin->event[o->wait[i]]);
	for (; good && *at < end && call_of(f, *at) == call; ++*at)
		good = run_timed(f, *at);
	return good && (!o->signals[call] || dev->signal(d, f->twin->event[call]));
}

static bool enqueue_spread(gg_frame *f, const segment *s)
{
	const gg_order *o = &f->order;
	const gg_device *dev = f->scope->x->device;
	uint32_t last = call_of(f, s->to - 1), begin = s->from ? call_of(f, s->from - 1) + 1 : 1;
	unsigned streams = 0;
	size_t at = s->from;
	bool good;

	begin = begin > call_of(f, s->from) ? call_of(f, s->from) : begin; /* a call in parts */
	for (uint32_t c = begin; c <= last; c++)
		streams |= 1u << o->stream[c];
	good = dev->use(f->scope->x->d, 0) && fork_or_join(f, streams, false);
	for (uint32_t c = begin; c <= last && good; c++)
		good = spread_call(f, c, begin, &at, s->to);
	return dev->use(f->scope->x->d, 0) && good && fork_or_join(f, streams, true);
}

static bool enqueue(gg_frame *f, const segment *s)
{
	bool good = true;

	if (spread(f))
		return enqueue_spread(f, s);
	for (size_t k = s->from; k < s->to && good; k++)
		good = run_timed(f, k) && (!wants_values(f->scope->x) || look(f, k));
	return good;
}

/* The first run goes call by call, so that what libraries load on their first use is loaded. */
static bool run_device(gg_frame *f, segment *s)
{
	gg_exec *x = f->scope->x;
	bool good;

	if (f->twin->runs == 1 || x->o.check_finite || x->watch)
		return enqueue(f, s);
	if (!s->recorded) {
		if (!x->device->record(x->d))
			return false;
		good = enqueue(f, s);
		s->recorded = x->device->recorded(x->d);
		if (!good || !s->recorded)
			return false;
	}
	return x->device->replay(x->d, s->recorded);
}

bool gg_twin_run(gg_frame *f, const gg_tensor *in, size_t nout)
{
	gg_exec *x = f->scope->x;
	gg_twin *w = f->twin;
	gg_graph *g = f->scope->g;
	bool good = true;

	w->runs++;
	for (size_t i = 0; i < g->nin && good && !x->again; i++)
		if (w->in[i] && gg_nbytes(&in[i]))
			good = x->device->upload(x->d, w->in[i], in[i].data, gg_nbytes(&in[i]));
	if (x->o.poison)
		good = good && x->device->fill(x->d, w->arena, 0xff, f->arena_size);
	good = good && start_times(f);
	for (size_t i = 0; i < w->nseg && good; i++)
		good = w->seg[i].host ? run_host(f, &w->seg[i]) : run_device(f, &w->seg[i]);
	good = good && end_times(f);
	if (!good || x->more)
		return good;
	good = x->device->sync(x->d);
	for (size_t i = 0; i < nout && good; i++)
		good = gg_twin_fetch(f, gg_slot(x, g->out[i]->value));
	return good;
}

bool gg_twin_fetch(gg_frame *f, uint32_t slot) { return (f->twin->where[slot] & HOST) || down(f, slot); }

/* ---- state ----------------------------------------------------------------------------------- */

/* The final value of state i on the device; where it is another parameter, which changes too, a
 * copy that was set aside. */
static bool is_param(gg_exec *x, const void *p, size_t except)
{
	for (size_t i = 0; i < x->m->main->nstate; i++)
		if (i != except && p && gg_map_get(&x->uploaded, (uint64_t)(uintptr_t)x->param[i]) == p)
			return true;
	return false;
}

/* Finals that lie in another parameter's buffer (two that swap) are set aside first. */
static bool set_aside(gg_exec *x, void **from)
{
	gg_graph *g = x->m->main;
	size_t total = 0, at = 0;

	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < g->nstate; i++) {
			size_t bytes = gg_nbytes(&x->main->base[gg_slot(x, g->state[i]->param)]);
			if (!is_param(x, from[i], i))
				continue;
			if (pass == 0) {
				total += (bytes + 255) / 256 * 256;
				continue;
			}
			if (!x->device->copy(x->d, (char *)x->device_stage + at, from[i], bytes))
				return false;
			from[i] = (char *)x->device_stage + at;
			at += (bytes + 255) / 256 * 256;
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
	bool good = true;

	for (size_t i = 0; i < g->nstate && good; i++) {
		uint32_t slot = gg_slot(x, g->state[i]->final.value);
		if (f->twin->where[slot] & DEVICE && !is_constant(f, slot))
			good = find(f, slot, &from[i]);
	}
	good = good && set_aside(x, from);
	for (size_t i = 0; i < g->nstate && good; i++)
		good = store_final(x, i, from[i]);
	free(from);
	return good;
}
