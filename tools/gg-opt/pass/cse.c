#include "../pass.h"
#include <stdlib.h>
#include <string.h>

static uint64_t hash_ptr(const void *p, uint64_t h) { return gg_hash(&p, sizeof p, h); }

/* Bodies hash by their size alone; equality looks inside. */
static uint64_t hash_attr(const gg_attr *a, uint64_t h)
{
	h = hash_ptr(a->name, h);
	switch (a->type) {
	case GG_ATTR_INT:
		return gg_hash(&a->i, sizeof a->i, h);
	case GG_ATTR_FLOAT:
		return gg_hash(&a->f, sizeof a->f, h);
	case GG_ATTR_STRING:
		return gg_hash(a->s, strlen(a->s), h);
	case GG_ATTR_INTS:
		return gg_hash(a->ints, (size_t)a->n * sizeof *a->ints, h);
	case GG_ATTR_FLOATS:
		return gg_hash(a->floats, (size_t)a->n * sizeof *a->floats, h);
	case GG_ATTR_DTYPE:
		return gg_hash(&a->dtype, sizeof a->dtype, h);
	case GG_ATTR_GRAPH:
		return gg_hash(&a->graph->nnodes, sizeof a->graph->nnodes, h);
	default:
		return h + (uint64_t)a->n;
	}
}

static uint64_t hash_node(const gg_node *n)
{
	uint64_t h = hash_ptr(n->op, (uint64_t)n->nin);
	for (int i = 0; i < n->nin; i++)
		h = hash_ptr(n->in[i].value, h);
	for (int i = 0; i < n->nattr; i++)
		h = hash_attr(&n->attr[i], h);
	return h | 1;
}

/* The kept node must make every output that the other's readers want. */
static bool equal(const gg_node *a, const gg_node *b)
{
	if (a->op != b->op || a->nin != b->nin || a->ncap != b->ncap || a->nattr != b->nattr ||
	    a->kernel != b->kernel)
		return false;
	for (int i = 0; i < a->nin; i++)
		if (a->in[i].value != b->in[i].value)
			return false;
	for (int i = 0; i < a->nattr; i++)
		if (!gg_attr_eq(&a->attr[i], &b->attr[i]))
			return false;
	for (int i = 0; i < b->nout; i++) {
		const gg_value *x = gg_out(a, i), *y = b->out[i];
		if (y && (!x || x->dtype != y->dtype || x->layout != y->layout))
			return false;
	}
	return true;
}

/* Why a node is not like another that looks the same, or NULL. */
static const char *apart(const gg_node *n)
{
	uint32_t flags = gg_node_flags(n);
	return flags & GG_RANDOM         ? "each draws random numbers of its own"
	       : flags & GG_EFFECT       ? "each has its effect"
	       : n->op->aliases          ? "each updates a state"
	       : n->nafter || n->nfollow ? "control edges order it"
	                                 : 0;
}

static void merge(gg_pass_run *p, gg_node *keep, gg_node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && !gg_can_replace(n->out[i], keep->out[i])) {
			gg_refused(p, n, "both results are declared names");
			return;
		}
	if (!gg_apply(p, n))
		return;
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			gg_replace_value(n->out[i], keep->out[i]);
	gg_merge_loc(keep, n);
	gg_remove_node(n);
}

/* Small constants with the same bytes are one value, so that their readers can be equal. */
enum { SMALL = 4096 };

static bool equal_const(const gg_value *a, const gg_value *b)
{
	return a->kind == b->kind && a->dtype == b->dtype && a->layout == b->layout &&
	       gg_shape_eq(&a->shape, &b->shape) && gg_data_eq(a->data, b->data);
}

static uint64_t hash_const(const gg_value *v)
{
	const gg_data *x = v->data;
	uint64_t h = (uint64_t)v->dtype << 8 | x->kind;
	h = gg_hash(v->shape.dim, (size_t)v->shape.rank * sizeof *v->shape.dim, h);
	if (x->kind == GG_DATA_INLINE)
		h = gg_hash(x->bytes, (size_t)x->len, h);
	else if (x->kind == GG_DATA_FILE)
		h = gg_hash(&x->off, sizeof x->off, h);
	return h | 1;
}

static void merge_consts(gg_pass_run *p, gg_graph *g)
{
	gg_map seen = {0};
	for (gg_value *v = g->consts; v; v = v->next_const) {
		if (v->kind != GG_CONST || v->data->len > SMALL || gg_is_output(v) || !v->uses)
			continue;
		uint64_t h = hash_const(v);
		gg_value *same = gg_map_get(&seen, h);
		if (!same)
			gg_map_put(&seen, h, v);
		else if (equal_const(same, v) && gg_apply(p, v->uses->node))
			gg_replace_uses(v, same);
	}
	gg_map_fini(&seen);
}

/* Needs nothing.
 * Breaks nothing: the earlier of two equal nodes stays. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	gg_map seen = {0};
	merge_consts(p, g);
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		uint64_t h = hash_node(n);
		gg_node *same = gg_map_get(&seen, h);
		const char *why = 0;
		if (!same || apart(same))
			gg_map_put(&seen, h, n);
		if (!same || !equal(same, n))
			continue;
		if ((why = apart(n)) || (why = apart(same)))
			gg_refused(p, n, why);
		else
			merge(p, same, n);
	}
	gg_map_fini(&seen);
	return true;
}

const gg_pass gg_pass_cse = {
    .name = "cse",
    .help = "merge nodes that compute the same thing, and equal small constants",
    .explain = "Two nodes of one graph are the same when op, inputs, attributes (bodies: structurally) and "
               "kernel are.\n"
               "Random ops, ops with effects, updates of state and nodes with control edges are left alone, "
               "and so are\n"
               "two nodes whose results are both declared outputs.",
    .pipeline = "common:50",
    .exact = true,
    .run = run,
};
