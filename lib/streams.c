#include "streams.h"

#include <stdlib.h>
#include <string.h>

typedef struct maker {
	const uint32_t *step;
	gg_order *o;
	const bool *idle;
	uint32_t last[GG_MAX_STREAMS]; /* call with work; 0: none */
	uint32_t dep[GG_MAX_STREAMS];  /* of the call at hand: the last one needed of each stream */
	size_t cap_wait;
} maker;

bool gg_has_streams(const gg_graph *g)
{
	for (const gg_node *n = g->first; n; n = n->next)
		if (n->stream)
			return true;
	return false;
}

bool gg_is_view(const gg_node *n)
{
	const gg_value *in = gg_in(n, 0);

	return (n->op->flags & GG_VIEW) && n->nout == 1 && !n->nafter && in && n->out[0] &&
	       in->layout == n->out[0]->layout;
}

static bool count_streams(gg_diag *d, const gg_graph *g, gg_order *o)
{
	o->nstream = 1;
	for (const gg_node *n = g->first; n; n = n->next) {
		if (n->stream < 0 || n->stream >= GG_MAX_STREAMS)
			return gg_node_error(d, GG_MALFORMED, n, "stream %d: they are numbered from 0 to %d",
			                     n->stream, GG_MAX_STREAMS - 1);
		o->nstream = n->stream >= o->nstream ? n->stream + 1 : o->nstream;
	}
	return true;
}

/* How far stream s has come when call d is done. */
static uint32_t after(const gg_order *o, uint32_t d, int s)
{
	return s == o->stream[d] ? o->pos[d] : gg_clock_at(o, d)[s];
}

static void need(maker *m, uint32_t call, uint32_t d)
{
	const gg_order *o = m->o;
	int s = o->stream[d];

	if (d == call || s == o->stream[call] || !o->pos[d])
		return;
	if (!m->dep[s] || o->pos[d] > o->pos[m->dep[s]])
		m->dep[s] = d;
}

/* Past views, to what made the bytes. */
static void need_value(maker *m, uint32_t call, const gg_value *v)
{
	while (v && v->producer && m->idle && m->idle[m->step[v->producer->order]])
		v = gg_in(v->producer, 0);
	if (v && v->producer)
		need(m, call, m->step[v->producer->order]);
}

static void need_node(maker *m, uint32_t call, const gg_node *n)
{
	if (m->idle && m->idle[m->step[n->order]])
		need_value(m, call, n->out[0]);
	else
		need(m, call, m->step[n->order]);
}

static void find_needs(maker *m, uint32_t call, const gg_node *n)
{
	memset(m->dep, 0, sizeof m->dep);
	for (; n && m->step[n->order] == call; n = n->next) {
		for (int i = 0; i < n->nin; i++)
			need_value(m, call, n->in[i].value);
		for (int i = 0; i < n->nafter; i++)
			need_node(m, call, n->after[i]);
	}
}

/* What the stream has waited for already, or another need has, needs no event. */
static bool implied(const maker *m, uint32_t call, int s, const uint32_t *base)
{
	const gg_order *o = m->o;
	uint32_t pos = o->pos[m->dep[s]];

	if (base[s] >= pos)
		return true;
	for (int t = 0; t < o->nstream; t++)
		if (t != s && m->dep[t] && after(o, m->dep[t], s) >= pos)
			return true;
	return false;
}

static void wait_for(maker *m, uint32_t call, uint32_t *clock)
{
	gg_order *o = m->o;

	for (int t = 0; t < o->nstream; t++)
		if (m->dep[t] && !implied(m, call, t, clock)) {
			GG_PUSH(o->wait, o->nwait, m->cap_wait, m->dep[t]);
			o->signals[m->dep[t]] = true;
		}
	for (int u = 0; u < o->nstream; u++)
		for (int t = 0; m->dep[u] && t < o->nstream; t++)
			if (after(o, m->dep[u], t) > clock[t])
				clock[t] = after(o, m->dep[u], t);
}

static void add_call(maker *m, uint32_t call, const gg_node *n)
{
	gg_order *o = m->o;
	int s = o->stream[call] = (uint8_t)n->stream;
	uint32_t *clock = o->clock + (size_t)call * (size_t)o->nstream, before = m->last[s];

	for (int t = 0; t < o->nstream; t++)
		clock[t] = before ? after(o, before, t) : 0;
	o->first[call] = (uint32_t)o->nwait;
	o->pos[call] = clock[s];
	if (m->idle && m->idle[call])
		return;
	find_needs(m, call, n);
	wait_for(m, call, clock);
	o->pos[call] = clock[s] + 1;
	m->last[s] = call;
}

bool gg_order_make(gg_diag *d, const gg_graph *g, const uint32_t *step, const bool *idle, gg_order *o)
{
	maker m = {.step = step, .idle = idle, .o = o};
	size_t n;

	*o = (gg_order){.ncall = g->last ? step[g->last->order] : 0};
	if (!count_streams(d, g, o))
		return false;
	n = (size_t)o->ncall + 2;
	o->stream = gg_xcalloc(n, sizeof *o->stream);
	o->pos = gg_xcalloc(n, sizeof *o->pos);
	o->clock = gg_xcalloc(n * (size_t)o->nstream, sizeof *o->clock);
	o->signals = gg_xcalloc(n, sizeof *o->signals);
	o->first = gg_xcalloc(n, sizeof *o->first);
	for (const gg_node *k = g->first; k;) {
		uint32_t call = step[k->order];
		add_call(&m, call, k);
		while (k && step[k->order] == call)
			k = k->next;
	}
	o->first[n - 1] = (uint32_t)o->nwait;
	return true;
}

void gg_order_free(gg_order *o)
{
	free(o->stream);
	free(o->pos);
	free(o->clock);
	free(o->signals);
	free(o->first);
	free(o->wait);
	*o = (gg_order){0};
}
