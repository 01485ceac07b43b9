/* Gradient checkpointing: values that the forward part keeps for the gradients are made once more,
 * segment by segment, right before they are read.
 *
 *   forward   [ s0 | s1 | s2 ] loss   backward of s2, of s1, of s0
 *   then      [ s0 | s1 | s2 ] loss   backward of s2, s1 again, of s1, s0 again, of s0
 *
 * What one segment reads of another is kept; the last segment is needed at once and is left alone. */
#include "../pass.h"
#include "../../../lib/tool.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct plan {
	gg_pass_run *p;
	gg_graph *g;
	gg_node **node; /* the forward nodes, in order */
	int64_t *bytes; /* of each one's outputs */
	int *segment;
	int n, segments;
	int64_t total;
	uint32_t loss; /* order of the last forward node */
} plan;

static bool sizes(plan *k, bool must)
{
	for (int i = 0; i < k->n; i++)
		for (int o = 0; o < k->node[i]->nout; o++) {
			const gg_value *v = k->node[i]->out[o];
			int64_t bytes = 0;
			if (!v)
				continue;
			if (!gg_shape_known(&v->shape) ||
			    !gg_size_of((gg_dtype)v->dtype, &v->shape, &bytes)) {
				if (must)
					return gg_error(k->p->d, GG_USAGE,
					                "'%s' has no known size for a budget: bind "
					                "its symbols, or say segments=N",
					                v->name);
				bytes = 1;
			}
			k->bytes[i] += bytes;
			k->total += bytes;
		}
	return true;
}

/* Cuts the forward part into segments of about the same bytes. */
static void cut(plan *k, int segments)
{
	int64_t before = 0;
	k->segments = segments;
	for (int i = 0; i < k->n; i++) {
		double at = (double)before * segments / (double)(k->total ? k->total : 1);
		k->segment[i] = at < segments ? (int)at : segments - 1;
		before += k->bytes[i];
	}
}

static bool is_forward(const plan *k, const gg_node *n) { return n && n->order <= k->loss; }
static int segment_of(const plan *k, const gg_node *n) { return k->segment[n->mark]; }

/* Why its value cannot be made twice, or NULL. */
static const char *hindrance(const gg_value *v)
{
	const gg_node *n = v->producer;
	unsigned flags = gg_node_flags(n);
	return n->op->aliases            ? "it updates a state"
	       : gg_is_output(v)         ? "its result is an output"
	       : flags & GG_RANDOM       ? "it draws random numbers"
	       : flags & GG_EFFECT       ? "it has an effect"
	       : gg_body(n, 0)           ? "it has a body"
	       : n->nafter || n->nfollow ? "control edges order it"
	                                 : 0;
}

/* Read after the loss: by the gradients. */
static bool is_saved(const plan *k, const gg_value *v)
{
	for (const gg_use *u = v->uses; u; u = u->next)
		if (u->node && !is_forward(k, u->node))
			return true;
	return false;
}

static bool is_read_later(const plan *k, const gg_value *v)
{
	for (const gg_use *u = v->uses; u; u = u->next)
		if (is_forward(k, u->node) && segment_of(k, u->node) != segment_of(k, v->producer))
			return true;
	return false;
}

/* Stays as it is: it is read in a later segment, or cannot be made twice. */
static bool is_kept(const plan *k, const gg_value *v)
{
	return segment_of(k, v->producer) == k->segments - 1 || hindrance(v) || is_read_later(k, v);
}

/* The bytes held for the gradients at the worst moment, about. */
static int64_t estimate(const plan *k)
{
	int64_t kept = 0, most = 0, again = 0;
	int segment = 0;
	for (int i = 0; i < k->n; i++) {
		if (k->segment[i] != segment) {
			segment = k->segment[i];
			again = 0;
		}
		for (int o = 0; o < k->node[i]->nout; o++) {
			const gg_value *v = k->node[i]->out[o];
			int64_t bytes = 0;
			if (!v || !is_saved(k, v) || !gg_size_of((gg_dtype)v->dtype, &v->shape, &bytes))
				continue;
			if (is_kept(k, v) && segment != k->segments - 1)
				kept += bytes;
			else
				again += bytes;
		}
		most = again > most ? again : most;
	}
	return kept + most;
}

/* ---- doing it ----------------------------------------------------------------------------- */
/* The first node of the backward part that reads what this segment will make again. */
static gg_node *first_reader(const plan *k, int segment)
{
	gg_node *first = 0;
	for (int i = 0; i < k->n; i++)
		for (int o = 0; k->segment[i] == segment && o < k->node[i]->nout; o++) {
			const gg_value *v = k->node[i]->out[o];
			if (!v || is_kept(k, v))
				continue;
			for (const gg_use *u = v->uses; u; u = u->next)
				if (u->node && !is_forward(k, u->node) &&
				    (!first || u->node->order < first->order))
					first = u->node;
		}
	return first;
}

/* needed[i]: node i is made again. From the end: what a repeated node reads is needed too. */
static void find_needed(const plan *k, int segment, bool *needed)
{
	for (int i = k->n - 1; i >= 0; i--) {
		gg_node *n = k->node[i];
		if (k->segment[i] != segment)
			continue;
		for (int o = 0; o < n->nout; o++)
			needed[i] |= n->out[o] && !is_kept(k, n->out[o]) && is_saved(k, n->out[o]);
		for (int s = 0; needed[i] && s < n->nin; s++) {
			const gg_value *v = n->in[s].value;
			if (v && v->producer && segment_of(k, v->producer) == segment && !is_kept(k, v))
				needed[v->producer->mark] = true;
		}
	}
}

static gg_node *repeat(plan *k, gg_node *n, gg_node *at, gg_node *after)
{
	gg_value **in = gg_alloc_n(&k->p->scratch, (size_t)n->nin + 1, sizeof *in);
	const char **name = gg_alloc_n(&k->p->scratch, (size_t)n->nout + 1, sizeof *name);
	for (int i = 0; i < n->nin; i++) {
		gg_value *v = n->in[i].value;
		in[i] = v && v->mark ? (gg_value *)(uintptr_t)v->mark : v;
	}
	for (int o = 0; o < n->nout; o++)
		name[o] = n->out[o]
		              ? gg_fresh_name(k->g, gg_printf(&k->p->scratch, "%s.again", n->out[o]->name))
		              : 0;
	gg_node *c = gg_add_node(k->g, at, n->op, n->nin, in, n->nout, name);
	gg_copy_attrs(c, n);
	gg_merge_loc(c, n);
	gg_add_after(c, after);
	c->order = at->order;
	for (int o = 0; o < n->nout; o++)
		if (n->out[o])
			c->out[o]->layout = n->out[o]->layout;
	return gg_infer_node(k->p->d, c) ? c : 0;
}

static void turn_readers(const plan *k, gg_value *from, gg_value *to)
{
	for (gg_use *u = from->uses, *next; u; u = next) {
		next = u->next;
		if (u->node && !is_forward(k, u->node))
			gg_set_input(u->node, (int)(u - u->node->in), to);
	}
}

static bool repeat_segment(plan *k, int segment)
{
	gg_node *at = first_reader(k, segment), *after = at ? at->prev : 0;
	bool *needed = gg_alloc_n(&k->p->scratch, (size_t)k->n, sizeof *needed), good = true;
	if (!at || !gg_apply(k->p, at))
		return true;
	find_needed(k, segment, needed);
	for (int i = 0; i < k->n && good; i++) {
		gg_node *n = k->node[i], *c;
		if (!needed[i])
			continue;
		if (!(c = repeat(k, n, at, after)))
			return false;
		for (int o = 0; o < n->nout; o++)
			if (n->out[o] && !is_kept(k, n->out[o]))
				n->out[o]->mark = (uint64_t)(uintptr_t)c->out[o];
	}
	for (int i = 0; i < k->n; i++)
		for (int o = 0; needed[i] && o < k->node[i]->nout; o++) {
			gg_value *v = k->node[i]->out[o];
			if (v && v->mark)
				turn_readers(k, v, (gg_value *)(uintptr_t)v->mark);
		}
	return good;
}

/* What the gradients read and its segment alone, but cannot be made again. */
static void tell_kept(const plan *k)
{
	for (int i = 0; i < k->n; i++)
		for (int o = 0; k->segment[i] < k->segments - 1 && o < k->node[i]->nout; o++) {
			const gg_value *v = k->node[i]->out[o];
			const char *why = v ? hindrance(v) : 0;
			if (why && is_saved(k, v) && !is_read_later(k, v))
				gg_refused(k->p, k->node[i], why);
		}
}

/* ---- how many segments -------------------------------------------------------------------- */
static bool choose(plan *k)
{
	const char *budget = gg_pass_option(k->p, "budget"), *segments = gg_pass_option(k->p, "segments");
	int64_t most = 0, n = (int64_t)ceil(sqrt(k->n)), best = INT64_MAX;
	if (budget && (!gg_parse_int(budget, &most) || most < 1))
		return gg_error(k->p->d, GG_USAGE, "budget takes bytes, not '%s'", budget);
	if (segments && (!gg_parse_int(segments, &n) || n < 1 || n > 1000000))
		return gg_error(k->p->d, GG_USAGE, "segments takes a number, not '%s'", segments);
	if (!sizes(k, budget != 0))
		return false;
	cut(k, n > k->n ? k->n : (int)n);
	if (!budget)
		return true;
	for (int i = 1; i <= k->n && i <= 256; i++) {
		cut(k, i);
		int64_t now = estimate(k);
		best = now < best ? now : best;
		if (now <= most)
			return true;
	}
	return gg_error(k->p->d, GG_UNSUPPORTED, "%lld bytes are not enough; the least is about %lld",
	                (long long)most, (long long)best);
}

/* Needs the gradients, and cse and fusions before it.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	gg_value *loss = gg_find_value(g, "loss");
	plan k = {.p = p, .g = g};
	if (g->owner)
		return true;
	if (!loss || !loss->producer)
		return gg_error(p->d, GG_USAGE, "the graph has no value 'loss' to train");
	gg_graph_number(g);
	k.loss = loss->producer->order;
	k.node = gg_alloc_n(&p->scratch, k.loss, sizeof *k.node);
	k.bytes = gg_alloc_n(&p->scratch, k.loss, sizeof *k.bytes);
	k.segment = gg_alloc_n(&p->scratch, k.loss, sizeof *k.segment);
	gg_clear_marks(g);
	for (gg_node *n = g->first; n && n->order <= k.loss; n = n->next) {
		n->mark = (uint64_t)k.n;
		k.node[k.n++] = n;
	}
	if (!choose(&k))
		return false;
	tell_kept(&k);
	for (int s = k.segments - 2; s >= 0; s--)
		if (!repeat_segment(&k, s))
			return false;
	return true;
}

const gg_pass gg_pass_recompute = {
    .name = "recompute",
    .help = "make values again for the gradients rather than keep them: less memory, more time",
    .explain = "The nodes up to the loss are cut into segments of about the same bytes. Of each but the "
               "last, what is read\n"
               "only inside it is not kept for the gradients but made again right before they read it, from "
               "what other\n"
               "segments read of it, inputs and parameters; the repeated nodes wait for the gradients "
               "(`after`). Not\n"
               "repeated: random nodes, nodes with effects, state or bodies, and declared outputs.\n"
               "With a budget the smallest number of segments is taken whose values held for the gradients "
               "fit in it.\n"
               "It goes after grad, the optimiser and fusions.",
    .pipeline = "",
    .options = "segments=N: (the root of the number of nodes); budget=BYTES: for what the gradients read",
    .exact = true,
    .run = run,
};
