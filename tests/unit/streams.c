/* Random graphs on random streams: the waits are enough and none too many, and with the memory plan no
 * buffer is overwritten while somebody needs it, in whatever legal order the streams go on. */
#include "plan.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

static gg_diag diag = {.tool = "streams"};
static uint64_t seed = 1;

static uint32_t pick(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((seed >> 33) % n);
}

static gg_value *add(gg_graph *g, const char *op, int nin, gg_value *const *in, int64_t n, int stream)
{
	static unsigned count;
	char text[16];
	const char *name = text;
	snprintf(text, sizeof text, "t%u", count++);
	gg_node *node = gg_add_node(g, NULL, gg_op_find(op), nin, in, 1, &name);
	node->out[0]->dtype = GG_F32;
	node->out[0]->shape = gg_shape_of(1, (gg_dim[]){n});
	node->stream = stream;
	return node->out[0];
}

static gg_model *random_model(int nodes, int width, int streams)
{
	gg_model *m = gg_model_new("random");
	gg_shape s = gg_shape_of(1, (gg_dim[]){16});
	gg_value *x = gg_add_input(m->main, "x", GG_F32, &s),
	         **recent = calloc((size_t)width, sizeof *recent);

	for (int i = 0; i < width; i++)
		recent[i] = x;
	for (int i = 0; i < nodes; i++) {
		gg_value *in[2] = {recent[pick((uint32_t)width)], recent[pick((uint32_t)width)]};
		int64_t n = pick(2) ? in[0]->shape.dim[0] : 16 * (1 + pick(16));
		int stream = (int)pick((uint32_t)streams);
		gg_value **to = &recent[pick((uint32_t)width)];
		switch (pick(8)) {
		case 0:
			*to = add(m->main, "Identity", 1, in, in[0]->shape.dim[0], stream);
			break;
		case 1:
		case 2:
			*to = add(m->main, "Relu", 1, in, n, stream);
			break;
		default:
			*to = add(m->main, "Add", 2, in, n, stream);
		}
		if (i && !pick(16))
			gg_add_after(m->main->last, m->main->last->prev);
	}
	for (int i = 0; i < width; i += 2)
		gg_add_output(m->main, recent[i]);
	free(recent);
	gg_graph_number(m->main);
	return m;
}

static void order_of(const gg_graph *g, gg_order *o)
{
	uint32_t *step = calloc(g->nnodes + 2, sizeof *step);
	bool *idle = calloc(g->nnodes + 2, sizeof *idle);

	for (const gg_node *n = g->first; n; n = n->next) {
		step[n->order] = n->order;
		idle[n->order] = gg_is_view(n);
	}
	if (!gg_order_make(&diag, g, step, idle, o))
		exit(1);
	free(step);
	free(idle);
}

/* ---- the waits ---------------------------------------------------------------------------------- */

/* What is done before each call, by brute force, over what streams order and the waits but one. */
static void reach(const gg_order *o, uint32_t skip, bool *r)
{
	size_t n = o->ncall + 1;

	memset(r, 0, n * n);
	for (uint32_t c = 1; c < n; c++) {
		for (uint32_t d = 1; d < c; d++)
			r[c * n + d] = o->stream[d] == o->stream[c];
		for (uint32_t i = o->first[c]; i < o->first[c + 1]; i++)
			if (i != skip)
				r[c * n + o->wait[i]] = true;
		for (uint32_t d = c; --d > 0;)
			for (uint32_t e = 1; r[c * n + d] && e < d; e++)
				r[c * n + e] |= r[d * n + e];
	}
}

static bool is_idle(const gg_node *n, const gg_order *o) { return gg_is_view(n); }

/* All that makes what n reads: past views, which do nothing. */
static bool all_done(const gg_order *o, const bool *r, const gg_node *n, uint32_t call)
{
	size_t w = o->ncall + 1;

	for (int i = 0; i < n->nin + n->nafter; i++) {
		const gg_node *p = i < n->nin ? n->in[i].value->producer : n->after[i - n->nin];
		if (!p)
			continue;
		if (is_idle(p, o) ? !all_done(o, r, p, call) : !r[call * w + p->order])
			return false;
	}
	return true;
}

static bool enough(const gg_graph *g, const gg_order *o, const bool *r)
{
	for (const gg_node *n = g->first; n; n = n->next)
		if (!is_idle(n, o) && !all_done(o, r, n, n->order))
			return false;
	return true;
}

static void waits(void)
{
	bool few = true, good = true;
	size_t total = 0;

	for (int k = 0; k < 60; k++) {
		gg_model *m = random_model(10 + (int)pick(30), 2 + (int)pick(6), 1 + (int)pick(4));
		gg_order o;
		order_of(m->main, &o);
		bool *r = malloc((o.ncall + 1) * (o.ncall + 1));
		reach(&o, UINT32_MAX, r);
		good &= enough(m->main, &o, r);
		for (uint32_t i = 0; i < o.nwait; i++) {
			reach(&o, i, r);
			few &= !enough(m->main, &o, r);
		}
		total += o.nwait;
		free(r);
		gg_order_free(&o);
		gg_model_free(m);
	}
	ok(good, "whatever a call reads is done when it starts");
	ok(few && total > 100, "without any one of the waits (%zu) that is not so", total);
}

/* ---- memory ------------------------------------------------------------------------------------- */

enum { WAITS, RUNS, DONE };

typedef struct machine {
	gg_graph *g;
	const gg_order *o;
	gg_node **node;  /* by call */
	uint8_t *state;  /* by call */
	uint32_t *owner; /* by piece of the arena: the value whose bytes are there */
	uint32_t next[GG_MAX_STREAMS];
	bool bad;
} machine;

static void own(machine *m, const gg_value *v, uint32_t id)
{
	const gg_value *root = gg_storage((gg_value *)v);
	for (int64_t b = root->mem_off / GG_ALIGN;
	     root->mem_off >= 0 && b * GG_ALIGN < root->mem_off + root->mem_len; b++)
		m->owner[b] = id;
}

static bool is_alias(const gg_node *n) { return (n->op->flags & GG_VIEW) && n->out[0]->alias; }

static bool holds(const machine *m, const gg_value *v)
{
	const gg_value *root = gg_storage((gg_value *)v), *w = v;

	while (w->producer && is_alias(w->producer)) /* a view has the bytes of its input */
		w = gg_in(w->producer, 0);
	for (int64_t b = root->mem_off / GG_ALIGN;
	     root->mem_off >= 0 && b * GG_ALIGN < root->mem_off + root->mem_len; b++)
		if (m->owner[b] != w->id)
			return false;
	return true;
}

/* A buffer that a call reads holds it from its start to its end, unless the call itself overwrites it. */
static void check(machine *m, uint32_t call, bool end)
{
	const gg_node *n = m->node[call];
	const gg_value *out = n->out[0];

	if (is_alias(n))
		return;
	for (int i = 0; i < n->nin; i++)
		if (!(end && gg_storage(n->in[i].value) == gg_storage((gg_value *)out)))
			m->bad |= !holds(m, n->in[i].value);
	if (!end)
		own(m, out, out->id);
	m->bad |= end && !holds(m, out);
}

static bool may_start(const machine *m, uint32_t c)
{
	for (uint32_t i = m->o->first[c]; i < m->o->first[c + 1]; i++)
		if (m->state[m->o->wait[i]] != DONE)
			return false;
	return true;
}

/* The next call of the stream at or after c. */
static uint32_t next_of(const machine *m, int s, uint32_t c)
{
	while (c <= m->o->ncall && m->o->stream[c] != s)
		c++;
	return c;
}

static void interleave(machine *m)
{
	uint32_t left = m->o->ncall;

	memset(m->state, 0, m->o->ncall + 2);
	for (int s = 0; s < m->o->nstream; s++)
		m->next[s] = next_of(m, s, 1);
	for (uint32_t tries = 0; left && tries < 1000000; tries++) {
		int s = (int)pick((uint32_t)m->o->nstream);
		uint32_t c = m->next[s];
		if (c > m->o->ncall)
			continue;
		if (m->state[c] == WAITS && may_start(m, c)) {
			m->state[c] = RUNS;
			check(m, c, false);
		} else if (m->state[c] == RUNS) {
			check(m, c, true);
			m->state[c] = DONE;
			m->next[s] = next_of(m, s, c + 1);
			left--;
		}
	}
	m->bad |= left > 0;
	for (size_t i = 0; i < m->g->nout; i++)
		if (m->g->out[i]->value->producer)
			m->bad |= !holds(m, m->g->out[i]->value);
}

static void memory(void)
{
	bool bad = false;
	double sum = 0;
	size_t reused = 0, inplace = 0;

	for (int k = 0; k < 80; k++) {
		gg_model *m = random_model(20 + (int)pick(120), 2 + (int)pick(6), 1 + (int)pick(4));
		gg_order o;
		gg_plan p;
		order_of(m->main, &o);
		gg_plan_options opt = {.order = &o, .no_inplace = k % 4 == 0};
		bad |= !gg_plan_graph(&diag, m->main, &opt, &p);
		machine x = {.g = m->main, .o = &o};
		x.node = calloc(o.ncall + 2, sizeof *x.node);
		x.state = calloc(o.ncall + 2, 1);
		x.owner = calloc((size_t)p.arena / GG_ALIGN + 2, sizeof *x.owner);
		for (gg_node *n = m->main->first; n; n = n->next) {
			x.node[n->order] = n;
			inplace += n->out[0]->alias && !is_alias(n);
		}
		for (int i = 0; i < 10; i++)
			interleave(&x);
		bad |= x.bad || p.arena < p.bound;
		reused += p.arena < p.total;
		sum += (double)p.arena / (double)p.bound;
		free(x.node);
		free(x.state);
		free(x.owner);
		gg_order_free(&o);
		gg_model_free(m);
	}
	ok(!bad, "no buffer is overwritten that somebody needs, in any order");
	ok(reused > 60 && inplace > 100, "though memory is used again (%zu graphs, %zu in place)", reused,
	   inplace);
	ok(sum / 80 <= 1.05, "arenas take on average %.3f of what they must", sum / 80);
}

int main(void)
{
	waits();
	memory();
	return done();
}
