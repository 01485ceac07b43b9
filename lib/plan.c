/* The memory plan. First who shares whose buffer, then where each buffer lies.
 *
 * A buffer is an interval: born when its value is made, dead after the last reader of the value
 * or of anything that shares it. Two ways to give intervals offsets: `place_sorted` looks at
 * all neighbours in time and comes within a few percent of the bound, at n*n cost; `place_sweep`
 * walks through time with a free list and is linear. Small graphs get both, large ones the sweep. */
#include "plan.h"
#include "target.h"

#include <stdlib.h>
#include <string.h>

#define SORTED_MAX 6000      /* intervals up to which place_sorted is tried */
#define WORK_MAX (64u << 20) /* comparisons it may spend on better orders */

typedef struct item {
	gg_value *v;
	int64_t size; /* aligned */
	int64_t off;
	uint32_t from, to;
	uint32_t until;        /* with streams: the last birth that may come before its last reader is done */
	bool forever;          /* somebody reads it after the run */
	bool external;         /* an input, param or const: has a buffer of its own, nothing to place */
	const gg_state *state; /* that updates it */
} item;

typedef struct planner {
	gg_diag *d;
	gg_graph *g;
	const gg_plan_options *o;
	gg_plan *out;
	item *item;
	size_t n, cap;
	uint32_t *last; /* with streams: by item and stream, the position of the last call that touches it */
	size_t cap_last;
	uint32_t end; /* the time after the last node, when outputs are read */
} planner;

gg_value *gg_storage(gg_value *v)
{
	while (v->alias)
		v = v->alias;
	return v;
}

int64_t gg_value_bytes(const gg_value *v, const gg_shape *s)
{
	gg_shape padded = *s;
	int64_t bytes, block = v->layout == GG_BLOCK8 ? 8 : v->layout == GG_BLOCK16 ? 16 : 1;

	if (!v->dtype || !gg_shape_known(s))
		return -1;
	if (block > 1 && s->rank > 1) {
		if (s->dim[1] > INT64_MAX - block)
			return -1;
		padded.dim[1] = (s->dim[1] + block - 1) / block * block;
	}
	return gg_size_of((gg_dtype)v->dtype, &padded, &bytes) ? bytes : -1;
}

/* ---- who shares whose buffer ----------------------------------------------------------------- */

static uint32_t step_of(const planner *p, const gg_node *n)
{
	return p->o->step ? p->o->step(n, p->o->arg) : n->order;
}

static const gg_shape *shape_of(const planner *p, const gg_value *v)
{
	const gg_shape *s = p->o->shape ? p->o->shape(v, p->o->arg) : NULL;
	return s ? s : &v->shape;
}

static uint32_t last_read(const planner *p, const gg_value *v)
{
	uint32_t last = 0;

	if (p->o->keep && p->o->keep(v, p->o->arg))
		return p->end;
	for (const gg_use *u = v->uses; u; u = u->next) {
		uint32_t t = u->node ? step_of(p, u->node) : p->end;
		if (t > last)
			last = t;
	}
	return last;
}

static bool has_item(gg_value *v) { return v && gg_storage(v)->mark; }

/* ---- streams --------------------------------------------------------------------------------- */

static uint32_t *last_of(const planner *p, const item *it)
{
	return p->last + (size_t)(it - p->item) * (size_t)p->o->order->nstream;
}

static void touch_by(planner *p, const item *it, uint32_t call)
{
	const gg_order *o = p->o->order;
	uint32_t *at = &last_of(p, it)[o->stream[call]];

	if (o->pos[call] > *at && o->pos[call] != gg_clock_at(o, call)[o->stream[call]]) /* not idle */
		*at = o->pos[call];
}

/* The calls that make and read a value touch the buffer. */
static void touch(planner *p, const item *it, const gg_value *v)
{
	if (!p->o->order)
		return;
	if (v->producer)
		touch_by(p, it, step_of(p, v->producer));
	for (const gg_use *u = v->uses; u; u = u->next)
		if (u->node)
			touch_by(p, it, step_of(p, u->node));
}

static void new_last(planner *p)
{
	size_t n = p->o->order ? (size_t)p->o->order->nstream : 0;

	while (n && p->cap_last < p->n * n) {
		p->cap_last = p->cap_last ? p->cap_last * 2 : 256;
		p->last = gg_xrealloc(p->last, p->cap_last * sizeof *p->last);
	}
	if (n)
		memset(p->last + (p->n - 1) * n, 0, n * sizeof *p->last);
}

/* Is everything that touches it done when the call starts? The call itself is not asked. */
static bool is_past(const planner *p, const item *it, uint32_t call)
{
	const gg_order *o = p->o->order;
	const uint32_t *last, *clock;

	if (!o)
		return true;
	last = last_of(p, it);
	clock = gg_clock_at(o, call);
	for (int s = 0; s < o->nstream; s++)
		if (last[s] > clock[s] && !(s == o->stream[call] && last[s] == o->pos[call]))
			return false;
	return true;
}

/* The same, the call included. */
static bool is_done(const planner *p, const item *it, uint32_t call)
{
	const gg_order *o = p->o->order;
	const uint32_t *last = last_of(p, it), *clock = gg_clock_at(o, call);

	if (it->forever)
		return false;
	for (int s = 0; s < o->nstream; s++)
		if (last[s] > clock[s])
			return false;
	return true;
}

/* By stream its calls in order: at[first[s]] .. at[first[s + 1] - 1]. */
typedef struct lanes {
	uint32_t *at, first[GG_MAX_STREAMS + 1];
} lanes;

static void find_lanes(const gg_order *o, lanes *l)
{
	uint32_t n = 0;

	l->at = gg_xmalloc(((size_t)o->ncall + 1) * sizeof *l->at);
	for (int s = 0; s < o->nstream; s++) {
		l->first[s] = n;
		for (uint32_t c = 1; c <= o->ncall; c++)
			if (o->stream[c] == s)
				l->at[n++] = c;
		l->first[s + 1] = n;
	}
}

/* From when on, in the order of the list, every call comes after all that touches the item. Clocks never
 * fall along a stream. */
static uint32_t find_until(const planner *p, const lanes *l, const item *it)
{
	uint32_t until = it->to;

	for (int s = 0; s < p->o->order->nstream && it->to < p->end; s++) {
		uint32_t lo = l->first[s], hi = l->first[s + 1];
		while (lo < hi) {
			uint32_t mid = (lo + hi) / 2;
			if (is_done(p, it, l->at[mid]))
				hi = mid;
			else
				lo = mid + 1;
		}
		if (lo > l->first[s] && l->at[lo - 1] > until)
			until = l->at[lo - 1];
	}
	return until;
}

static void find_untils(planner *p)
{
	lanes l;

	if (p->o->order)
		find_lanes(p->o->order, &l);
	for (size_t i = 0; i < p->n; i++)
		p->item[i].forever = p->item[i].to == p->end;
	for (size_t i = 0; i < p->n; i++)
		p->item[i].until = p->o->order ? find_until(p, &l, &p->item[i]) : p->item[i].to;
	if (p->o->order)
		free(l.at);
}

/* ---- buffers --------------------------------------------------------------------------------- */

static item *item_of(const planner *p, gg_value *v) { return &p->item[gg_storage(v)->mark - 1]; }

static item *add_item(planner *p, gg_value *v, int64_t bytes, uint32_t from)
{
	uint32_t to = last_read(p, v);
	item it = {.v = v, .from = from, .to = to > from ? to : from};

	it.size = (int64_t)gg_round_up((size_t)bytes, GG_ALIGN);
	GG_PUSH(p->item, p->n, p->cap, it);
	v->mark = p->n;
	new_last(p);
	touch(p, &p->item[p->n - 1], v);
	return &p->item[p->n - 1];
}

static void add_external(planner *p, gg_value *v)
{
	v->alias = NULL;
	v->mem_off = v->mem_len = -1;
	add_item(p, v, 0, 0)->external = true;
}

static void share(planner *p, gg_value *v, gg_value *with)
{
	item *it = item_of(p, with);
	uint32_t last = last_read(p, v);

	v->alias = it->v;
	touch(p, it, v);
	if (last > it->to)
		it->to = last;
	p->out->aliased++;
}

/* A view of a parameter that is updated may not outlive the update. */
static bool view_ok(const planner *p, const gg_node *n, gg_value *v)
{
	gg_value *in = gg_in(n, 0);
	const item *it;

	for (int i = 1; i < n->nout; i++)
		if (n->out[i])
			return false; /* the kernel has to run */
	if (!(n->op->flags & GG_VIEW) || !has_item(in) || v != gg_out(n, 0) || v->layout != in->layout ||
	    (v->layout != GG_PLAIN && !gg_shape_eq(shape_of(p, v), shape_of(p, in))) ||
	    gg_dtype_size((gg_dtype)v->dtype) != gg_dtype_size((gg_dtype)in->dtype))
		return false;
	it = item_of(p, in);
	return gg_value_bytes(in, shape_of(p, in)) == gg_value_bytes(v, shape_of(p, v)) &&
	       !(it->state && last_read(p, v) == p->end);
}

/* Whether v, made now, may take the buffer of `in`: it dies here. */
static bool inplace_ok(const planner *p, gg_value *in, const gg_value *v, uint32_t now)
{
	const item *it;

	if (!has_item(in) || in->layout != v->layout ||
	    gg_dtype_size((gg_dtype)in->dtype) != gg_dtype_size((gg_dtype)v->dtype) ||
	    !gg_shape_eq(shape_of(p, in), shape_of(p, v)))
		return false;
	it = item_of(p, in);
	return !it->external && it->to == now && is_past(p, it, now);
}

/* An op that says so overwrites the state it updates, once everyone has read the old value. */
static gg_value *state_alias(const planner *p, const gg_node *n, gg_value *v, uint32_t now)
{
	for (const signed char *a = n->op->aliases; a && a[0] >= 0; a += 2) {
		gg_value *in = gg_in(n, a[1]);
		const item *it;
		if (gg_out(n, a[0]) != v || !has_item(in) || in->layout != v->layout ||
		    in->dtype != v->dtype || !gg_shape_eq(shape_of(p, in), shape_of(p, v)))
			continue;
		it = item_of(p, in);
		if (it->to != now || (it->external && !it->state) || !is_past(p, it, now))
			continue;
		if (it->external && last_read(p, v) == p->end && it->state->final.value != v)
			continue;
		return in;
	}
	return NULL;
}

/* The input that the run which ends with n adds its result to. */
static gg_value *run_alias(const planner *p, const gg_node *n, const gg_value *v, uint32_t now)
{
	gg_value *in;
	int len = 1;

	if (!p->o->target || !p->o->step || v != gg_out(n, 0) || (n->next && step_of(p, n->next) == now))
		return NULL;
	for (; n->prev && step_of(p, n->prev) == now; n = n->prev)
		len++;
	in = gg_target_overwrites(p->o->target, n, len);
	return inplace_ok(p, in, v, now) ? in : NULL;
}

/* Else nodes that one kernel covers read and write piece by piece: nothing is overwritten there. */
static bool alone(const planner *p, const gg_node *n, uint32_t now)
{
	return !p->o->step ||
	       (!(n->prev && step_of(p, n->prev) == now) && !(n->next && step_of(p, n->next) == now));
}

static gg_value *find_alias(const planner *p, const gg_node *n, gg_value *v, uint32_t now)
{
	gg_value *in;

	if (p->o->no_reuse)
		return NULL;
	if (!p->o->no_inplace && (in = run_alias(p, n, v, now)))
		return in;
	if (!alone(p, n, now))
		return NULL;
	if (view_ok(p, n, v))
		return gg_in(n, 0);
	if (p->o->no_inplace)
		return NULL;
	if ((in = state_alias(p, n, v, now)))
		return in;
	if ((n->op->flags & GG_INPLACE) && v == gg_out(n, 0))
		for (int i = 0; i < gg_nargs(n); i++)
			if (inplace_ok(p, gg_in(n, i), v, now))
				return gg_in(n, i);
	return NULL;
}

static bool add_output(planner *p, const gg_node *n, gg_value *v)
{
	uint32_t now = step_of(p, n);
	int64_t bytes = gg_value_bytes(v, shape_of(p, v));
	gg_value *with;

	v->alias = NULL;
	v->mem_off = v->mem_len = -1;
	v->mark = 0;
	if (bytes < 0 || bytes > INT64_MAX - GG_ALIGN) {
		p->out->unplanned++;
		return true;
	}
	if ((with = find_alias(p, n, v, now))) {
		share(p, v, with);
		return true;
	}
	v->mem_len = bytes;
	bytes = add_item(p, v, bytes, now)->size;
	p->out->planned++;
	if (__builtin_add_overflow(p->out->total, bytes, &p->out->total))
		return gg_error(p->d, GG_MALFORMED, "the sizes of all values overflow at '%s'", v->name);
	return true;
}

static bool find_lives(planner *p)
{
	gg_graph *g = p->g;
	bool good = true;

	gg_graph_number(g);
	p->end = 1;
	if (g->last)
		p->end = step_of(p, g->last) + 1;
	for (size_t i = 0; i < g->nin; i++)
		add_external(p, g->in[i]);
	for (gg_value *v = g->consts; v; v = v->next_const)
		add_external(p, v);
	for (size_t i = 0; i < g->nstate; i++)
		item_of(p, g->state[i]->param)->state = g->state[i];
	for (gg_node *n = g->first; n && good; n = n->next)
		for (int i = 0; i < n->nout && good; i++)
			if (n->out[i])
				good = add_output(p, n, n->out[i]);
	return good;
}

/* ---- where each buffer lies ------------------------------------------------------------------ */

/* ---- orders ---------------------------------------------------------------------------------- */

typedef struct key {
	double major, minor;
	uint32_t i;
} key;

static int by_key(const void *x, const void *y)
{
	const key *a = x, *b = y;

	if (a->major != b->major)
		return a->major > b->major ? -1 : 1;
	if (a->minor != b->minor)
		return a->minor > b->minor ? -1 : 1;
	return a->i < b->i ? -1 : a->i > b->i;
}

enum { BY_SIZE, BY_AREA, BY_BIRTH, BY_LENGTH, ORDERS };

static void sort_items(const planner *p, int how, uint32_t *order)
{
	key *k = gg_xmalloc((p->n + 1) * sizeof *k);

	for (size_t i = 0; i < p->n; i++) {
		const item *it = &p->item[i];
		double size = (double)it->size, life = it->to - it->from + 1.0;
		double major[] = {size, size * life, -(double)it->from, life};
		k[i] = (key){major[how], how == BY_SIZE ? life : size, (uint32_t)i};
	}
	qsort(k, p->n, sizeof *k, by_key);
	for (size_t i = 0; i < p->n; i++)
		order[i] = k[i].i;
	free(k);
}

/* ---- the bound with streams ------------------------------------------------------------------ */

/* May one of them be there while the other is? Of two that overlap in the list, one may still be done
 * with before the other is born. */
static bool together(const planner *p, const item *a, const item *b)
{
	return a->from <= b->to && b->from <= a->to && !is_done(p, a, b->from) && !is_done(p, b, a->from);
}

/* What is there when each stream is at its next call. */
typedef struct cut {
	uint32_t *left;        /* by item: streams that are not past it */
	uint32_t *next, *head; /* items by the last call of a stream that touches them, and stream */
	uint32_t *ended;       /* by stream: the position up to which it is done */
	int64_t live, most;
	uint32_t at; /* the call at which most is there */
} cut;

static void end_up_to(const planner *p, const lanes *l, cut *c, int s, uint32_t pos)
{
	for (; c->ended[s] < pos; c->ended[s]++)
		for (uint32_t e = c->head[l->first[s] + c->ended[s]]; e; e = c->next[e - 1]) {
			size_t i = (e - 1) / (size_t)p->o->order->nstream;
			if (--c->left[i] == 0 && !p->item[i].forever)
				c->live -= p->item[i].size;
		}
}

/* A call starts: what its stream did before is done, and so is what it has waited for. */
static void start_call(const planner *p, const lanes *l, cut *c, uint32_t call, uint32_t *born)
{
	const gg_order *o = p->o->order;
	const uint32_t *clock = gg_clock_at(o, call);

	for (int s = 0; s < o->nstream; s++)
		end_up_to(p, l, c, s, clock[s]);
	for (; *born < p->n && p->item[*born].from <= call; ++*born)
		c->live += p->item[*born].size;
	if (c->live > c->most) {
		c->most = c->live;
		c->at = call;
	}
}

static void list_ends(const planner *p, const lanes *l, cut *c)
{
	const gg_order *o = p->o->order;

	for (size_t i = 0; i < p->n; i++)
		for (int s = 0; s < o->nstream; s++) {
			uint32_t last = last_of(p, &p->item[i])[s], *head;
			size_t e = i * (size_t)o->nstream + (size_t)s;
			if (!last)
				continue;
			head = &c->head[l->first[s] + last - 1];
			c->next[e] = *head;
			*head = (uint32_t)e + 1;
			c->left[i]++;
		}
}

/* Values that are pairwise together, though never all of them, need places of their own too: adds to the
 * n items of `in` those that are together with all, in the order given, and returns their sizes. */
static int64_t add_together(const planner *p, uint32_t *in, size_t n, const uint32_t *order)
{
	int64_t sum = 0;

	for (size_t k = 0; k < n; k++)
		sum += p->item[in[k]].size;
	for (size_t i = 0; i < p->n; i++) {
		size_t k = 0;
		while (k < n && in[k] != order[i] && together(p, &p->item[in[k]], &p->item[order[i]]))
			k++;
		if (k < n)
			continue;
		in[n++] = order[i];
		sum += p->item[order[i]].size;
	}
	return sum;
}

/* From what is there at the worst call, and from each of the largest. */
static int64_t most_together(const planner *p, const cut *c, uint32_t born)
{
	uint32_t *in = gg_xmalloc((p->n + 1) * sizeof *in), *order = gg_xmalloc((p->n + 1) * sizeof *order);
	int64_t most = c->most, sum;
	size_t n = 0;

	sort_items(p, BY_SIZE, order);
	for (uint32_t i = 0; i < born; i++)
		if (c->left[i] || p->item[i].forever)
			in[n++] = i;
	sum = add_together(p, in, n, order);
	most = sum > most ? sum : most;
	for (size_t k = 0; k < p->n && k < 64; k++) {
		in[0] = order[k];
		sum = add_together(p, in, 1, order);
		most = sum > most ? sum : most;
	}
	free(in);
	free(order);
	return most;
}

static uint32_t walk(const planner *p, const lanes *l, cut *c, uint32_t upto)
{
	const gg_order *o = p->o->order;
	uint32_t born = 0;

	memset(c->left, 0, p->n * sizeof *c->left);
	memset(c->head, 0, ((size_t)o->ncall + 1) * sizeof *c->head);
	memset(c->ended, 0, (size_t)o->nstream * sizeof *c->ended);
	c->live = 0;
	list_ends(p, l, c);
	for (uint32_t call = 1; call <= upto; call++)
		start_call(p, l, c, call, &born);
	return born;
}

static int64_t bound_of_streams(const planner *p)
{
	const gg_order *o = p->o->order;
	cut c = {0};
	lanes l;
	int64_t sum;

	find_lanes(o, &l);
	c.left = gg_xcalloc(p->n + 1, sizeof *c.left);
	c.next = gg_xcalloc(p->n * (size_t)o->nstream + 1, sizeof *c.next);
	c.head = gg_xcalloc((size_t)o->ncall + 1, sizeof *c.head);
	c.ended = gg_xcalloc((size_t)o->nstream, sizeof *c.ended);
	walk(p, &l, &c, o->ncall);
	sum = c.most;
	if (p->n <= SORTED_MAX)
		sum = most_together(p, &c, walk(p, &l, &c, c.at));
	free(l.at);
	free(c.left);
	free(c.next);
	free(c.head);
	free(c.ended);
	return sum;
}

/* Keeps what has a place to get, and returns the bound. */
static int64_t compact(planner *p)
{
	int64_t *change = gg_xcalloc((size_t)p->end + 2, sizeof *change), live = 0, bound = 0;
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++) {
		item *it = &p->item[i];
		if (it->external)
			continue;
		it->v->mem_off = 0;
		if (!it->size)
			continue;
		change[it->from] += it->size;
		change[it->to + 1] -= it->size;
		p->item[n] = *it;
		if (p->o->order)
			memmove(p->last + n * (size_t)p->o->order->nstream, last_of(p, it),
			        (size_t)p->o->order->nstream * sizeof *p->last);
		p->item[n++].to = it->until;
	}
	p->n = n;
	for (uint32_t t = 0; t <= p->end; t++) {
		live += change[t];
		bound = live > bound ? live : bound;
	}
	free(change);
	return p->o->order ? bound_of_streams(p) : bound;
}

static int64_t arena_size(const planner *p, const int64_t *off)
{
	int64_t size = 0;

	for (size_t i = 0; i < p->n; i++)
		if (off[i] + p->item[i].size > size)
			size = off[i] + p->item[i].size;
	return size;
}

/* The arena as blocks in address order, free ones also in a list for their size class. The
 * classes are powers of two cut in eight, so that a class's blocks differ by an eighth at most.
 *
 *     [ used ][ free ][ used ][ used ][ free ] top      chain: prev, next
 *                └──── class 37 ────────┘               class: up, down  */
#define CLASSES 512
typedef struct block {
	int64_t off, size;
	int32_t prev, next, up, down; /* -1: none */
	bool free;
} block;
typedef struct heap {
	block *b;
	size_t n, cap;
	int32_t spare; /* unused block structs, by next */
	int32_t last;  /* the block at the top */
	int64_t top;
	int32_t class[CLASSES];
	uint64_t filled[CLASSES / 64];
} heap;

static int class_of(int64_t size)
{
	uint64_t u = (uint64_t)size / GG_ALIGN;
	int log = 63 - __builtin_clzll(u | 1);

	return log < 3 ? (int)u : (log - 2) * 8 + (int)((u >> (log - 3)) & 7);
}

static void heap_init(heap *h)
{
	memset(h, 0, sizeof *h);
	memset(h->class, 0xff, sizeof h->class);
	h->spare = h->last = -1;
}

static int32_t new_block(heap *h, int64_t off, int64_t size)
{
	block b = {.off = off, .size = size, .prev = -1, .next = -1, .up = -1, .down = -1};
	int32_t i = h->spare;

	if (i >= 0) {
		h->spare = h->b[i].next;
		h->b[i] = b;
		return i;
	}
	GG_PUSH(h->b, h->n, h->cap, b);
	return (int32_t)h->n - 1;
}

static void list_free(heap *h, int32_t i)
{
	int c = class_of(h->b[i].size);

	h->b[i].free = true;
	h->b[i].up = -1;
	h->b[i].down = h->class[c];
	if (h->class[c] >= 0)
		h->b[h->class[c]].up = i;
	h->class[c] = i;
	h->filled[c / 64] |= 1ull << c % 64;
}

static void unlist(heap *h, int32_t i)
{
	block *b = &h->b[i];
	int c = class_of(b->size);

	b->free = false;
	if (b->down >= 0)
		h->b[b->down].up = b->up;
	if (b->up >= 0)
		h->b[b->up].down = b->down;
	else if ((h->class[c] = b->down) < 0)
		h->filled[c / 64] &= ~(1ull << c % 64);
}

/* The smallest free block that fits, looking at no more than a few of each class. */
static int32_t find_free(const heap *h, int64_t size)
{
	for (int c = class_of(size); c < CLASSES; c++) {
		int32_t best = -1;
		int look = 32;
		uint64_t rest = h->filled[c / 64] >> c % 64;
		if (!rest) {
			c |= 63;
			continue;
		}
		c += __builtin_ctzll(rest);
		for (int32_t i = h->class[c]; i >= 0 && look-- > 0; i = h->b[i].down)
			if (h->b[i].size >= size && (best < 0 || h->b[i].size < h->b[best].size))
				best = i;
		if (best >= 0)
			return best;
	}
	return -1;
}

static void link_after(heap *h, int32_t i, int32_t left)
{
	int32_t right = left >= 0 ? h->b[left].next : -1;

	h->b[i].prev = left;
	h->b[i].next = right;
	if (left >= 0)
		h->b[left].next = i;
	if (right >= 0)
		h->b[right].prev = i;
	if (h->last == left)
		h->last = i;
}

static void unlink_block(heap *h, int32_t i)
{
	block *b = &h->b[i];

	if (b->prev >= 0)
		h->b[b->prev].next = b->next;
	if (b->next >= 0)
		h->b[b->next].prev = b->prev;
	if (h->last == i)
		h->last = b->prev;
	b->next = h->spare;
	h->spare = i;
}

static int32_t take(heap *h, int64_t size)
{
	int32_t i = find_free(h, size), rest;

	if (i < 0 && h->last >= 0 && h->b[h->last].free) { /* grow the free block at the top */
		i = h->last;
		unlist(h, i);
		h->top += size - h->b[i].size;
		h->b[i].size = size;
		return i;
	}
	if (i < 0) {
		i = new_block(h, h->top, size);
		link_after(h, i, h->last);
		h->top += size;
		return i;
	}
	unlist(h, i);
	if (h->b[i].size > size) {
		rest = new_block(h, h->b[i].off + size, h->b[i].size - size);
		link_after(h, rest, i);
		list_free(h, rest);
		h->b[i].size = size;
	}
	return i;
}

static void release(heap *h, int32_t i)
{
	int32_t left = h->b[i].prev, right = h->b[i].next;

	if (right >= 0 && h->b[right].free) {
		unlist(h, right);
		h->b[i].size += h->b[right].size;
		unlink_block(h, right);
	}
	if (left >= 0 && h->b[left].free) {
		unlist(h, left);
		h->b[left].size += h->b[i].size;
		unlink_block(h, i);
		i = left;
	}
	list_free(h, i);
}

/* Items by birth and by death, as lists by time: next[i] is one more than the next item. */
static void by_time(const planner *p, bool death, uint32_t *head, uint32_t *next)
{
	memset(head, 0, ((size_t)p->end + 2) * sizeof *head);
	for (size_t i = p->n; i-- > 0;) {
		uint32_t t = death ? p->item[i].to : p->item[i].from;
		next[i] = head[t];
		head[t] = (uint32_t)i + 1;
	}
}

static void place_sweep(const planner *p, bool backward, int64_t *off)
{
	size_t times = (size_t)p->end + 2;
	uint32_t *head[2], *next[2];
	int32_t *held = gg_xmalloc((p->n + 1) * sizeof *held);
	heap h;

	heap_init(&h);
	for (int k = 0; k < 2; k++) {
		head[k] = gg_xmalloc(times * sizeof **head);
		next[k] = gg_xmalloc((p->n + 1) * sizeof **next);
		by_time(p, (k == 1) != backward, head[k], next[k]);
	}
	for (uint32_t k = 0; k <= p->end; k++) {
		uint32_t t = backward ? p->end - k : k;
		for (uint32_t i = head[0][t]; i; i = next[0][i - 1]) {
			held[i - 1] = take(&h, p->item[i - 1].size);
			off[i - 1] = h.b[held[i - 1]].off;
		}
		for (uint32_t i = head[1][t]; i; i = next[1][i - 1])
			release(&h, held[i - 1]);
	}
	for (int k = 0; k < 2; k++) {
		free(head[k]);
		free(next[k]);
	}
	free(held);
	free(h.b);
}

typedef struct placed {
	int64_t off, end;
	uint32_t from, to;
	const item *it;
} placed;

/* One item at the lowest place, or in the smallest gap, that all its contemporaries leave. */
static int64_t find_place(const planner *p, const placed *q, size_t n, const item *it, bool best_fit)
{
	int64_t top = 0, gap = INT64_MAX, at = -1;

	for (size_t i = 0; i < n; i++) {
		if (q[i].from > it->to || q[i].to < it->from || (p->o->order && !together(p, q[i].it, it)))
			continue;
		if (q[i].off - top >= it->size && q[i].off - top < gap) {
			at = top;
			gap = q[i].off - top;
			if (!best_fit)
				break;
		}
		if (q[i].end > top)
			top = q[i].end;
	}
	return at >= 0 ? at : top;
}

static void place_sorted(const planner *p, const uint32_t *order, bool best_fit, placed *q, int64_t *off)
{
	for (size_t k = 0; k < p->n; k++) {
		const item *it = &p->item[order[k]];
		int64_t at = find_place(p, q, k, it, best_fit);
		size_t lo = 0, hi = k;
		while (lo < hi) {
			size_t mid = (lo + hi) / 2;
			if (q[mid].off < at)
				lo = mid + 1;
			else
				hi = mid;
		}
		memmove(q + lo + 1, q + lo, (k - lo) * sizeof *q);
		q[lo] = (placed){at, at + it->size, it->from, it->to, it};
		off[order[k]] = at;
	}
}

typedef struct search {
	const planner *p;
	int64_t bound, best;
	int64_t *off, *best_off;
	uint32_t *order;
	placed *q;
} search;

static bool keep_best(search *s)
{
	int64_t size = arena_size(s->p, s->off);

	if (size < s->best) {
		s->best = size;
		memcpy(s->best_off, s->off, s->p->n * sizeof *s->off);
	}
	return s->best == s->bound;
}

/* What ended at the top was placed too late: it goes first, and all is placed again. */
static void promote_top(search *s)
{
	size_t n = s->p->n, k = 0;
	int64_t size = arena_size(s->p, s->off);
	uint32_t top;

	while (k + 1 < n && s->off[s->order[k]] + s->p->item[s->order[k]].size != size)
		k++;
	top = s->order[k];
	memmove(s->order + 1, s->order, k * sizeof *s->order);
	s->order[0] = top;
}

/* Small graphs are the hard ones: few buffers, no small change to fill gaps with. Random moves of
 * one buffer to an earlier place in the order, kept where they do no harm. */
static void climb(search *s)
{
	size_t n = s->p->n, tries = n > 300 ? 0 : 2000;
	uint32_t *held = gg_xmalloc((n + 1) * sizeof *held);
	int64_t now = s->best;

	sort_items(s->p, BY_SIZE, s->order);
	for (size_t k = 0; k < tries && s->best > s->bound + s->bound / 100; k++) {
		size_t from = 1 + (size_t)(gg_uniform(1, 2 * k) * (double)(n - 1));
		size_t to = (size_t)(gg_uniform(1, 2 * k + 1) * (double)from);
		uint32_t i = s->order[from];
		int64_t size;
		memcpy(held, s->order, n * sizeof *held);
		memmove(s->order + to + 1, s->order + to, (from - to) * sizeof *s->order);
		s->order[to] = i;
		place_sorted(s->p, s->order, true, s->q, s->off);
		keep_best(s);
		size = arena_size(s->p, s->off);
		if (size > now && k > 0)
			memcpy(s->order, held, n * sizeof *held);
		else
			now = size;
	}
	free(held);
}

static void search_orders(search *s)
{
	size_t n = s->p->n, work = n * n / 2 + 1, tries = WORK_MAX / work;

	for (int how = 0; how < ORDERS; how++) {
		sort_items(s->p, how, s->order);
		for (size_t k = 0; k < 1 + tries / ORDERS / 2 && k < 60; k++) {
			place_sorted(s->p, s->order, how != BY_BIRTH, s->q, s->off);
			if (keep_best(s))
				return;
			place_sorted(s->p, s->order, how == BY_BIRTH, s->q, s->off);
			if (keep_best(s))
				return;
			promote_top(s);
		}
	}
	if (n > 1)
		climb(s);
}

static void place_apart(planner *p)
{
	int64_t at = 0;

	for (size_t i = 0; i < p->n; i++) {
		p->item[i].v->mem_off = at;
		at += p->item[i].size;
	}
	p->out->arena = at;
}

static void place(planner *p)
{
	search s = {.p = p, .bound = p->out->bound, .best = INT64_MAX};

	s.off = gg_xmalloc((p->n + 1) * sizeof *s.off);
	s.best_off = gg_xmalloc((p->n + 1) * sizeof *s.best_off);
	place_sweep(p, false, s.off);
	if (!keep_best(&s)) {
		place_sweep(p, true, s.off);
		if (!keep_best(&s) && p->n <= SORTED_MAX) {
			s.order = gg_xmalloc(p->n * sizeof *s.order);
			s.q = gg_xmalloc(p->n * sizeof *s.q);
			search_orders(&s);
			free(s.order);
			free(s.q);
		}
	}
	for (size_t i = 0; i < p->n; i++)
		p->item[i].v->mem_off = s.best_off[i];
	p->out->arena = p->n ? s.best : 0;
	free(s.off);
	free(s.best_off);
}

bool gg_plan_graph(gg_diag *d, gg_graph *g, const gg_plan_options *o, gg_plan *out)
{
	static const gg_plan_options plain;
	planner p = {.d = d, .g = g, .o = o ? o : &plain, .out = out};
	bool good;

	memset(out, 0, sizeof *out);
	out->nstream = p.o->order ? p.o->order->nstream : 1;
	if ((good = find_lives(&p))) {
		find_untils(&p);
		out->bound = compact(&p);
		if (p.o->no_reuse)
			place_apart(&p);
		else
			place(&p);
	}
	free(p.last);
	free(p.item);
	return good;
}
