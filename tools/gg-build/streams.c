/* Stream assignment. Collectives have a stream of their own. Calls are put on the compute stream on which
 * they can start first, by the costs that their shapes tell; more than one compute stream is used where
 * the time that comes out is shorter by enough: kernels that keep the machine busy alone gain nothing.
 *
 * Two bounds stand for the time that streams give: the longest chain with its waits, and the sum of what
 * each call keeps busy. */
#include "streams.h"
#include "../../lib/comm.h"
#include "../../lib/cost.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_COMPUTE = 4 };
#define GAIN 0.90          /* of the time on one stream that must not be exceeded */
#define GAIN_SECONDS 10e-6 /* and what must be saved */
#define MEMORY 1.05        /* of what values of one stream need at least, that a plan may take */

/* An H200, with margins: what streams gain does not hang on the last percent. */
static const gg_machine machine = {.flops = 50e12,
                                   .half_flops = 600e12,
                                   .bytes = 4e12,
                                   .launch = 2e-6,
                                   .event = 1.5e-6,
                                   .processors = 132,
                                   .tile = 4096};

typedef struct call {
	gg_node *node;
	int len, stream;
	bool view, collective, host;
	gg_cost cost;
	double start, end;
} call;

typedef struct schedule {
	gg_model *m;
	call *call; /* from 1 on */
	size_t n;
	int ncompute, communication; /* the latter -1: none */
	double time;
} schedule;

static void find_calls(schedule *s)
{
	const gg_target *t = gg_target_find(s->m->target);
	gg_graph *g = s->m->main;

	s->call = gg_xcalloc(g->nnodes + 2, sizeof *s->call);
	for (gg_node *n = g->first; n;) {
		bool ref = !n->kernel || !strcmp(n->kernel, "ref");
		call *c = &s->call[++s->n];
		*c = (call){.node = n,
		            .len = ref ? 1 : gg_target_cover(t, n),
		            .view = gg_is_view(n),
		            .collective = gg_is_collective(n),
		            .host = ref && !gg_is_view(n) && !gg_is_collective(n)};
		if (!c->view)
			c->cost = gg_call_cost(&machine, n, c->len);
		for (int i = 0; i < c->len; i++, n = n->next)
			n->mark = s->n;
	}
}

/* When call c could start on stream k, and the call it follows. */
static double ready(const schedule *s, const call *c, int k, const double *free_at)
{
	double at = free_at[k];
	const gg_node *n = c->node;

	for (int j = 0; j < c->len; j++, n = n->next)
		for (int i = 0; i < n->nin + n->nafter; i++) {
			const gg_node *p = i >= n->nin      ? n->after[i - n->nin]
			                   : n->in[i].value ? n->in[i].value->producer
			                                    : NULL;
			const call *d = p ? &s->call[p->mark] : NULL;
			double t = d && d != c ? d->end + (d->stream != k ? machine.event : 0) : 0;
			at = t > at ? t : at;
		}
	return at;
}

static int input_stream(const schedule *s, const call *c)
{
	const gg_value *v = gg_in(c->node, 0);

	return v && v->producer ? s->call[v->producer->mark].stream : 0;
}

static void place_call(schedule *s, call *c, double *free_at)
{
	if (c->view) { /* no work: where its input is */
		c->stream = input_stream(s, c);
		c->start = c->end = ready(s, c, c->stream, free_at);
		return;
	}
	if (c->host) { /* waits for everything, and everything waits for it */
		for (int k = 0; k < GG_MAX_STREAMS; k++)
			free_at[0] = free_at[k] > free_at[0] ? free_at[k] : free_at[0];
		c->start = ready(s, c, 0, free_at);
		c->end = c->start + c->cost.seconds;
		for (int k = 0; k < GG_MAX_STREAMS; k++)
			free_at[k] = c->end;
		return;
	}
	c->stream = c->collective && s->communication >= 0 ? s->communication : 0;
	c->start = ready(s, c, c->stream, free_at);
	for (int k = 1; !c->collective && k < s->ncompute; k++) {
		double at = ready(s, c, k, free_at);
		if (at < c->start) {
			c->start = at;
			c->stream = k;
		}
	}
	free_at[c->stream] = c->end = c->start + c->cost.seconds;
}

static void list_schedule(schedule *s, int ncompute, bool communication)
{
	double free_at[GG_MAX_STREAMS] = {0}, area = 0;

	s->ncompute = ncompute;
	s->communication = communication ? ncompute : -1;
	s->time = 0;
	for (size_t i = 1; i <= s->n; i++) {
		call *c = &s->call[i];
		place_call(s, c, free_at);
		area += c->collective ? 0 : c->cost.seconds * c->cost.fill;
		s->time = c->end > s->time ? c->end : s->time;
	}
	s->time = area > s->time ? area : s->time;
}

/* ---- written into the graph ------------------------------------------------------------------ */

static int by_start(const void *x, const void *y)
{
	const call *const *a = x, *const *b = y;

	if ((*a)->start != (*b)->start)
		return (*a)->start > (*b)->start ? 1 : -1;
	return *a > *b ? 1 : -1;
}

static void move_to_end(const call *c)
{
	gg_node *n = c->node, *next;

	for (int i = 0; i < c->len; i++, n = next) {
		next = n->next;
		gg_move_before(n, NULL);
	}
}

/* Nodes in the order in which they start; in their first order where that is not wanted. */
static void write_streams(schedule *s, bool reorder)
{
	call **order = gg_xmalloc((s->n + 1) * sizeof *order);

	for (size_t i = 0; i < s->n; i++) {
		gg_node *n = s->call[i + 1].node;
		order[i] = &s->call[i + 1];
		for (int k = 0; k < order[i]->len; k++, n = n->next)
			n->stream = order[i]->stream;
	}
	if (reorder)
		qsort(order, s->n, sizeof *order, by_start);
	for (size_t i = 0; i < s->n; i++)
		move_to_end(order[i]);
	free(order);
}

/* ---- how many -------------------------------------------------------------------------------- */

/* Where the shapes do not tell, nothing is known of memory: they are bound later. */
static bool memory_fits(gg_diag *d, schedule *s)
{
	gg_plan p;

	write_streams(s, true);
	return gg_plan_for_target(d, s->m->main, false, &p) && (double)p.arena <= MEMORY * (double)p.bound;
}

static int choose(gg_diag *d, schedule *s, bool communication)
{
	double alone, best;
	int n = 1;

	list_schedule(s, 1, communication);
	alone = best = s->time;
	for (int k = 2; k <= MOST_COMPUTE; k++) {
		list_schedule(s, k, communication);
		if (s->time < best * GAIN && s->time < alone - GAIN_SECONDS) {
			best = s->time;
			n = k;
		}
	}
	gg_verbose(d, "streams: %.3g us on one, %.3g us on %d by estimate", alone * 1e6, best * 1e6, n);
	for (; n > 1; n--) {
		list_schedule(s, n, communication);
		if (memory_fits(d, s))
			break;
		write_streams(s, false);
		gg_verbose(d, "streams: %d take more memory than they may", n);
	}
	return n;
}

bool assign_streams(gg_diag *d, gg_model *m, int64_t want, const char **kind, int *n)
{
	schedule s = {.m = m};
	bool communication = want != 1 && gg_has_collective(m->main);
	int most = GG_MAX_STREAMS - communication, ncompute;

	if (want > most)
		return gg_error(d, GG_UNSUPPORTED, "--streams: at most %d compute streams, not %lld", most,
		                (long long)want);
	find_calls(&s);
	ncompute = want == STREAMS_AUTO ? choose(d, &s, communication) : (int)want;
	list_schedule(&s, ncompute, communication);
	write_streams(&s, ncompute > 1);
	*n = 0;
	for (int i = 0; i < ncompute; i++)
		kind[(*n)++] = "compute";
	if (communication)
		kind[(*n)++] = "communication";
	free(s.call);
	return true;
}
