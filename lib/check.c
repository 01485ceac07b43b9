/* The structural check: everything a pass may take for granted, in one linear walk.
 *
 * A value is marked when it is defined, a node when it was passed; each walk has a mark of its
 * own, so nothing needs to be cleared. */
#include "graph_kernel.h"
#include <string.h>

/* The ops of the nodes that were passed; a small table in front of the map, since they are few. */
typedef struct ops {
	gg_map *map;
	const gg_op *seen[64];
} ops;

typedef struct check {
	gg_diag *d;
	const gg_graph *g;
	uint64_t mark;
	size_t uses, counted; /* slots that read a value of this graph; readers by the values' counts */
	bool linked;          /* each slot is where its neighbours in the list say */
	bool bodies;          /* some node has one, or captures */
	ops *ops;             /* NULL: nobody asks */
} check;

static uint64_t new_mark(void)
{
	static uint64_t last = 1ull << 32; /* away from the small marks that walks use */
	return ++last;
}

static bool check_graph(gg_diag *d, const gg_graph *g, ops *o, int depth);

static bool bad(check *c, const char *fmt, const char *a, const char *b)
{
	return gg_error(c->d, GG_MALFORMED, fmt, a, b);
}

static void count_use(check *c, const gg_use *u)
{
	c->uses++;
	c->linked &= u->prev && *u->prev == u && (!u->next || u->next->prev == &u->next);
}

static bool define(check *c, gg_value *v)
{
	c->counted += (size_t)v->nuses;
	if (v->graph != c->g)
		gg_bug("value '%s' is listed in a graph that it is not of", v->name);
	if (*gg_intern_mark(v->name) == c->mark)
		return bad(c, "two values are named '%s'%s", v->name, "");
	if (!*v->name || strlen(v->name) >= 1 << 16)
		return bad(c, "a value's name is empty or too long%s%s", "", "");
	if (v->shape.rank > GG_MAX_RANK)
		return bad(c, "value '%s' has too many dims%s", v->name, "");
	if ((unsigned)v->dtype >= GG_DTYPES)
		return bad(c, "value '%s' has a dtype that there is not%s", v->name, "");
	v->mark = *gg_intern_mark(v->name) = c->mark;
	return true;
}

static bool check_const(check *c, gg_value *v)
{
	int64_t bytes;
	if (!define(c, v))
		return false;
	if (!v->data)
		return bad(c, "constant '%s' has no data%s", v->name, "");
	if (!v->dtype || !gg_shape_known(&v->shape) || !gg_size_of(v->dtype, &v->shape, &bytes))
		return bad(c, "constant '%s' has no dtype or no size that memory could hold%s", v->name, "");
	int64_t n = gg_shape_count(&v->shape);
	if (v->dtype != GG_STRING && v->data->kind != GG_DATA_FILL &&
	    (uint64_t)v->data->len != gg_packed_bytes(v->dtype, n)) {
		gg_arena a = {0};
		gg_error(c->d, GG_MALFORMED, "tensor '%s' has %lld bytes of data, but %s%s takes %zu",
		         v->name, (long long)v->data->len, gg_dtype_name(v->dtype),
		         gg_shape_str(&a, &v->shape), gg_packed_bytes(v->dtype, n));
		gg_arena_fini(&a);
		return false;
	}
	return true;
}

static bool check_attrs(check *c, const gg_node *n)
{
	for (int i = 0; i < n->nattr; i++) {
		const gg_attr *a = &n->attr[i];
		const gg_attr_spec *s = gg_op_attr(n->op, a->name);
		if (!s)
			return gg_node_error(c->d, GG_UNSUPPORTED, n, "it has no attribute '%s'", a->name);
		if (s->type != a->type)
			return gg_node_error(c->d, GG_MALFORMED, n, "attribute '%s' has the wrong type",
			                     a->name);
		for (int k = 0; k < i; k++)
			if (n->attr[k].name == a->name)
				return gg_node_error(c->d, GG_MALFORMED, n, "attribute '%s' is given twice",
				                     a->name);
		c->bodies |= a->type == GG_ATTR_GRAPH;
		if (a->type == GG_ATTR_GRAPH && a->graph->owner != n)
			gg_bug("body '%s' of node '%s' has another owner", a->name, gg_node_name(n));
	}
	for (const gg_attr_spec *s = n->op->attrs; s && s->name; s++)
		if (s->required && !gg_find_attr(n, s->name))
			return gg_node_error(c->d, GG_MALFORMED, n, "required attribute '%s' is missing",
			                     s->name);
	return true;
}

static bool check_count(check *c, const gg_node *n, const char *what, int have, int min, int max)
{
	if (have >= min && (max < 0 || have <= max))
		return true;
	return gg_node_error(c->d, GG_MALFORMED, n, "it has %d %s%s, %s %d expected", have, what,
	                     have == 1 ? "" : "s", have < min ? "at least" : "at most",
	                     have < min ? min : max);
}

static bool check_inputs(check *c, const gg_node *n)
{
	int nargs = gg_nargs(n);
	if (!check_count(c, n, "input", nargs, n->op->min_in, n->op->max_in))
		return false;
	for (int i = 0; i < n->nin; i++) {
		const gg_value *v = n->in[i].value;
		if (!v) {
			bool optional = i < nargs &&
			                (i >= n->op->min_in || (i < 64 && n->op->optional >> i & 1));
			if (!optional)
				return gg_node_error(c->d, GG_MALFORMED, n, "input %d is missing", i);
			continue;
		}
		count_use(c, &n->in[i]);
		if (v->graph != c->g)
			return gg_node_error(c->d, GG_MALFORMED, n, "input '%s' belongs to another graph",
			                     v->name);
		if (v->mark != c->mark)
			return gg_node_error(c->d, GG_MALFORMED, n, "input '%s' is read before it is made",
			                     v->name);
	}
	return true;
}

static bool check_pure(check *c, const gg_node *n, const gg_graph *b)
{
	if (n->ncap)
		return gg_node_error(c->d, GG_MALFORMED, n, "it has captures, but its body must be closed");
	for (const gg_value *v = b->consts; v; v = v->next_const)
		if (v->kind != GG_CONST)
			return gg_node_error(c->d, GG_MALFORMED, n, "its body has a parameter, '%s'",
			                     v->name);
	for (const gg_node *k = b->first; k; k = k->next) {
		const char *why = gg_gk_bars(k);
		if (why)
			return gg_node_error(c->d, GG_MALFORMED, n, "its body must be pure, but '%s' (%s) %s",
			                     gg_node_name(k), k->op->name, why);
	}
	return true;
}

static bool check_bodies(check *c, const gg_node *n, int depth)
{
	const gg_graph *b;
	int i = 0;
	for (; (b = gg_body(n, i)); i++) {
		if (b->nin < (size_t)n->ncap)
			return gg_node_error(c->d, GG_MALFORMED, n,
			                     "body %d has %zu inputs, but there are %d captures", i, b->nin,
			                     n->ncap);
		if (b->nstate)
			return gg_node_error(c->d, GG_MALFORMED, n,
			                     "body %d has state; only the outermost graph may", i);
		if (!check_graph(c->d, b, c->ops, depth + 1) || (gg_is_gk(n) && !check_pure(c, n, b)))
			return false;
	}
	if (n->ncap && !i)
		return gg_node_error(c->d, GG_MALFORMED, n, "it has captures but no body");
	return true;
}

static bool check_outputs(check *c, const gg_node *n)
{
	if (!check_count(c, n, "output", n->nout, n->op->min_out, n->op->max_out))
		return false;
	for (int i = 0; i < n->nout; i++) {
		gg_value *v = n->out[i];
		if (!v)
			continue;
		if (v->producer != n || v->index != i || v->kind != GG_TEMP)
			gg_bug("output %d of node '%s' does not point back", i, gg_node_name(n));
		if (!define(c, v))
			return false;
	}
	return true;
}

static void note_op(ops *o, const gg_op *op)
{
	const gg_op **seen = &o->seen[(uintptr_t)op / sizeof *op % 64];
	if (*seen != op)
		gg_map_put(o->map, (uint64_t)(uintptr_t)op, (void *)(*seen = op));
}

static bool check_node(check *c, gg_node *n)
{
	if (n->graph != c->g || (n->next && n->next->prev != n))
		gg_bug("node '%s' is linked wrongly", gg_node_name(n));
	for (int i = 0; i < n->nafter; i++)
		if (n->after[i]->graph != c->g || n->after[i]->mark != c->mark)
			return gg_node_error(c->d, GG_MALFORMED, n,
			                     "it must run after '%s', which does not come before it",
			                     gg_node_name(n->after[i]));
	n->mark = c->mark;
	c->bodies |= n->ncap > 0;
	if (c->ops)
		note_op(c->ops, n->op);
	return check_inputs(c, n) && check_attrs(c, n) && check_outputs(c, n);
}

static bool check_results(check *c)
{
	const gg_graph *g = c->g;
	uint64_t seen = new_mark();
	for (size_t i = 0; i < g->nout; i++) {
		gg_value *v = g->out[i]->value;
		count_use(c, g->out[i]);
		if (v->graph != g || (v->mark != c->mark && v->mark != seen))
			return bad(c, "output '%s' is not made in the graph%s", v->name, "");
		if (v->mark == seen && !g->owner)
			return bad(c, "output '%s' is listed twice%s", v->name, "");
		v->mark = seen;
	}
	for (size_t i = 0; i < g->nout; i++)
		g->out[i]->value->mark = c->mark;
	for (size_t i = 0; i < g->nstate; i++) {
		gg_value *p = g->state[i]->param;
		const gg_value *f = g->state[i]->final.value;
		count_use(c, &g->state[i]->final);
		if (p->graph != g || p->kind != GG_PARAM || (p->mark != c->mark && p->mark != seen))
			return bad(c, "state '%s' is not a parameter%s", p->name, "");
		if (p->mark == seen)
			return bad(c, "state '%s' is updated twice%s", p->name, "");
		if (f->graph != g || (f->mark != c->mark && f->mark != seen) ||
		    (f->dtype && f->dtype != p->dtype))
			return bad(c, "state '%s' cannot become '%s'", p->name, f->name);
		p->mark = seen;
	}
	for (size_t i = 0; i < g->nstate; i++)
		g->state[i]->param->mark = c->mark;
	return true;
}

static void check_readers(const gg_value *v)
{
	int n = 0;
	for (const gg_use *u = v->uses; u; u = u->next, n++)
		if (u->value != v || *u->prev != u)
			gg_bug("the readers of '%s' are linked wrongly", v->name);
	if (n != v->nuses)
		gg_bug("value '%s' has %d readers, counts %d", v->name, n, v->nuses);
}

/* The slots hang in lists, and there are as many as the values count: the lists hold nothing else.
 * Where that is not so, each list is walked to say whose. */
static void check_use_lists(check *c)
{
	if (c->linked && c->uses == c->counted)
		return;
	for (size_t i = 0; i < c->g->nin; i++)
		check_readers(c->g->in[i]);
	for (const gg_value *v = c->g->consts; v; v = v->next_const)
		check_readers(v);
	for (const gg_node *k = c->g->first; k; k = k->next)
		for (int i = 0; i < k->nout; i++)
			if (k->out[i])
				check_readers(k->out[i]);
	gg_bug("graph has %zu readers in its lists, %zu in its slots", c->counted, c->uses);
}

static bool check_graph(gg_diag *d, const gg_graph *g, ops *o, int depth)
{
	check c = {.d = d, .g = g, .mark = new_mark(), .linked = true, .ops = o};
	size_t nodes = 0;
	if (depth > 64)
		return bad(&c, "bodies are nested too deep%s%s", "", "");
	for (size_t i = 0; i < g->nin; i++)
		if (!define(&c, g->in[i]))
			return false;
	for (gg_value *v = g->consts; v; v = v->next_const)
		if (!check_const(&c, v))
			return false;
	for (gg_node *n = g->first; n; n = n->next, nodes++)
		if (!check_node(&c, n))
			return false;
	if (nodes != g->nnodes)
		gg_bug("graph counts %zu nodes, has %zu", g->nnodes, nodes);
	if (!check_results(&c))
		return false;
	check_use_lists(&c);
	/* after the graph: bodies mark the names that they share with it */
	for (const gg_node *n = c.bodies ? g->first : 0; n; n = n->next)
		if (!check_bodies(&c, n, depth))
			return false;
	return true;
}

bool gg_check(gg_diag *d, const gg_model *m) { return check_graph(d, m->main, 0, 0); }

bool gg_check_ops(gg_diag *d, const gg_model *m, gg_map *map)
{
	ops o = {.map = map};
	gg_map_fini(map);
	return check_graph(d, m->main, &o, 0);
}
