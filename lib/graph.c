#include "op.h"
#include <stdlib.h>
#include <string.h>

/* ---- model and graph -------------------------------------------------------------------- */
gg_model *gg_model_new(const char *name)
{
	gg_model *m = gg_xcalloc(1, sizeof *m);
	m->next_id = 1;
	m->name = name ? gg_intern(name) : 0;
	m->stage = "parse";
	m->main = gg_graph_new(m, name);
	return m;
}

void gg_model_free(gg_model *m)
{
	if (!m)
		return;
	for (gg_graph *g = m->graphs; g; g = g->next_graph) {
		gg_map_fini(&g->names);
		gg_map_fini(&g->fresh);
	}
	gg_unload(m);
	gg_arena_fini(&m->arena);
	gg_arena_fini(&m->nodes);
	gg_arena_fini(&m->values);
	free(m);
}

void gg_model_history(gg_model *m, const char *tool, int nopt, const char *const *opt)
{
	m->history = gg_grow_in(&m->arena, m->history, m->nhistory, &m->cap_history, sizeof *m->history);
	gg_step *s = &m->history[m->nhistory++];
	s->n = nopt + 1;
	s->word = gg_alloc_n(&m->arena, (size_t)s->n, sizeof *s->word);
	s->word[0] = gg_intern(tool);
	for (int i = 0; i < nopt; i++)
		s->word[i + 1] = gg_intern(opt[i]);
}

gg_graph *gg_graph_new(gg_model *m, const char *name)
{
	gg_graph *g = gg_alloc(&m->arena, sizeof *g);
	g->m = m;
	g->name = name ? gg_intern(name) : 0;
	g->consts_tail = &g->consts;
	g->next_graph = m->graphs;
	m->graphs = g;
	return g;
}

/* ---- names ------------------------------------------------------------------------------ */
static uint64_t name_key(const char *interned) { return (uint64_t)(uintptr_t)interned; }

/* Of two values with one name the first has the place: the structural check reports the other. */
static void add_name(gg_value *v)
{
	gg_map *names = &v->graph->names;
	if (!gg_map_get(names, name_key(v->name)))
		gg_map_put(names, name_key(v->name), v);
}

/* Most tools never look a value up, so the map is made when somebody does. */
static const gg_map *names_of(gg_graph *g)
{
	if (g->named)
		return &g->names;
	g->named = true;
	for (size_t i = 0; i < g->nin; i++)
		add_name(g->in[i]);
	for (gg_value *v = g->consts; v; v = v->next_const)
		add_name(v);
	for (gg_node *n = g->first; n; n = n->next)
		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				add_name(n->out[i]);
	return &g->names;
}

gg_value *gg_find_interned(gg_graph *g, const char *name) { return gg_map_get(names_of(g), name_key(name)); }

gg_value *gg_find_value(gg_graph *g, const char *name) { return gg_find_interned(g, gg_intern(name)); }

/* Where the name's last ".number" starts, or its end. */
static size_t number_at(const char *name, size_t len)
{
	size_t at = len;
	while (at && name[at - 1] >= '0' && name[at - 1] <= '9')
		at--;
	return at > 1 && at < len && len - at < 9 && name[at - 1] == '.' ? at - 1 : len;
}

/* base.i, of the base's first len bytes */
static const char *numbered(const char *base, size_t len, unsigned i)
{
	char few[256], digit[12], *d = digit + sizeof digit;
	do
		*--d = (char)('0' + i % 10);
	while (i /= 10);
	*--d = '.';
	size_t n = (size_t)(digit + sizeof digit - d);
	char *p = len + n <= sizeof few ? few : gg_xmalloc(len + n);
	memcpy(p, base, len);
	memcpy(p + len, d, n);
	const char *name = gg_intern_n(p, len + n);
	if (p != few)
		free(p);
	return name;
}

enum { TRIES = 16 };

/* A name that ends in two numbers was made here before: it counts on, so that names of names stay short.
 * Where the first few are taken it goes on behind the last one given, not to try them all each time. */
const char *gg_fresh_interned(gg_graph *g, const char *base)
{
	const char *name = base;
	uint64_t key = name_key(name);
	size_t len = strlen(base), stem = number_at(base, len);
	bool twice = stem < len && number_at(base, stem) < stem;
	unsigned first = twice ? (unsigned)strtoul(base + stem + 1, 0, 10) + 1 : 1;
	for (unsigned i = first, tries = 1; gg_find_interned(g, name); i++, tries++) {
		unsigned next = tries == TRIES ? (unsigned)(uintptr_t)gg_map_get(&g->fresh, key) : 0;
		i = next > i ? next : i;
		if (tries >= TRIES)
			gg_map_put(&g->fresh, key, (void *)(uintptr_t)(i + 1));
		name = numbered(base, twice ? stem : len, i);
	}
	return name;
}

const char *gg_fresh_name(gg_graph *g, const char *base) { return gg_fresh_interned(g, gg_intern(base)); }

void gg_drop_names(gg_graph *g)
{
	gg_map_fini(&g->names);
	g->named = false;
}

static void forget_name(gg_value *v)
{
	gg_map *names = &v->graph->names;
	if (v->graph->named && gg_map_get(names, name_key(v->name)) == v)
		gg_map_put(names, name_key(v->name), 0);
}

void gg_rename(gg_value *v, const char *name)
{
	forget_name(v);
	v->name = gg_intern(name);
	if (v->graph->named)
		gg_map_put(&v->graph->names, name_key(v->name), v);
}

void gg_swap_names(gg_value *a, gg_value *b)
{
	const char *name = a->name;
	a->name = b->name;
	b->name = name;
	if (!a->graph->named)
		return;
	gg_map_put(&a->graph->names, name_key(a->name), a);
	gg_map_put(&b->graph->names, name_key(b->name), b);
}

static gg_value *new_value(gg_graph *g, gg_kind kind, const char *interned)
{
	gg_value *v = gg_alloc(&g->m->values, sizeof *v);
	v->id = g->m->next_id++;
	v->kind = (uint8_t)kind;
	v->name = interned;
	v->graph = g;
	v->shape.rank = -1;
	v->mem_off = v->mem_len = -1;
	if (g->named)
		add_name(v);
	return v;
}

/* ---- uses ------------------------------------------------------------------------------- */
static void link_use(gg_use *u, gg_value *v)
{
	u->value = v;
	if (!v)
		return;
	u->next = v->uses;
	u->prev = &v->uses;
	if (u->next)
		u->next->prev = &u->next;
	v->uses = u;
	v->nuses++;
	v->ndeclared += !u->node;
}

static void unlink_use(gg_use *u)
{
	if (!u->value)
		return;
	*u->prev = u->next;
	if (u->next)
		u->next->prev = u->prev;
	u->value->nuses--;
	u->value->ndeclared -= !u->node;
	u->value = 0;
}

static void set_use(gg_use *u, gg_value *v)
{
	unlink_use(u);
	link_use(u, v);
}

/* After the array of uses moved in memory. */
static void relink_uses(gg_use *u, int n)
{
	for (int i = 0; i < n; i++) {
		if (!u[i].value)
			continue;
		*u[i].prev = &u[i];
		if (u[i].next)
			u[i].next->prev = &u[i].next;
	}
}

bool gg_is_output(const gg_value *v) { return v->ndeclared > 0; }

bool gg_one_use(const gg_value *v) { return v->nuses == 1 && v->uses->node; }

void gg_replace_uses(gg_value *from, gg_value *to)
{
	if (from == to)
		return;
	while (from->uses)
		set_use(from->uses, to);
}

static bool is_declared(const gg_value *v) { return !v->graph->owner && gg_is_output(v); }

bool gg_can_replace(const gg_value *from, const gg_value *to)
{
	return !is_declared(from) || (to->kind == GG_TEMP && !gg_is_output(to));
}

void gg_replace_value(gg_value *from, gg_value *to)
{
	bool declared = is_declared(from);
	if (to->kind == GG_TEMP && gg_is_output(from))
		to->layout = from->layout; /* a layout that was chosen; an output's is declared */
	gg_replace_uses(from, to);
	if (!declared || to->kind != GG_TEMP)
		return;
	const char *name = from->name;
	gg_rename(from, gg_fresh_name(from->graph, name));
	gg_rename(to, name);
}

/* ---- the memory plan ------------------------------------------------------------------------ */
static void unplan(gg_value *v)
{
	v->mem_off = v->mem_len = -1;
	v->alias = NULL;
}

void gg_drop_plan(gg_model *m)
{
	gg_extra **at = &m->blobs;
	for (gg_graph *g = m->graphs; g; g = g->next_graph) {
		for (size_t i = 0; i < g->nin; i++)
			unplan(g->in[i]);
		for (gg_value *v = g->consts; v; v = v->next_const)
			unplan(v);
		for (gg_node *n = g->first; n; n = n->next)
			for (int i = 0; i < n->nout; i++)
				if (n->out[i])
					unplan(n->out[i]);
	}
	while (*at)
		if (!strcmp((*at)->key, "plan") || !strcmp((*at)->key, "blob"))
			*at = (*at)->next;
		else
			at = &(*at)->next;
}

/* ---- inputs, constants, outputs, state ---------------------------------------------------- */
gg_value *gg_add_input(gg_graph *g, const char *name, gg_dtype t, const gg_shape *s)
{
	gg_value *v = new_value(g, GG_INPUT, gg_intern(name));
	v->dtype = (uint8_t)t;
	v->shape = *s;
	v->index = (int)g->nin;
	g->in = gg_grow_in(&g->m->arena, g->in, g->nin, &g->cap_in, sizeof *g->in);
	g->in[g->nin++] = v;
	return v;
}

gg_value *gg_add_const(gg_graph *g, gg_kind k, const char *name, gg_dtype t, const gg_shape *s, gg_data *data)
{
	gg_value *v = new_value(g, k, gg_intern(name));
	v->dtype = (uint8_t)t;
	v->shape = *s;
	v->data = data;
	*g->consts_tail = v;
	g->consts_tail = &v->next_const;
	return v;
}

gg_value *gg_add_tensor(gg_graph *g, const char *base, const gg_tensor *t)
{
	int64_t n = gg_count(t), len = (int64_t)gg_packed_bytes(t->dtype, n);
	gg_data *data = gg_data_inline(g->m, t->data, len);
	if (gg_dtype_bits(t->dtype) == 4) {
		unsigned char *packed = gg_alloc(&g->m->arena, (size_t)len);
		const unsigned char *one = t->data;
		for (int64_t i = 0; i < n; i++)
			packed[i / 2] |= (unsigned char)((one[i] & 15) << (i % 2 * 4));
		data->bytes = packed;
	}
	return gg_add_const(g, GG_CONST, gg_fresh_name(g, base), t->dtype, &t->shape, data);
}

void gg_add_output(gg_graph *g, gg_value *v)
{
	g->out = gg_grow_in(&g->m->arena, g->out, g->nout, &g->cap_out, sizeof *g->out);
	gg_use *u = gg_alloc(&g->m->arena, sizeof *u);
	link_use(u, v);
	g->out[g->nout++] = u;
}

void gg_add_state(gg_graph *g, gg_value *param, gg_value *final)
{
	g->state = gg_grow_in(&g->m->arena, g->state, g->nstate, &g->cap_state, sizeof *g->state);
	gg_state *s = gg_alloc(&g->m->arena, sizeof *s);
	s->param = param;
	param->updated = true;
	link_use(&s->final, final);
	g->state[g->nstate++] = s;
}

void gg_clear_results(gg_graph *g)
{
	for (size_t i = 0; i < g->nout; i++)
		unlink_use(g->out[i]);
	for (size_t i = 0; i < g->nstate; i++) {
		unlink_use(&g->state[i]->final);
		g->state[i]->param->updated = false;
	}
	g->nout = g->nstate = 0;
}

void gg_remove_const(gg_value *v)
{
	if (v->uses)
		gg_bug("constant '%s' is removed but has readers", v->name);
	gg_graph *g = v->graph;
	gg_value **at = &g->consts;
	while (*at && *at != v)
		at = &(*at)->next_const;
	if (!*at)
		gg_bug("constant '%s' is not in its graph", v->name);
	*at = v->next_const;
	if (!*at)
		g->consts_tail = at;
	forget_name(v);
}

size_t gg_sweep_consts(gg_graph *g, size_t most)
{
	size_t removed = 0;
	gg_value **at = &g->consts;
	while (*at) {
		gg_value *v = *at;
		if (v->uses || v->updated || removed == most) {
			at = &v->next_const;
			continue;
		}
		*at = v->next_const;
		forget_name(v);
		removed++;
	}
	g->consts_tail = at;
	return removed;
}

void gg_remove_input(gg_graph *g, size_t i)
{
	gg_value *v = g->in[i];
	if (v->uses)
		gg_bug("input '%s' is removed but has readers", v->name);
	forget_name(v);
	for (g->nin--; i < g->nin; i++) {
		g->in[i] = g->in[i + 1];
		g->in[i]->index = (int)i;
	}
}

/* ---- nodes ------------------------------------------------------------------------------ */
static void insert(gg_graph *g, gg_node *n, gg_node *before)
{
	n->next = before;
	n->prev = before ? before->prev : g->last;
	*(n->prev ? &n->prev->next : &g->first) = n;
	*(before ? &before->prev : &g->last) = n;
}

static void detach(gg_node *n)
{
	gg_graph *g = n->graph;
	*(n->prev ? &n->prev->next : &g->first) = n->next;
	*(n->next ? &n->next->prev : &g->last) = n->prev;
}

gg_node *gg_add_named(gg_graph *g, gg_node *before, const gg_op *op, int nin, gg_value *const *in, int nout,
                      const char *const *out)
{
	gg_arena *a = &g->m->arena;
	gg_node *n = gg_alloc(&g->m->nodes, sizeof *n);
	n->op = op;
	n->graph = g;
	n->nin = nin;
	n->cap_in = (size_t)nin;
	n->in = gg_alloc_n(a, (size_t)nin, sizeof *n->in);
	for (int i = 0; i < nin; i++) {
		n->in[i].node = n;
		link_use(&n->in[i], in[i]);
	}
	n->nout = nout;
	n->out = gg_alloc_n(a, (size_t)nout, sizeof(gg_value *));
	for (int i = 0; i < nout; i++) {
		if (!out[i])
			continue;
		n->out[i] = new_value(g, GG_TEMP, out[i]);
		n->out[i]->producer = n;
		n->out[i]->index = i;
	}
	n->id = g->m->next_id++;
	insert(g, n, before);
	g->nnodes++;
	return n;
}

gg_node *gg_add_node(gg_graph *g, gg_node *before, const gg_op *op, int nin, gg_value *const *in, int nout,
                     const char *const *out)
{
	const char *few[16], **name = nout <= 16 ? few : gg_alloc_n(&g->m->arena, (size_t)nout, sizeof *name);
	for (int i = 0; i < nout; i++)
		name[i] = out[i] ? gg_intern(out[i]) : 0;
	return gg_add_named(g, before, op, nin, in, nout, name);
}

gg_value *gg_add_result(gg_node *n, const char *name)
{
	gg_value *v = new_value(n->graph, GG_TEMP, gg_intern(name));
	gg_value **out = gg_alloc_n(&n->graph->m->arena, (size_t)n->nout + 1, sizeof *out);
	for (int i = 0; i < n->nout; i++)
		out[i] = n->out[i];
	v->producer = n;
	v->index = n->nout;
	out[n->nout++] = v;
	n->out = out;
	return v;
}

/* Who waited for n waits for what n waited for. They come behind it, most of them soon, and before it only
 * where the graph is out of order. */
static void hand_on_after(gg_node *n)
{
	gg_node *f = n;
	while (n->nfollow && (f = f->next ? f->next : n->graph->first) != n)
		for (int i = 0; i < f->nafter; i++) {
			if (f->after[i] != n)
				continue;
			f->after[i] = f->after[--f->nafter];
			n->nfollow--;
			for (int k = 0; k < n->nafter; k++)
				gg_add_after(f, n->after[k]);
			break;
		}
}

void gg_remove_node(gg_node *n)
{
	for (int i = 0; i < n->nout; i++) {
		if (!n->out[i])
			continue;
		if (n->out[i]->uses)
			gg_bug("node '%s' is removed but its output '%s' has readers", gg_node_name(n),
			       n->out[i]->name);
		forget_name(n->out[i]);
	}
	hand_on_after(n);
	for (int i = 0; i < n->nafter; i++)
		n->after[i]->nfollow--;
	for (int i = 0; i < n->nin; i++)
		unlink_use(&n->in[i]);
	detach(n);
	n->graph->nnodes--;
}

void gg_move_before(gg_node *n, gg_node *before)
{
	if (n == before || n->next == before)
		return;
	detach(n);
	insert(n->graph, n, before);
}

/* Captures come one by one, and may be many. */
static void add_inputs(gg_node *n, int nin)
{
	while (n->nin < nin) {
		gg_use *in = gg_grow_in(&n->graph->m->arena, n->in, (size_t)n->nin, &n->cap_in, sizeof *in);
		if (in != n->in)
			relink_uses(in, n->nin);
		n->in = in;
		n->in[n->nin++] = (gg_use){.node = n};
	}
}

void gg_set_input(gg_node *n, int i, gg_value *v)
{
	if (i >= n->nin) {
		if (n->ncap)
			gg_bug("an argument added to node '%s' would come after its captures",
			       gg_node_name(n));
		add_inputs(n, i + 1);
	}
	set_use(&n->in[i], v);
}

int gg_add_capture(gg_node *n, gg_value *v)
{
	add_inputs(n, n->nin + 1);
	n->ncap++;
	link_use(&n->in[n->nin - 1], v);
	gg_graph *b;
	for (int i = 0; (b = gg_body(n, i)); i++) {
		gg_value *in = gg_add_input(b, gg_fresh_name(b, v->name), v->dtype, &v->shape);
		in->content = v->content;
	}
	return n->nin - 1;
}

bool gg_capture_is_read(const gg_node *n, int i)
{
	gg_graph *b;
	for (int k = 0; (b = gg_body(n, k)); k++)
		if (b->in[(int)b->nin - n->nin + i]->uses)
			return true;
	return false;
}

void gg_remove_input_slot(gg_node *n, int i)
{
	int from_end = n->nin - i;
	if (from_end <= n->ncap) {
		gg_graph *b;
		for (int k = 0; (b = gg_body(n, k)); k++)
			gg_remove_input(b, b->nin - (size_t)from_end);
		n->ncap--;
	}
	for (; i + 1 < n->nin; i++)
		set_use(&n->in[i], n->in[i + 1].value);
	unlink_use(&n->in[i]);
	n->nin--;
}

void gg_add_after(gg_node *n, gg_node *pred)
{
	for (int i = 0; pred->nfollow && i < n->nafter; i++)
		if (n->after[i] == pred)
			return;
	if (!(n->nafter & (n->nafter - 1))) { /* room for the next power of two */
		size_t room = n->nafter ? 2 * (size_t)n->nafter : 1;
		gg_node **after = gg_alloc_n(&n->graph->m->arena, room, sizeof *after);
		if (n->nafter)
			memcpy(after, n->after, (size_t)n->nafter * sizeof *after);
		n->after = after;
	}
	n->after[n->nafter++] = pred;
	pred->nfollow++;
}

const char *gg_node_name(const gg_node *n)
{
	if (n->nloc > 1)
		return n->loc[1];
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			return n->out[i]->name;
	return "?";
}

void gg_set_loc(gg_node *n, int nloc, const char *const *loc)
{
	n->loc = gg_alloc_n(&n->graph->m->arena, (size_t)nloc, sizeof *n->loc);
	n->nloc = nloc;
	for (int i = 0; i < nloc; i++)
		n->loc[i] = gg_intern(loc[i]);
}

void gg_merge_loc(gg_node *into, const gg_node *from)
{
	if (!from->nloc)
		return;
	const char **loc = gg_alloc_n(&into->graph->m->arena, (size_t)(into->nloc + from->nloc), sizeof *loc);
	int n = 0;
	for (int i = 0; i < into->nloc; i++)
		loc[n++] = into->loc[i];
	if (!n)
		loc[n++] = from->loc[0];
	for (int i = 1; i < from->nloc; i++) {
		int k = 1;
		while (k < n && loc[k] != from->loc[i])
			k++;
		if (k == n)
			loc[n++] = from->loc[i];
	}
	into->loc = loc;
	into->nloc = n;
}

/* ---- order ------------------------------------------------------------------------------ */
void gg_graph_number(gg_graph *g)
{
	uint32_t k = 1;
	for (gg_node *n = g->first; n; n = n->next)
		n->order = k++;
}

static gg_node *predecessor(const gg_node *n, int i)
{
	if (i < n->nin)
		return n->in[i].value ? n->in[i].value->producer : 0;
	return n->after[i - n->nin];
}

static bool report_cycle(gg_diag *d, gg_node **stack, size_t top, const gg_node *back)
{
	size_t from = 0;
	while (stack[from] != back)
		from++;
	gg_buf b = {0};
	for (size_t i = from; i < top && i < from + 8; i++)
		gg_buf_printf(&b, "%s'%s' (%s)", i > from ? ", " : "", gg_node_name(stack[i]),
		              stack[i]->op->name);
	gg_error(d, GG_MALFORMED, "nodes form a cycle: %s%s", b.p, top - from > 8 ? ", ..." : "");
	gg_buf_fini(&b);
	return false;
}

void gg_clear_marks(gg_graph *g)
{
	for (size_t i = 0; i < g->nin; i++)
		g->in[i]->mark = 0;
	for (gg_value *v = g->consts; v; v = v->next_const)
		v->mark = 0;
	for (gg_node *n = g->first; n; n = n->next)
		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				n->out[i]->mark = 0;
}

/* In order already: all predecessors of a node were marked when it comes. */
static bool is_sorted(gg_graph *g)
{
	for (gg_node *n = g->first; n; n = n->next)
		n->mark = 0;
	for (gg_node *n = g->first; n; n = n->next) {
		for (int i = 0; i < n->nin + n->nafter; i++) {
			const gg_node *p = predecessor(n, i);
			if (p && p->graph == g && !p->mark)
				return false;
		}
		n->mark = 1;
	}
	return true;
}

/* Depth first from each node in the present order: a node follows its predecessors, and what was
 * in order stays in order. mark: 0 not seen, else 1 + the next predecessor to look at; done: ~0. */
bool gg_graph_sort(gg_diag *d, gg_graph *g)
{
	if (is_sorted(g))
		return true;
	gg_node **stack = gg_xcalloc(g->nnodes + 1, sizeof *stack);
	gg_node **order = gg_xcalloc(g->nnodes + 1, sizeof *order);
	size_t top = 0, done = 0;
	bool good = true;
	for (gg_node *n = g->first; n; n = n->next)
		n->mark = 0;
	for (gg_node *root = g->first; root && good; root = root->next) {
		if (root->mark)
			continue;
		root->mark = 1;
		stack[top++] = root;
		while (top && good) {
			gg_node *n = stack[top - 1], *p;
			int i = (int)(n->mark++ - 1);
			if (i == n->nin + n->nafter) {
				n->mark = ~0ull;
				order[done++] = n;
				top--;
			} else if ((p = predecessor(n, i)) && p->mark != ~0ull && p->graph == g) {
				if (p->mark) {
					good = report_cycle(d, stack, top, p);
				} else {
					p->mark = 1;
					stack[top++] = p;
				}
			}
		}
	}
	if (good) {
		for (size_t i = 0; i < done; i++) {
			order[i]->prev = i ? order[i - 1] : 0;
			order[i]->next = i + 1 < done ? order[i + 1] : 0;
		}
		g->first = done ? order[0] : 0;
		g->last = done ? order[done - 1] : 0;
	}
	free(stack);
	free(order);
	return good;
}

/* ---- dims in all shapes ------------------------------------------------------------------- */
static void bind_value(gg_value *v, const gg_binding *b, size_t n)
{
	for (int i = 0; i < v->shape.rank; i++)
		v->shape.dim[i] = gg_dim_bind(v->shape.dim[i], b, n);
	if (!v->content)
		return;
	int64_t count = gg_shape_count(&v->shape);
	gg_dim *c = gg_alloc_n(&v->graph->m->arena, (size_t)count, sizeof *c);
	for (int64_t i = 0; i < count; i++)
		c[i] = gg_dim_bind(v->content[i], b, n);
	v->content = c;
}

static void bind_graph(gg_graph *g, const gg_binding *b, size_t n)
{
	gg_graph *body;
	for (size_t i = 0; i < g->nin; i++)
		bind_value(g->in[i], b, n);
	for (gg_node *at = g->first; at; at = at->next) {
		for (int i = 0; i < at->nout; i++)
			if (at->out[i])
				bind_value(at->out[i], b, n);
		for (int i = 0; (body = gg_body(at, i)); i++)
			bind_graph(body, b, n);
	}
}

void gg_bind(gg_model *m, const gg_binding *b, size_t n)
{
	if (n)
		bind_graph(m->main, b, n);
}

static const char *const layout_names[GG_LAYOUTS] = {"plain", "nhwc", "nChw8c", "nChw16c"};

const char *gg_layout_name(gg_layout l) { return layout_names[l]; }

gg_layout gg_layout_find(const char *name)
{
	gg_layout l = 0;
	while (l < GG_LAYOUTS && strcmp(layout_names[l], name))
		l++;
	return l;
}
