/* Attributes, and what compares or copies them: bodies and constant data. */
#include "op.h"
#include <stdlib.h>
#include <string.h>

const gg_attr *gg_find_attr(const gg_node *n, const char *name)
{
	for (int i = 0; i < n->nattr; i++)
		if (n->attr[i].name == name || !strcmp(n->attr[i].name, name))
			return &n->attr[i];
	return 0;
}

static const gg_attr *get(const gg_node *n, const char *name, gg_attr_type type)
{
	const gg_attr_spec *spec = gg_op_attr(n->op, name);
	if (!spec)
		gg_bug("op %s has no attribute '%s'", n->op->name, name);
	if (spec->type != type)
		gg_bug("attribute '%s' of %s is of another type", name, n->op->name);
	const gg_attr *a = gg_find_attr(n, name);
	return a ? a : gg_op_default(n->op, name);
}

int64_t gg_get_int(const gg_node *n, const char *name)
{
	const gg_attr *a = get(n, name, GG_ATTR_INT);
	return a ? a->i : 0;
}

float gg_get_float(const gg_node *n, const char *name)
{
	const gg_attr *a = get(n, name, GG_ATTR_FLOAT);
	return a ? a->f : 0;
}

const char *gg_get_string(const gg_node *n, const char *name)
{
	const gg_attr *a = get(n, name, GG_ATTR_STRING);
	return a ? a->s : 0;
}

gg_dtype gg_get_dtype(const gg_node *n, const char *name)
{
	const gg_attr *a = get(n, name, GG_ATTR_DTYPE);
	return a ? a->dtype : GG_NONE;
}

const gg_attr *gg_get_list(const gg_node *n, const char *name)
{
	const gg_attr_spec *spec = gg_op_attr(n->op, name);
	return get(n, name, spec ? spec->type : GG_ATTR_INTS);
}

gg_graph *gg_find_body(const gg_node *n, int i)
{
	for (int k = 0; k < n->nattr; k++)
		if (n->attr[k].type == GG_ATTR_GRAPH && i-- == 0)
			return n->attr[k].graph;
	return 0;
}

/* ---- setting ---------------------------------------------------------------------------- */
static const void *copy_bytes(gg_arena *a, const void *p, size_t n)
{
	void *q = gg_alloc(a, n);
	return n ? memcpy(q, p, n) : q;
}

static const gg_tensor *copy_tensor(gg_arena *a, const gg_tensor *t)
{
	gg_tensor *c = gg_alloc(a, sizeof *c);
	*c = *t;
	c->data = (void *)copy_bytes(a, t->data, t->data ? gg_nbytes(t) : 0);
	return c;
}

/* The attribute with its contents in the arena. A body is taken as it is, and owned from here. */
static gg_attr copy(gg_arena *a, const gg_attr *from)
{
	gg_attr to = *from;
	size_t n = (size_t)from->n;
	to.name = gg_intern(from->name);
	switch (from->type) {
	case GG_ATTR_STRING:
		to.s = gg_intern(from->s);
		break;
	case GG_ATTR_INTS:
		to.ints = copy_bytes(a, from->ints, n * sizeof *from->ints);
		break;
	case GG_ATTR_FLOATS:
		to.floats = copy_bytes(a, from->floats, n * sizeof *from->floats);
		break;
	case GG_ATTR_STRINGS: {
		const char **s = gg_alloc_n(a, n, sizeof *s);
		for (size_t i = 0; i < n; i++)
			s[i] = gg_intern(from->strings[i]);
		to.strings = s;
		break;
	}
	case GG_ATTR_TENSOR:
		to.tensor = copy_tensor(a, from->tensor);
		break;
	default:
		break;
	}
	return to;
}

/* Attributes stand in schema order, whatever the order they were set in. */
static int place(const gg_node *n, const char *name)
{
	const gg_attr_spec *s = n->op->attrs;
	for (int i = 0; s && s[i].name; i++)
		if (!strcmp(s[i].name, name))
			return i;
	return 1 << 20;
}

void gg_set_attr(gg_node *n, const gg_attr *a)
{
	gg_arena *arena = &n->graph->m->arena;
	gg_attr c = copy(arena, a);
	if (c.type == GG_ATTR_GRAPH)
		c.graph->owner = n;
	gg_attr *old = (gg_attr *)gg_find_attr(n, a->name);
	if (old) {
		*old = c;
		return;
	}
	gg_attr *all = gg_alloc_n(arena, (size_t)n->nattr + 1, sizeof *all);
	int at = 0, where = place(n, c.name);
	while (at < n->nattr && place(n, n->attr[at].name) <= where)
		at++;
	for (int i = 0; i < n->nattr; i++)
		all[i + (i >= at)] = n->attr[i];
	all[at] = c;
	n->attr = all;
	n->nattr++;
}

void gg_del_attr(gg_node *n, const char *name)
{
	gg_attr *a = (gg_attr *)gg_find_attr(n, name);
	if (!a)
		return;
	for (n->nattr--; a < n->attr + n->nattr; a++)
		*a = a[1];
}

/* What an attribute points to never changes, so nodes of one model share it; but for bodies. */
static void share_attrs(gg_node *to, const gg_node *from)
{
	to->nattr = from->nattr;
	to->attr = (gg_attr *)copy_bytes(&to->graph->m->arena, from->attr,
	                                 (size_t)from->nattr * sizeof *from->attr);
	for (int i = 0; i < to->nattr; i++)
		if (to->attr[i].type == GG_ATTR_GRAPH) {
			to->attr[i].graph = gg_clone_body(to->attr[i].graph, to->graph->m);
			to->attr[i].graph->owner = to;
		}
}

void gg_copy_attrs(gg_node *to, const gg_node *from)
{
	if (!to->nattr && from->nattr && to->op == from->op && to->graph->m == from->graph->m) {
		share_attrs(to, from);
		return;
	}
	for (int i = 0; i < from->nattr; i++) {
		gg_attr a = from->attr[i];
		if (a.type == GG_ATTR_GRAPH)
			a.graph = gg_clone_body(a.graph, to->graph->m);
		gg_set_attr(to, &a);
	}
}

void gg_set_attr_int(gg_node *n, const char *name, int64_t i)
{
	gg_set_attr(n, &(gg_attr){.name = name, .type = GG_ATTR_INT, .i = i});
}

void gg_set_attr_float(gg_node *n, const char *name, float f)
{
	gg_set_attr(n, &(gg_attr){.name = name, .type = GG_ATTR_FLOAT, .f = f});
}

void gg_set_attr_string(gg_node *n, const char *name, const char *s)
{
	gg_set_attr(n, &(gg_attr){.name = name, .type = GG_ATTR_STRING, .s = s});
}

void gg_set_attr_ints(gg_node *n, const char *name, int count, const int64_t *v)
{
	gg_set_attr(n, &(gg_attr){.name = name, .type = GG_ATTR_INTS, .n = count, .ints = v});
}

void gg_set_attr_dtype(gg_node *n, const char *name, gg_dtype t)
{
	gg_set_attr(n, &(gg_attr){.name = name, .type = GG_ATTR_DTYPE, .dtype = t});
}

void gg_set_attr_graph(gg_node *n, const char *name, gg_graph *g)
{
	gg_set_attr(n, &(gg_attr){.name = name, .type = GG_ATTR_GRAPH, .graph = g});
}

/* ---- bodies ----------------------------------------------------------------------------- */
static gg_value *mapped(const gg_map *m, const gg_value *v)
{
	return v ? gg_map_get(m, (uint64_t)(uintptr_t)v) : 0;
}

static void copy_value(gg_map *map, gg_value *to, const gg_value *from)
{
	to->dtype = from->dtype;
	to->layout = from->layout;
	to->shape = from->shape;
	to->content = from->content;
	to->extra = from->extra;
	gg_map_put(map, (uint64_t)(uintptr_t)from, to);
}

static gg_data *copy_data(gg_model *m, const gg_data *from)
{
	gg_data *d = gg_alloc(&m->arena, sizeof *d);
	*d = *from;
	d->loaded = 0;
	d->owned = false;
	d->next_loaded = 0;
	return d;
}

static void clone_node(gg_graph *c, gg_map *map, const gg_node *n)
{
	gg_value **in = gg_xcalloc((size_t)n->nin, sizeof *in);
	const char **out = gg_xcalloc((size_t)n->nout, sizeof *out);
	for (int i = 0; i < n->nin; i++)
		in[i] = mapped(map, n->in[i].value);
	for (int i = 0; i < n->nout; i++)
		out[i] = n->out[i] ? n->out[i]->name : 0;
	gg_node *k = gg_add_node(c, 0, n->op, n->nin, in, n->nout, out);
	free(in);
	free(out);
	k->ncap = n->ncap;
	k->kernel = n->kernel;
	k->stream = n->stream;
	k->extra = n->extra;
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			copy_value(map, k->out[i], n->out[i]);
	gg_set_loc(k, n->nloc, n->loc);
	gg_copy_attrs(k, n);
	gg_map_put(map, (uint64_t)(uintptr_t)n, k);
	for (int i = 0; i < n->nafter; i++)
		gg_add_after(k, gg_map_get(map, (uint64_t)(uintptr_t)n->after[i]));
}

gg_graph *gg_clone_body(const gg_graph *g, gg_model *m)
{
	gg_map map = {0};
	gg_graph *c = gg_graph_new(m, g->name);
	c->extra = g->extra;
	c->records = g->records;
	for (size_t i = 0; i < g->nin; i++)
		copy_value(&map, gg_add_input(c, g->in[i]->name, g->in[i]->dtype, &g->in[i]->shape),
		           g->in[i]);
	for (gg_value *v = g->consts; v; v = v->next_const)
		copy_value(&map,
		           gg_add_const(c, v->kind, v->name, v->dtype, &v->shape, copy_data(m, v->data)), v);
	for (gg_node *n = g->first; n; n = n->next)
		clone_node(c, &map, n);
	for (size_t i = 0; i < g->nout; i++)
		gg_add_output(c, mapped(&map, g->out[i]->value));
	gg_map_fini(&map);
	return c;
}

/* ---- equality --------------------------------------------------------------------------- */
bool gg_data_eq(const gg_data *a, const gg_data *b)
{
	if (a == b)
		return true;
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case GG_DATA_INLINE:
		return a->len == b->len && (!a->len || !memcmp(a->bytes, b->bytes, (size_t)a->len));
	case GG_DATA_FILE:
		return a->off == b->off && a->len == b->len && !strcmp(a->file, b->file);
	case GG_DATA_FILL:
		return a->fill == b->fill && a->seed == b->seed && !memcmp(&a->a, &b->a, sizeof a->a) &&
		       !memcmp(&a->b, &b->b, sizeof a->b);
	}
	return false;
}

static bool same_value(const gg_value *a, const gg_value *b)
{
	return a->kind == b->kind && a->dtype == b->dtype && a->layout == b->layout &&
	       gg_shape_eq(&a->shape, &b->shape);
}

static bool pair(gg_map *map, const gg_value *a, const gg_value *b)
{
	if (!a || !b)
		return !a && !b;
	gg_map_put(map, (uint64_t)(uintptr_t)a, (void *)b);
	return same_value(a, b);
}

static bool same_node(gg_map *map, const gg_node *a, const gg_node *b)
{
	bool same = a->op == b->op && a->nin == b->nin && a->ncap == b->ncap && a->nout == b->nout &&
	            a->nattr == b->nattr && !a->nafter && !b->nafter;
	for (int i = 0; same && i < a->nin; i++)
		same = mapped(map, a->in[i].value) == b->in[i].value;
	for (int i = 0; same && i < a->nattr; i++)
		same = gg_attr_eq(&a->attr[i], &b->attr[i]);
	for (int i = 0; same && i < a->nout; i++)
		same = pair(map, a->out[i], b->out[i]);
	return same;
}

/* Equal in order: two bodies that differ in the order of independent nodes are not equal. */
static bool same_graph(const gg_graph *a, const gg_graph *b)
{
	gg_map map = {0};
	bool same = a->nin == b->nin && a->nout == b->nout && a->nnodes == b->nnodes;
	for (size_t i = 0; same && i < a->nin; i++)
		same = pair(&map, a->in[i], b->in[i]);
	const gg_value *u = a->consts, *v = b->consts;
	for (; same && u && v; u = u->next_const, v = v->next_const)
		same = pair(&map, u, v) && gg_data_eq(u->data, v->data);
	same = same && !u && !v;
	const gg_node *m = a->first, *n = b->first;
	for (; same && m && n; m = m->next, n = n->next)
		same = same_node(&map, m, n);
	for (size_t i = 0; same && i < a->nout; i++)
		same = mapped(&map, a->out[i]->value) == b->out[i]->value;
	gg_map_fini(&map);
	return same;
}

static bool same_tensor(const gg_tensor *a, const gg_tensor *b)
{
	return a->dtype == b->dtype && gg_shape_eq(&a->shape, &b->shape) &&
	       (a->data == b->data || !memcmp(a->data, b->data, gg_nbytes(a)));
}

static bool same_bytes(const void *a, const void *b, size_t n) { return !n || !memcmp(a, b, n); }

bool gg_attr_eq(const gg_attr *a, const gg_attr *b)
{
	if (a->type != b->type || strcmp(a->name, b->name) || a->n != b->n)
		return false;
	size_t n = (size_t)a->n;
	switch (a->type) {
	case GG_ATTR_INT:
		return a->i == b->i;
	case GG_ATTR_FLOAT:
		return !memcmp(&a->f, &b->f, sizeof a->f);
	case GG_ATTR_STRING:
		return !strcmp(a->s, b->s);
	case GG_ATTR_INTS:
		return same_bytes(a->ints, b->ints, n * sizeof *a->ints);
	case GG_ATTR_FLOATS:
		return same_bytes(a->floats, b->floats, n * sizeof *a->floats);
	case GG_ATTR_STRINGS:
		for (size_t i = 0; i < n; i++)
			if (strcmp(a->strings[i], b->strings[i]))
				return false;
		return true;
	case GG_ATTR_DTYPE:
		return a->dtype == b->dtype;
	case GG_ATTR_TENSOR:
		return same_tensor(a->tensor, b->tensor);
	case GG_ATTR_GRAPH:
		return same_graph(a->graph, b->graph);
	}
	return false;
}
