/* Which values lie channels-last, and the conversions that follow from it.
 *
 * Every node whose row offers both layouts says no (plain) or yes (channels-last) for what it makes.
 * A value that is made in one and read in the other costs a Reorder, once for all its readers; kernels
 * that convert on their way cost as much without one. What the graph declares stays plain. The least cut
 * (cut.h) finds the answers that cost least for the whole graph; equal costs leave plain. Costs are bytes,
 * and the target says how many of them a call is worth. */
#include "layout.h"
#include "cut.h"
#include "graph_kernel.h"
#include <string.h>

enum {
	UNKNOWN = 16,  /* stands for a dim that is not known */
	COUNTED = 1000 /* readers of one value that are looked at to explain one of them */
};

static bool has_layout(const gg_row *r, gg_layout l) { return r && r->layouts >> l & 1; }

bool gg_layout_is_open(const gg_value *v) { return v && v->kind == GG_TEMP && !gg_is_output(v); }

bool gg_layout_matters(const gg_value *v)
{
	if (v->shape.rank < 3 || v->shape.dim[1] == 1)
		return false;
	for (int i = 2; i < v->shape.rank; i++)
		if (v->shape.dim[i] != 1)
			return true;
	return false;
}

/* ---- what kernels want ------------------------------------------------------------------------ */

static bool is_pointwise(const gg_node *n) { return n->op->flags & GG_POINTWISE || gg_is_gk(n); }

/* Input i of a kernel whose values agree takes part in the agreement: it is no broadcast operand
 * and no weight. */
static bool agrees(const gg_node *n, int i)
{
	const gg_value *v = n->in[i].value, *out = n->out[0];
	if (!out || is_pointwise(n))
		return out && gg_shape_eq(&v->shape, &out->shape) && !v->data;
	return v->shape.rank == out->shape.rank;
}

/* Kernels read a convolution's weight as it is saved. */
static bool is_weight(const gg_node *n, int i)
{
	return i == 1 && gg_op_attr(n->op, "group") && strcmp(n->op->name, "ConvWeightGrad");
}

typedef enum wish {
	PLAIN,  /* plain alone */
	AGREES, /* the layout of the outputs */
	LOOSE,  /* a broadcast operand: plain, or any where the output is channels-last */
	ANY     /* as it lies: the kernel converts on its way */
} wish;

/* What a row wants of input i. n NULL: the graph reads it. */
static wish wish_of(const gg_row *r, const gg_node *n, int i)
{
	if (!n || !r || i >= gg_nargs(n) || is_weight(n, i))
		return PLAIN;
	if (r->layouts & GG_MIXED)
		return ANY;
	if (!has_layout(r, GG_NHWC))
		return PLAIN;
	return agrees(n, i) ? AGREES : is_pointwise(n) ? LOOSE : PLAIN;
}

gg_layout gg_node_layout(const gg_node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (gg_layout_is_open(n->out[i]) && gg_layout_matters(n->out[i]))
			return n->out[i]->layout;
	return GG_PLAIN;
}

/* The layout that input i must have for the outputs as they lie now. */
static gg_layout needed(const gg_row *r, const gg_node *n, int i)
{
	const gg_value *v = n->in[i].value;
	gg_layout own = has_layout(r, v->layout) ? v->layout : GG_PLAIN, out = gg_node_layout(n);
	switch (wish_of(r, n, i)) {
	case AGREES:
		return out;
	case LOOSE:
		return out ? own : GG_PLAIN;
	case ANY:
		return own;
	default:
		return GG_PLAIN;
	}
}

/* ---- the choice ------------------------------------------------------------------------------- */

static int64_t bytes_of(const gg_value *v)
{
	int64_t n = (int64_t)gg_dtype_size(v->dtype);
	for (int i = 0; i < v->shape.rank; i++)
		if (__builtin_mul_overflow(n, gg_dim_number(v->shape.dim[i]) ? v->shape.dim[i] : UNKNOWN,
		                           &n) ||
		    n > GG_CUT_NEVER >> 20)
			return GG_CUT_NEVER >> 20; /* a sum of many is still below never */
	return n;
}

static int first_side(gg_cut *c, const gg_node *n, const gg_pick *k, bool nhwc)
{
	bool some = false;
	if (!has_layout(k->row, GG_NHWC) || k->row->layouts & GG_PLAIN_OUT)
		return GG_CUT_NO;
	for (int i = 0; i < n->nout; i++)
		some |= gg_layout_is_open(n->out[i]) && gg_layout_matters(n->out[i]);
	if (!some)
		return GG_CUT_NO;
	if (k->fixed)
		return gg_node_layout(n) == GG_NHWC ? GG_CUT_YES : GG_CUT_NO;
	return nhwc && k->row->layouts & GG_BEST_NHWC ? GG_CUT_YES : gg_cut_node(c);
}

static int64_t cost_of(const gg_layouts *l, const gg_value *v) { return bytes_of(v) + l->t->call; }

static int side(const gg_pick *pick, const gg_node *n) { return n ? pick[n->order].side : GG_CUT_NO; }

/* Costs when `no` says no and `yes` says yes. */
static void arc(gg_cut *c, int no, int yes, int64_t cost)
{
	if (no != yes && no != GG_CUT_YES && yes != GG_CUT_NO && (no || yes != GG_CUT_YES))
		gg_cut_arc(c, no, yes, cost);
}

static void differ(gg_cut *c, int a, int b, int64_t cost)
{
	arc(c, a, b, cost);
	arc(c, b, a, cost);
}

/* Something that n makes lies otherwise than n works. */
static bool makes_what_matters(const gg_node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && gg_layout_matters(n->out[i]))
			return true;
	return false;
}

/* A kernel that converts on its way: to channels-last where it works so, else to how its result lies. */
static void weigh_any(gg_cut *c, int made, const gg_pick *k, const gg_use *u, int64_t cost)
{
	if (k->row->layouts & GG_MOVES)
		return;
	if (k->row->layouts & GG_BEST_NHWC && u - u->node->in < 2)
		arc(c, made, GG_CUT_YES, cost);
	else if (makes_what_matters(u->node))
		differ(c, made, k->side, cost);
}

/* A kernel that goes on with what the one before it made, in one call if both lie alike. */
static bool continues(const gg_use *u)
{
	const gg_node *from = u->value->producer;
	return u->node && from && u->node->op->flags & GG_POINTWISE && from->next == u->node &&
	       u->value->nuses == 1 && (from->op->flags & GG_POINTWISE || gg_op_attr(from->op, "group"));
}

/* A value's conversions: `moved` is yes where somebody reads it channels-last, `old` is no where
 * somebody reads it plain; each costs one Reorder if the maker says otherwise. */
static void weigh(gg_cut *c, const gg_layouts *l, const gg_value *v)
{
	const gg_pick *pick = l->pick;
	int made = side(pick, v->producer), moved = -1, old = -1;
	int64_t cost = cost_of(l, v);
	if (!gg_layout_matters(v))
		return;
	if (made != GG_CUT_NO && !gg_layout_is_open(v)) { /* declared beside others that are not */
		arc(c, GG_CUT_NO, made, cost + 1);
		made = GG_CUT_NO;
	}
	for (const gg_use *u = v->uses; u; u = u->next) {
		const gg_pick *k = u->node ? &pick[u->node->order] : 0;
		wish w = wish_of(k ? k->row : 0, u->node, u->node ? (int)(u - u->node->in) : 0);
		int to = w == PLAIN ? GG_CUT_NO : k->side;
		if (w == ANY) {
			weigh_any(c, made, k, u, cost);
			continue;
		}
		if (w == AGREES && continues(u))
			differ(c, made, to, cost);
		if (to != GG_CUT_NO && w == AGREES && made != GG_CUT_YES) {
			if (moved < 0)
				arc(c, made, moved = gg_cut_node(c), cost + 1);
			arc(c, moved, to, GG_CUT_NEVER);
		}
		if (to != GG_CUT_YES && made != GG_CUT_NO) {
			if (old < 0)
				arc(c, old = gg_cut_node(c), made, cost + 1);
			arc(c, to, old, GG_CUT_NEVER);
		}
	}
	const gg_row *r = v->producer ? pick[v->producer->order].row : 0;
	if (r && r->layouts & GG_BEST_NHWC && !(r->layouts & GG_PLAIN_OUT))
		arc(c, made, GG_CUT_YES, cost);
}

void gg_set_node_layout(const gg_node *n, gg_layout l)
{
	for (int i = 0; i < n->nout; i++)
		if (gg_layout_is_open(n->out[i]))
			n->out[i]->layout = gg_layout_matters(n->out[i]) ? l : GG_PLAIN;
}

int gg_choose_layouts(const gg_layouts *l, bool nhwc)
{
	gg_graph *g = l->g;
	gg_pick *pick = l->pick;
	gg_cut c;
	gg_cut_init(&c);
	int choices = -(int)c.nnode;
	for (gg_node *n = g->first; n; n = n->next)
		pick[n->order].side = first_side(&c, n, &pick[n->order], nhwc);
	choices += (int)c.nnode;
	for (size_t i = 0; i < g->nin; i++)
		weigh(&c, l, g->in[i]);
	for (gg_node *n = g->first; n; n = n->next)
		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				weigh(&c, l, n->out[i]);
	if (choices)
		gg_cut_solve(&c);
	for (gg_node *n = g->first; n; n = n->next) {
		const gg_pick *k = &pick[n->order];
		bool yes = k->side == GG_CUT_YES || (k->side > GG_CUT_YES && gg_cut_yes(&c, k->side));
		if (!k->fixed)
			gg_set_node_layout(n, yes ? GG_NHWC : GG_PLAIN);
	}
	gg_cut_fini(&c);
	return choices;
}

/* ---- what a choice costs ---------------------------------------------------------------------- */

static void convert_once(const gg_layouts *l, gg_layout_cost *sum, const gg_value *v)
{
	sum->bytes += bytes_of(v);
	sum->cost += cost_of(l, v);
}

static void add_cost(const gg_layouts *l, gg_layout_cost *sum, const gg_value *v)
{
	const gg_node *maker = v->producer;
	bool convert = false;
	if (!gg_layout_matters(v))
		return;
	if (maker && !gg_layout_is_open(v))
		convert = v->layout != gg_node_layout(maker);
	for (const gg_use *u = v->uses; u; u = u->next) {
		const gg_row *r = u->node ? l->pick[u->node->order].row : 0;
		int i = u->node ? (int)(u - u->node->in) : 0;
		if (!u->node)
			continue;
		if (wish_of(r, u->node, i) != ANY) {
			bool differs = v->layout != needed(r, u->node, i);
			convert |= differs;
			sum->cost += differs && continues(u) ? cost_of(l, v) : 0;
		} else if (r->layouts & GG_MOVES) {
			continue;
		} else if (r->layouts & GG_BEST_NHWC && i < 2) {
			if (v->layout == GG_PLAIN)
				convert_once(l, sum, v);
		} else if (makes_what_matters(u->node) && v->layout != gg_node_layout(u->node)) {
			convert_once(l, sum, v);
		}
	}
	if (convert) {
		convert_once(l, sum, v);
		sum->cost++;
		sum->reorders++;
	}
	const gg_row *r = maker ? l->pick[maker->order].row : 0;
	if (r && r->layouts & GG_BEST_NHWC && !(r->layouts & GG_PLAIN_OUT) && v->layout == GG_PLAIN)
		convert_once(l, sum, v);
}

gg_layout_cost gg_graph_layout_cost(const gg_layouts *l)
{
	gg_layout_cost sum = {0};
	for (size_t i = 0; i < l->g->nin; i++)
		add_cost(l, &sum, l->g->in[i]);
	for (const gg_node *n = l->g->first; n; n = n->next)
		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				add_cost(l, &sum, n->out[i]);
	return sum;
}

gg_layout_cost gg_node_layout_cost(const gg_layouts *l, const gg_node *n)
{
	gg_layout_cost sum = {0};
	for (int i = 0; i < n->nin; i++) {
		const gg_value *v = n->in[i].value;
		bool seen = !v || v->data || v->nuses > COUNTED;
		for (int k = 0; k < i && !seen; k++)
			seen = n->in[k].value == v;
		if (!seen)
			add_cost(l, &sum, v);
	}
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			add_cost(l, &sum, n->out[i]);
	return sum;
}

/* ---- conversions ---------------------------------------------------------------------------- */
static gg_node *convert(gg_diag *d, gg_node *before, gg_value *v, gg_layout l)
{
	gg_graph *g = v->graph;
	const gg_op *op = gg_op_find("Reorder");
	if (!op)
		gg_bug("op 'Reorder' is missing");
	const char *name = gg_fresh_name(g, v->name);
	gg_node *n = gg_add_node(g, before, op, 1, &v, 1, &name);
	n->out[0]->layout = l;
	return gg_infer_node(d, n) ? n : 0;
}

/* A conversion of v that is there already and stands before n. */
static gg_value *converted(const gg_value *v, gg_layout l, const gg_node *n)
{
	for (const gg_use *u = v->uses; u; u = u->next)
		if (u->node && u->node->mark && u->node->order <= n->order && u->node->out[0]->layout == l)
			return u->node->out[0];
	return 0;
}

static bool convert_input(gg_diag *d, const gg_target *t, gg_node *n, int i)
{
	gg_value *v = n->in[i].value;
	gg_layout l = needed(gg_target_chosen(t, n), n, i);
	if (v->layout == l || (v->layout <= GG_NHWC && l <= GG_NHWC && !gg_layout_matters(v)))
		return true;
	gg_value *c = converted(v, l, n);
	if (!c) {
		gg_node *k = convert(d, n, v, l);
		if (!k)
			return false;
		k->kernel = gg_intern(gg_target_row(t, k)->kernel);
		k->mark = 1;
		k->order = n->order;
		c = k->out[0];
	}
	gg_set_input(n, i, c);
	return true;
}

/* The layout that output i of n must have: where the kernel's values agree, that of all. */
static gg_layout made(const gg_target *t, const gg_node *n, int i)
{
	const gg_row *r = gg_target_chosen(t, n);
	const gg_value *v = n->out[i];
	if (!has_layout(r, v->layout))
		return GG_PLAIN;
	return r->layouts & GG_MIXED || !gg_layout_matters(v) ? v->layout : gg_node_layout(n);
}

/* What a kernel cannot write in the layout its value has: the layout is a choice and given up,
 * unless it is an output's declared one. */
static bool convert_output(gg_diag *d, const gg_target *t, gg_node *n, int i)
{
	gg_value *v = n->out[i];
	gg_layout l = v ? made(t, n, i) : GG_PLAIN;
	if (!v || v->layout == l)
		return true;
	if (!gg_layout_is_open(v) && gg_layout_matters(v)) {
		gg_node *k = convert(d, n->next, v, v->layout);
		if (!k)
			return false;
		k->kernel = gg_intern(gg_target_row(t, k)->kernel);
		gg_replace_value(v, k->out[0]); /* which is in the declared layout */
		gg_set_input(k, 0, v);
	}
	v->layout = l;
	return true;
}

static bool convert_graph(gg_diag *d, const gg_target *t, gg_graph *g)
{
	gg_graph *body;
	gg_graph_number(g);
	for (gg_node *n = g->first; n; n = n->next)
		n->mark = 0;
	for (gg_node *n = g->first; n; n = n->next) {
		for (int i = 0; i < n->nout; i++) /* first: what inputs need hangs on what is left of them */
			if (!convert_output(d, t, n, i))
				return false;
		for (int i = 0; i < n->nin; i++)
			if (n->in[i].value && strcmp(n->op->name, "Reorder") && !convert_input(d, t, n, i))
				return false;
		for (int i = 0; (body = gg_body(n, i)); i++)
			if (!convert_graph(d, t, body))
				return false;
	}
	/* Outputs and states keep the layout declared, and are never chosen: nothing to do. */
	return true;
}

bool gg_insert_formats(gg_diag *d, gg_model *m)
{
	const gg_target *t = gg_target_need(d, m->target ? m->target : "ref");
	return t && convert_graph(d, t, m->main);
}
