/* Running a frame's twin: inputs go up, calls are put into the device's queue, recorded and replayed. */
#include "twin.h"
#include "opkit.h"

#include <stdlib.h>
#include <string.h>

/* ---- running --------------------------------------------------------------------------------- */

static bool up(gg_frame *f, uint32_t slot)
{
	gg_exec *x = f->scope->x;
	const gg_tensor *t = &f->val[slot];
	void *to;

	return gg_twin_find(f, slot, &to) && (!to || x->device->upload(x->d, to, t->data, gg_nbytes(t)));
}

static bool down(gg_frame *f, uint32_t slot)
{
	gg_exec *x = f->scope->x;
	const gg_tensor *t = &f->val[slot];
	void *from;

	return gg_twin_find(f, slot, &from) &&
	       (!from || x->device->download(x->d, t->data, from, gg_nbytes(t)));
}

static bool run_host(gg_frame *f, const gg_segment *s)
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

	x->d->at = t->node[0];
	for (int i = 0; good && i < t->nout; i++)
		good = t->out_slot[i] == GG_ABSENT || down(f, t->out_slot[i]);
	for (; good && n && n != end; n = n->next)
		for (int i = 0; i < n->nout && good; i++) {
			uint32_t s = gg_slot(x, n->out[i]);
			good = s == GG_ABSENT || !(w->where[s] & GG_ON_DEVICE) || w->seg[w->maker[s]].host ||
			       gg_storage(n->out[i])->kind == GG_INPUT || gg_twin_constant(f, s) ||
			       down(f, s);
		}
	x->d->at = NULL;
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
		              spread(f) ? gg_twin_stream(f, w->timed[i]) : 0, w->started + at[2 * i + 1],
		              at[2 * i + 2] - at[2 * i + 1]);
	free(at);
	return good;
}

/* Errors of a device come late. In the first run each call is waited for, so that its own are known. */
static bool run_call(gg_frame *f, size_t k)
{
	gg_exec *x = f->scope->x;
	gg_twin *w = f->twin;
	gg_todo *t = &f->todo[k];
	bool good;

	if (gg_watch_times(x))
		GG_PUSH(w->timed, w->ntimed, w->cap_timed, k);
	x->d->at = t->node[0];
	good = !gg_watch_times(x) || x->device->mark(x->d, 2 * w->ntimed - 1);
	good = good && t->kernel->run(&t->call) && (w->runs > 1 || x->device->sync(x->d));
	good = good && (!gg_watch_times(x) || x->device->mark(x->d, 2 * w->ntimed));
	x->d->at = NULL;
	return good;
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
	for (; good && *at < end && gg_twin_call(f, *at) == call; ++*at)
		good = run_call(f, *at);
	return good && (!o->signals[call] || dev->signal(d, f->twin->event[call]));
}

static bool enqueue_spread(gg_frame *f, size_t from, size_t to)
{
	const gg_order *o = &f->order;
	const gg_device *dev = f->scope->x->device;
	uint32_t last = gg_twin_call(f, to - 1), begin = from ? gg_twin_call(f, from - 1) + 1 : 1;
	unsigned streams = 0;
	size_t at = from;
	bool good;

	begin = begin > gg_twin_call(f, from) ? gg_twin_call(f, from) : begin; /* a call in parts */
	for (uint32_t c = begin; c <= last; c++)
		streams |= 1u << o->stream[c];
	good = dev->use(f->scope->x->d, 0) && fork_or_join(f, streams, false);
	for (uint32_t c = begin; c <= last && good; c++)
		good = spread_call(f, c, begin, &at, to);
	return dev->use(f->scope->x->d, 0) && good && fork_or_join(f, streams, true);
}

static bool enqueue(gg_frame *f, size_t from, size_t to)
{
	bool good = true;

	if (spread(f))
		return enqueue_spread(f, from, to);
	for (size_t k = from; k < to && good; k++)
		good = run_call(f, k) && (!wants_values(f->scope->x) || look(f, k));
	return good;
}

/* ---- recording ------------------------------------------------------------------------------- */

static bool record(gg_frame *f, gg_piece *p)
{
	const gg_device *dev = f->scope->x->device;
	gg_diag *d = f->scope->x->d, silent = {.silent = true};
	bool good;

	if (!dev->record(d))
		return false;
	good = enqueue(f, p->from, p->to);
	p->recorded = dev->recorded(good ? d : &silent);
	if (p->recorded && !good) {
		dev->forget(p->recorded);
		p->recorded = NULL;
	}
	return p->recorded != NULL;
}

static bool try_record(gg_frame *f, gg_piece *p)
{
	gg_diag *d = f->scope->x->d, kept = *d;
	bool good;

	d->silent = true;
	good = record(f, p);
	*d = kept;
	return good;
}

static bool can_record(gg_frame *f, size_t at)
{
	gg_piece p = {at, at + 1, NULL, false};
	bool good = try_record(f, &p);

	if (good)
		f->scope->x->device->forget(p.recorded);
	return good;
}

static void add_piece(gg_segment *s, gg_piece p)
{
	gg_piece *last = s->npiece ? &s->piece[s->npiece - 1] : NULL;

	if (last && !last->loose && !p.loose)
		last->to = p.to;
	else
		GG_PUSH(s->piece, s->npiece, s->cap_piece, p);
}

static void put_call(gg_buf *b, const gg_todo *t, const char *why)
{
	gg_buf_printf(b, "%s'%s' (%s%s%s)", b->len ? ", " : "", gg_node_name(t->node[0]),
	              t->node[0]->op->name, *why ? ": " : "", why);
}

/* What a recording breaks at is found call by call, and run by itself in each step. */
static void cut_segment(gg_frame *f, gg_segment *s)
{
	gg_buf names = {0};
	size_t n = 0;

	for (size_t k = s->from; k < s->to; k++) {
		gg_piece p = {k, k + 1, NULL, !can_record(f, k)};
		add_piece(s, p);
		if (p.loose)
			put_call(&names, &f->todo[k], "");
		n += p.loose;
	}
	if (n)
		gg_note(f->scope->x->d, "%zu call%s cannot be recorded and go%s to the device one by one: %s",
		        n, n > 1 ? "s" : "", n > 1 ? "" : "es", names.p);
	gg_buf_fini(&names);
}

static void drop_pieces(const gg_device *dev, gg_segment *s)
{
	for (size_t i = 0; i < s->npiece; i++)
		if (s->piece[i].recorded)
			dev->forget(s->piece[i].recorded);
	s->npiece = 0;
}

void gg_twin_forget(gg_frame *f)
{
	for (size_t i = 0; i < f->twin->nseg; i++)
		drop_pieces(f->scope->x->device, &f->twin->seg[i]);
}

static bool record_segment(gg_frame *f, gg_segment *s)
{
	gg_piece whole = {s->from, s->to, NULL, false};
	bool good = true;

	if (try_record(f, &whole)) {
		add_piece(s, whole);
		return true;
	}
	cut_segment(f, s);
	for (size_t i = 0; i < s->npiece && good; i++)
		good = s->piece[i].loose || record(f, &s->piece[i]);
	if (!good)
		drop_pieces(f->scope->x->device, s);
	return good;
}

static const char *why_on_host(const gg_todo *t)
{
	const gg_node *n = t->node[0];

	return gg_body(n, 0)                           ? "it has a body"
	       : t->dynamic                            ? "a size hangs on data"
	       : n->kernel && strcmp(n->kernel, "ref") ? "it reads what the host made"
	                                               : "no kernel for it";
}

/* Before anything is recorded: which calls the recording has to stop for. */
static void tell_host(const gg_frame *f)
{
	gg_exec *x = f->scope->x;
	gg_buf names = {0};
	size_t n = 0, pieces = 0;

	if (x->told_host)
		return;
	x->told_host = true;
	for (size_t i = 0; i < f->twin->nseg; i++) {
		const gg_segment *s = &f->twin->seg[i];
		pieces += !s->host;
		n += s->host;
		if (s->host)
			put_call(&names, &f->todo[s->from], why_on_host(&f->todo[s->from]));
	}
	if (n && pieces)
		gg_note(x->d, "the step is recorded in %zu piece%s, as %zu call%s on the host: %s", pieces,
		        pieces > 1 ? "s" : "", n, n > 1 ? "s are" : " is", names.p);
	gg_buf_fini(&names);
}

/* The first run goes call by call, so that what libraries load on their first use is loaded. */
static bool by_call(const gg_frame *f)
{
	const gg_exec *x = f->scope->x;

	return f->twin->runs == 1 || x->o.check_finite || x->watch;
}

static bool run_device(gg_frame *f, gg_segment *s)
{
	gg_exec *x = f->scope->x;
	bool good = true;

	if (by_call(f))
		return enqueue(f, s->from, s->to);
	if (!s->npiece && !record_segment(f, s))
		return false;
	for (size_t i = 0; i < s->npiece && good; i++)
		good = s->piece[i].loose ? enqueue(f, s->piece[i].from, s->piece[i].to)
		                         : x->device->replay(x->d, s->piece[i].recorded);
	return good;
}

/* ---- inputs ---------------------------------------------------------------------------------- */
/* While a run reads `in`, what the next one is given goes to `stage` in a stream of its own:
 *
 *     copies   ── stage(k+1) ── STAGED ────────────── waits for TAKEN ── stage(k+2) ──
 *     queue    ── run k ──────── waits for STAGED ── stage to in ── TAKEN ── run k+1 ──
 *
 * One copy on the device a step, against a second recording for other addresses. */

static bool fill_stage(gg_frame *f, const gg_tensor *in)
{
	gg_exec *x = f->scope->x;
	gg_twin *w = f->twin;
	gg_diag silent = {.silent = true};

	for (size_t i = 0; i < f->scope->g->nin; i++) {
		size_t bytes = gg_nbytes(&in[i]);
		w->fed[i] = in[i].data;
		if (!w->in[i] || !bytes)
			continue;
		if (!w->stage[i] && !(w->stage[i] = x->device->alloc(&silent, bytes, "the next input")))
			return true; /* without room for both it is uploaded when its turn comes */
		if (!x->device->upload(x->d, w->stage[i], in[i].data, bytes))
			return false;
	}
	w->full = true;
	return x->device->signal(x->d, GG_STAGED);
}

bool gg_twin_feed(gg_frame *f, const gg_tensor *in)
{
	const gg_device *dev = f->scope->x->device;
	gg_diag *d = f->scope->x->d;
	bool good;

	f->twin->full = false;
	if (!dev->use || !f->twin->runs)
		return true;
	good = dev->use(d, GG_COPY_STREAM) && dev->wait(d, GG_TAKEN) && fill_stage(f, in);
	return dev->use(d, 0) && good;
}

static bool is_staged(const gg_frame *f, const gg_tensor *in)
{
	bool same = f->twin->full;

	for (size_t i = 0; i < f->scope->g->nin && same; i++)
		same = f->twin->fed[i] == in[i].data;
	return same;
}

static bool give_inputs(gg_frame *f, const gg_tensor *in)
{
	const gg_device *dev = f->scope->x->device;
	gg_diag *d = f->scope->x->d;
	gg_twin *w = f->twin;
	bool staged = is_staged(f, in), good = !staged || dev->wait(d, GG_STAGED);

	for (size_t i = 0; i < f->scope->g->nin && good; i++) {
		size_t bytes = gg_nbytes(&in[i]);
		if (!w->in[i] || !bytes)
			continue;
		good = staged ? dev->copy(d, w->in[i], w->stage[i], bytes)
		              : dev->upload(d, w->in[i], in[i].data, bytes);
	}
	w->full = false;
	return good && (!staged || dev->signal(d, GG_TAKEN));
}

static bool give_seeds(gg_frame *f)
{
	gg_exec *x = f->scope->x;
	gg_twin *w = f->twin;

	for (size_t i = 0; i < w->ndraws; i++) {
		const gg_todo *t = &f->todo[w->draws[i]];
		gg_eval e = {.n = t->node[0], .seed = t->seed + f->scope->runs};
		w->seed[i] = gg_random_seed(&e);
	}
	return !w->ndraws || x->device->upload(x->d, w->seed_at, w->seed, w->ndraws * sizeof *w->seed);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static bool run_segments(gg_frame *f, const gg_tensor *in, size_t nout)
{
	gg_exec *x = f->scope->x;
	gg_twin *w = f->twin;
	bool good = x->again || give_inputs(f, in);

	if (x->o.poison)
		good = good && x->device->fill(x->d, w->arena, 0xff, f->arena_size);
	good = good && give_seeds(f) && start_times(f);
	for (size_t i = 0; i < w->nseg && good; i++)
		good = w->seg[i].host ? run_host(f, &w->seg[i]) : run_device(f, &w->seg[i]);
	good = good && end_times(f) && (!x->meanwhile || x->meanwhile(x->meanwhile_arg));
	if (!good || x->more)
		return good;
	good = x->device->sync(x->d);
	for (size_t i = 0; i < nout && good; i++)
		good = gg_twin_fetch(f, gg_slot(x, f->scope->g->out[i]->value));
	return good;
}

/* A device that failed in a replayed step does not say where. */
static void tell_where(const gg_frame *f)
{
	const gg_exec *x = f->scope->x;
	gg_diag silent = {.silent = true};

	if (!by_call(f) && !x->device->sync(&silent))
		gg_note(x->d,
		        "it came from the step as a whole: --check-finite goes node by node, and names the "
		        "one it comes from");
}

bool gg_twin_run(gg_frame *f, const gg_tensor *in, size_t nout)
{
	f->twin->runs++;
	if (!by_call(f))
		tell_host(f);
	if (run_segments(f, in, nout))
		return true;
	tell_where(f);
	return false;
}

bool gg_twin_fetch(gg_frame *f, uint32_t slot)
{
	return (f->twin->where[slot] & GG_ON_HOST) || down(f, slot);
}
