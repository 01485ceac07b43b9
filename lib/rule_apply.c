/* Applying a match: the guards that hold for every rule, the replacement, and the walk over the graph.
 *
 * In the order of a match: what `where` asks, what the pattern's nodes leave behind (readers, effects,
 * attributes), the replacement built next to them, its types, and only then the change itself. What is
 * refused leaves nothing behind. node->mark holds the match that wants to remove the node (low half) and
 * how many rewrites that did not shrink the graph led to it (high half); node->order its place. */
#include "rule_in.h"
#include "target.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 1 << 14, LIVES = 100000, ROOTS = 64 };

typedef struct kept_const {
	const int64_t *list; /* a list of the rule, or NULL: a scalar */
	double x;
	gg_dtype t;
	gg_value *v;
} kept_const;

typedef struct engine {
	const gg_rule_host *h;
	gg_graph *g;
	rule *r;
	uint32_t stamp; /* of the match at hand */
	gg_node *dead[RULE_NODES];
	int ndead;
	gg_node *root;  /* of the match at hand: the first root */
	gg_node *last;  /* the last of dead[] in the graph's order: the replacement goes before it */
	gg_node **late; /* readers that stand before it, which must follow it */
	size_t nlate, cap_late;
	kept_const *consts; /* made for replacements: one of each */
	size_t nconst, cap_const;
	uint32_t lives;
	bool stop, failed;
	gg_node *resume; /* where the walk goes on */
	struct root {
		const gg_op *op;
		rule *first;
	} root_of[ROOTS]; /* looked up last */
} engine;

const char *rule_say(const char *fmt, ...)
{
	gg_buf b = {0};
	va_list ap;
	va_start(ap, fmt);
	gg_buf_vprintf(&b, fmt, ap);
	va_end(ap);
	const char *s = gg_intern(b.p);
	gg_buf_fini(&b);
	return s;
}

/* ---- what the pattern's nodes leave behind ------------------------------------------------------- */
static bool is_dead(const engine *e, const gg_node *n) { return (uint32_t)n->mark == e->stamp; }
static bool dead_node(const gg_node *n, const void *e) { return is_dead(e, n); }
static uint32_t lives_of(const gg_node *n) { return (uint32_t)(n->mark >> 32); }
static void set_mark(gg_node *n, uint32_t lives, uint32_t stamp) { n->mark = (uint64_t)lives << 32 | stamp; }

static bool is_kept(const match *m, const gg_node *n)
{
	for (int i = 0; i < m->r->nleft; i++)
		if (m->node[i] == n && m->r->node[i]->keep)
			return true;
	return false;
}

/* Inner nodes first: the order in which locations are merged. */
static const char *collect(engine *e, const match *m)
{
	e->ndead = 0;
	e->stamp++;
	for (int i = m->r->nleft; i-- > 0;) {
		gg_node *n = m->node[i];
		if (!n || is_dead(e, n) || is_kept(m, n))
			continue;
		set_mark(n, lives_of(n), e->stamp);
		e->dead[e->ndead++] = n;
	}
	for (int i = 0; i < m->r->nmap; i++)
		if (!is_dead(e, m->node[m->r->map[i].node]))
			return "a node that is replaced is also one that is kept";
	return 0;
}

static bool is_mapped(const match *m, const gg_value *v)
{
	for (int i = 0; i < m->r->nmap; i++)
		if (m->node[m->r->map[i].node] == v->producer && m->r->map[i].out == v->index)
			return true;
	return false;
}

/* Has a reader that is not among the dead. */
static const gg_use *outside(const engine *e, const gg_value *v)
{
	for (const gg_use *u = v->uses; u; u = u->next)
		if (!u->node || !is_dead(e, u->node))
			return u;
	return 0;
}

static const char *escapes(const engine *e, const match *m)
{
	for (int i = 0; i < e->ndead; i++) {
		for (int k = 0; k < e->dead[i]->nout; k++) {
			const gg_value *v = e->dead[i]->out[k];
			const gg_use *u = v && !is_mapped(m, v) ? outside(e, v) : 0;
			if (u)
				return rule_say("output %d of its %s %s", k, e->dead[i]->op->name,
				                gg_is_output(v) ? "is an output or state of the graph"
				                                : "has a second reader");
		}
	}
	return 0;
}

static const gg_value *used_value(const match *m, const pat *p)
{
	if (p->kind == PAT_VAR)
		return m->value[p->slot];
	return p->kind == PAT_REF && p->slot < m->r->nleft ? gg_out(m->node[p->slot], p->out) : 0;
}

typedef bool node_test(const gg_node *n, const void *arg);

/* Whether the replacement reads, or results in, a value of a node that passes the test. */
static bool reads_any(const match *m, node_test *test, const void *arg)
{
	const gg_value *v;
	for (int i = m->r->nleft; i < m->r->nnode; i++) {
		const pat *p = m->r->node[i];
		for (int k = 0; k < p->narg; k++) {
			if ((v = used_value(m, p->arg[k])) && v->producer && test(v->producer, arg))
				return true;
			const rule_tail *t = p->arg[k]->kind == PAT_TAIL ? &m->tail[p->arg[k]->slot] : 0;
			for (int j = 0; t && j < t->n; j++)
				if ((v = t->in[j].value) && v->producer && test(v->producer, arg))
					return true;
		}
	}
	for (int i = 0; i < m->r->nmap; i++)
		if ((v = used_value(m, m->r->map[i].to)) && v->producer && test(v->producer, arg))
			return true;
	return false;
}

static bool same_node(const gg_node *n, const void *other) { return n == other; }

static bool is_default(const gg_node *n, const gg_attr *a)
{
	const gg_attr *d = gg_op_default(n->op, a->name);
	return d && gg_attr_eq(d, a);
}

static bool is_said(const pat *p, const char *name)
{
	for (int i = 0; i < p->nattr; i++)
		if (!strcmp(p->attr[i].name, name))
			return true;
	for (int i = 0; i < p->nsaid; i++)
		if (!strcmp(p->said[i], name))
			return true;
	return p->all;
}

/* An attribute that is set and that the rule does not speak of would be lost, unless the replacement
 * reads the node that has it. */
static const char *loses_attribute(const match *m)
{
	for (int i = 0; i < m->r->nleft; i++) {
		const pat *p = m->r->node[i];
		const gg_node *n = m->node[i];
		bool read = p->keep && reads_any(m, same_node, n);
		for (int k = 0; !read && k < n->nattr; k++)
			if (!is_said(p, n->attr[k].name) && !is_default(n, &n->attr[k]))
				return rule_say("attribute '%s' of its %s would be lost", n->attr[k].name,
				                n->op->name);
	}
	return 0;
}

static const char *loses_effect(const engine *e, const match *m)
{
	int random = 0, effect = 0;
	for (int i = 0; i < e->ndead; i++) {
		const gg_node *n = e->dead[i];
		uint32_t flags = gg_node_flags(n);
		if (n->ncap || gg_body(n, 0))
			return rule_say("its %s has a body", n->op->name);
		random += (flags & GG_RANDOM) != 0;
		effect += (flags & GG_EFFECT) != 0;
	}
	for (int i = m->r->nleft; i < m->r->nnode; i++) {
		random -= (m->r->node[i]->op->flags & GG_RANDOM) != 0;
		effect -= (m->r->node[i]->op->flags & GG_EFFECT) != 0;
	}
	return random   ? "a node that draws random numbers would be dropped or repeated"
	       : effect ? "a node with an effect would be dropped or repeated"
	                : 0;
}

/* What the replacement reads must outlive the pattern. */
static const char *reads_dead(const engine *e, const match *m)
{
	return reads_any(m, dead_node, e) ? "a value that the replacement reads would be removed" : 0;
}

/* ---- order ------------------------------------------------------------------------------------- */
/* Nodes put in one place share its number: there, who stands first is looked up. */
static bool precedes(const gg_node *a, const gg_node *b)
{
	if (a->order != b->order)
		return a->order < b->order;
	for (; a && a->order == b->order; a = a->next)
		if (a == b)
			return true;
	return false;
}

static bool is_late(const gg_node *n, const void *late)
{
	return n && gg_map_get(late, (uint64_t)(uintptr_t)n);
}

static bool follows_late(const gg_node *n, const gg_map *late)
{
	for (int i = 0; i < n->nin; i++)
		if (n->in[i].value && is_late(n->in[i].value->producer, late))
			return true;
	for (int i = 0; i < n->nafter; i++)
		if (is_late(n->after[i], late))
			return true;
	return false;
}

static bool follows_dead(const engine *e, const gg_node *n)
{
	for (int i = 0; i < n->nin; i++)
		if (n->in[i].value && n->in[i].value->producer && is_dead(e, n->in[i].value->producer))
			return true;
	for (int i = 0; i < n->nafter; i++)
		if (is_dead(e, n->after[i]))
			return true;
	return false;
}

static const char *walk_window(engine *e, const match *m, gg_node *from, gg_map *late)
{
	static const char *const cycle = "it would make a cycle";
	int seen = 0;
	for (gg_node *n = from; n != e->last; n = n->next) {
		bool after_late = follows_late(n, late);
		if (++seen > WINDOW)
			return "its nodes stand too far apart";
		if (is_dead(e, n) && after_late)
			return cycle;
		if (is_dead(e, n) || !(after_late || follows_dead(e, n)))
			continue;
		if (gg_node_flags(n) & GG_EFFECT)
			return "an effect stands between its nodes";
		GG_PUSH(e->late, e->nlate, e->cap_late, n);
		gg_map_put(late, (uint64_t)(uintptr_t)n, n);
	}
	return follows_late(e->last, late) || reads_any(m, is_late, late) ? cycle : 0;
}

/* The replacement goes before the last of the dead, where all that they read is made. Readers of their
 * results that stand before it have to follow; when the pattern reads what those make, it is a cycle. */
static const char *find_place(engine *e, const match *m)
{
	gg_node *from = e->dead[0];
	gg_map late = {0};
	e->last = e->dead[0];
	e->nlate = 0;
	for (int i = 1; i < e->ndead; i++) {
		e->last = precedes(e->last, e->dead[i]) ? e->dead[i] : e->last;
		from = precedes(e->dead[i], from) ? e->dead[i] : from;
	}
	bool early = false;
	for (int i = 0; i < e->ndead; i++) {
		early |= e->dead[i] != e->last && e->dead[i]->nfollow;
		for (int k = 0; k < e->dead[i]->nout; k++)
			early |= e->dead[i] != e->last && e->dead[i]->out[k] &&
			         outside(e, e->dead[i]->out[k]);
	}
	const char *why = early ? walk_window(e, m, from, &late) : 0;
	gg_map_fini(&late);
	return why;
}

/* ---- the replacement ----------------------------------------------------------------------------- */
/* NULL: the dtype has no such number. Floats round it. */
static gg_value *constant(engine *e, double x, gg_dtype t)
{
	double raw[2] = {0};
	gg_tensor one = {t, {.rank = 0}, raw};
	for (size_t i = 0; i < e->nconst; i++)
		if (!e->consts[i].list && e->consts[i].t == t && !memcmp(&e->consts[i].x, &x, sizeof x))
			return e->consts[i].v;
	if (strchr("IUB", gg_dtype_class(t))) {
		bool whole = fabs(x) <= 0x1p53 && x == (double)(int64_t)x;
		gg_set_i64(&one, 0, whole ? (int64_t)x : 0);
		if (!whole || gg_get_f64(&one, 0) != x)
			return 0;
	} else if (gg_dtype_class(t) == 'F') {
		gg_set_f64(&one, 0, x);
	} else {
		return 0;
	}
	gg_value *v = gg_add_tensor(e->g, "const", &one);
	GG_PUSH(e->consts, e->nconst, e->cap_const, ((kept_const){0, x, t, v}));
	return v;
}

static gg_value *constant_list(engine *e, const gg_attr *a)
{
	gg_tensor t = {GG_I64, gg_shape_of(1, (gg_dim[]){a->n}), (void *)a->ints};
	for (size_t i = 0; i < e->nconst; i++)
		if (e->consts[i].list == a->ints)
			return e->consts[i].v;
	gg_value *v = gg_add_tensor(e->g, "const", &t);
	GG_PUSH(e->consts, e->nconst, e->cap_const, ((kept_const){a->ints, 0, GG_I64, v}));
	return v;
}

/* A number takes the dtype of the other inputs with the same type variable. */
static gg_dtype number_dtype(const match *m, const pat *p, int at, int nin, gg_value *const *in)
{
	const gg_op *op = p->op;
	int last = 0;
	while (last < 11 && op->in[last + 1].set)
		last++;
	char var = op->in[at < last ? at : last].var;
	for (int i = 0; var && i < nin; i++)
		if (in[i] && op->in[i < last ? i : last].var == var)
			return (gg_dtype)in[i]->dtype;
	const gg_value *y = gg_out(m->node[m->r->map[0].node], m->r->map[0].out);
	return y ? (gg_dtype)y->dtype : GG_F32;
}

static int inputs(engine *e, match *m, const pat *p, gg_value **in, int most, const char **why)
{
	int n = 0;
	for (int i = 0; i < p->narg; i++) {
		const pat *a = p->arg[i];
		const rule_tail *t = &m->tail[a->slot];
		if (a->kind == PAT_TAIL) {
			for (int k = 0; k < t->n && n < most; k++)
				in[n++] = t->in[k].value;
			continue;
		}
		in[n++] = a->kind == PAT_VAR                          ? m->value[a->slot]
		          : a->kind == PAT_NODE || a->kind == PAT_REF ? gg_out(m->node[a->slot], a->out)
		                                                      : 0;
	}
	for (int i = 0; i < p->narg; i++) {
		if (p->arg[i]->kind == PAT_LIST)
			in[i] = constant_list(e, &p->arg[i]->list);
		if (p->arg[i]->kind != PAT_NUMBER)
			continue;
		gg_dtype t = number_dtype(m, p, i, n, in);
		if (!(in[i] = constant(e, p->arg[i]->number, t)))
			*why = rule_say("%s has no %.9g", gg_dtype_name(t), p->arg[i]->number);
	}
	while (n && !in[n - 1] && n > p->op->min_in)
		n--;
	return n;
}

static const char *copy_attr(const match *m, gg_node *n, const pat_attr *a, const gg_attr *from)
{
	if (!from)
		return 0;
	const gg_attr_spec *spec = gg_op_attr(n->op, a->name ? a->name : from->name);
	const gg_attr *def = spec ? gg_op_default(n->op, spec->name) : 0;
	gg_attr c = *from;
	if (!spec || spec->type != from->type)
		return is_default(m->node[a->slot], from)
		           ? 0
		           : rule_say("attribute '%s' has no place in %s", from->name, n->op->name);
	c.name = spec->name;
	if (!def || !gg_attr_eq(def, &c))
		gg_set_attr(n, &c);
	return 0;
}

static const char *copy_all(const match *m, gg_node *n, const pat_attr *a)
{
	const gg_node *from = m->node[a->slot];
	const char *why = 0;
	for (const gg_attr_spec *s = from->op->attrs; s && s->name && !why; s++) {
		const gg_attr *x = gg_find_attr(from, s->name);
		why = copy_attr(m, n, a, x ? x : gg_op_default(from->op, s->name));
	}
	return why;
}

/* An attribute is an f32, which an f64 would notice. */
static bool is_f64(const gg_node *n)
{
	for (int i = 0; i < gg_nargs(n); i++)
		if (n->in[i].value && n->in[i].value->dtype == GG_F64)
			return true;
	return false;
}

static const char *number_attr(const match *m, gg_node *n, const pat_attr *a)
{
	rule_result r = rule_eval(m, a->expr);
	gg_attr_type type = gg_op_attr(n->op, a->name)->type;
	if (!r.known)
		return rule_say("the value of attribute '%s' is not known", a->name);
	if (r.s) {
		if (type != GG_ATTR_STRING)
			return rule_say("attribute '%s' is no text", a->name);
		gg_set_attr_string(n, a->name, r.s);
	} else if (type == GG_ATTR_FLOAT) {
		if ((double)(float)r.x != r.x && is_f64(n))
			return rule_say("attribute '%s' would be rounded to f32", a->name);
		gg_set_attr_float(n, a->name, (float)r.x);
	} else if (type == GG_ATTR_INT) {
		if (r.x < -0x1p53 || r.x > 0x1p53 || r.x != (double)(int64_t)r.x)
			return rule_say("attribute '%s' would not be a whole number", a->name);
		gg_set_attr_int(n, a->name, (int64_t)r.x);
	} else {
		return rule_say("attribute '%s' is no number", a->name);
	}
	return 0;
}

static const char *list_attr(const match *m, gg_node *n, const pat_attr *a)
{
	float floats[RULE_ARGS];
	int64_t ints[RULE_ARGS];
	gg_attr_type type = gg_op_attr(n->op, a->name)->type;
	bool f64 = is_f64(n);
	for (int i = 0; i < a->nlist; i++) {
		rule_result r = rule_eval(m, a->list[i]);
		bool whole = r.x >= -0x1p53 && r.x <= 0x1p53 && r.x == (double)(int64_t)r.x;
		if (!r.known || r.s || (type == GG_ATTR_INTS && !whole))
			return rule_say("the value of attribute '%s' is not known", a->name);
		if (type == GG_ATTR_FLOATS && f64 && (double)(float)r.x != r.x)
			return rule_say("attribute '%s' would be rounded to f32", a->name);
		floats[i] = (float)r.x;
		ints[i] = type == GG_ATTR_INTS ? (int64_t)r.x : 0;
	}
	gg_attr list = {.name = a->name, .type = type, .n = a->nlist, .floats = floats};
	if (type == GG_ATTR_INTS)
		list.ints = ints;
	gg_set_attr(n, &list);
	return 0;
}

static const char *set_attrs(const match *m, gg_node *n, const pat *p)
{
	const char *why = 0;
	for (int i = 0; i < p->nattr && !why; i++) {
		const pat_attr *a = &p->attr[i];
		const gg_node *from = m->node[a->slot];
		if (a->kind == ATTR_TEST && a->rounded && is_f64(n))
			why = rule_say("attribute '%s' would be rounded to f32", a->name);
		else if (a->kind == ATTR_TEST)
			gg_set_attr(n, &a->value);
		else if (a->kind == ATTR_BIND)
			why = copy_attr(m, n, a, m->attr[a->slot]);
		else if (a->kind == ATTR_EXPR)
			why = number_attr(m, n, a);
		else if (a->kind == ATTR_LIST)
			why = list_attr(m, n, a);
		else if (!a->from)
			why = copy_all(m, n, a);
		else
			why = copy_attr(m, n, a,
			                gg_find_attr(from, a->from) ? gg_find_attr(from, a->from)
			                                            : gg_op_default(from->op, a->from));
	}
	return why;
}

/* How many outputs of a new node are read. */
static int outputs(const rule *r, const pat *p)
{
	int n = p->op->min_out > 0 ? p->op->min_out : 1;
	for (int i = 0; i < r->nmap; i++)
		if (r->map[i].to->kind == PAT_REF && r->map[i].to->slot == p->slot && r->map[i].to->out >= n)
			n = r->map[i].to->out + 1;
	for (int i = r->nleft; i < r->nnode; i++)
		for (int k = 0; k < r->node[i]->narg; k++) {
			const pat *a = r->node[i]->arg[k];
			if (a->kind == PAT_REF && a->slot == p->slot && a->out >= n)
				n = a->out + 1;
		}
	return n;
}

/* Output k of new node p is wanted: an op's optional outputs are left out. */
static bool is_wanted(const match *m, const pat *p, int k)
{
	const rule *r = m->r;
	if (k < p->op->min_out || (!k && p->op->min_out <= 0))
		return true;
	for (int i = 0; i < r->nmap; i++) {
		const pat *to = r->map[i].to;
		const gg_value *old = gg_out(m->node[r->map[i].node], r->map[i].out);
		if (to->kind == PAT_REF && to->slot == p->slot && to->out == k)
			return old && old->uses;
	}
	return true;
}

static bool is_given(const gg_node *n, int i)
{
	return n->in[i].value || i >= n->op->min_in || n->op->optional >> i & 1;
}

/* For now: what replaces a value takes over its name. */
static const char *output_name(engine *e, const char *base, int i)
{
	gg_buf b = {0};
	gg_buf_str(&b, base);
	if (i)
		gg_buf_printf(&b, "_%d", i);
	const char *name = gg_fresh_name(e->g, b.p);
	gg_buf_fini(&b);
	return name;
}

static const char *build_node(engine *e, match *m, const pat *p)
{
	int most = RULE_ARGS;
	for (int i = 0; i < p->narg; i++)
		if (p->arg[i]->kind == PAT_TAIL)
			most += m->tail[p->arg[i]->slot].n;
	gg_value **in = gg_xcalloc((size_t)most, sizeof *in);
	const char *name[64] = {0};
	const char *why = 0;
	int nin = inputs(e, m, p, in, most, &why), nout = outputs(m->r, p);
	const gg_value *base = gg_out(e->root, 0);
	for (int i = 0; i < nout; i++)
		if (is_wanted(m, p, i))
			name[i] = output_name(e, base ? base->name : p->op->name, i);
	while (nout > 1 && !name[nout - 1])
		nout--;
	gg_node *n = gg_add_node(e->g, e->last, p->op, nin, in, nout, name);
	free(in);
	m->node[p->slot] = n;
	n->order = e->last->order;
	why = why ? why : set_attrs(m, n, p);
	gg_diag silent = {.silent = true};
	if (!why && nin < p->op->min_in)
		why = rule_say("%s would lack an input", p->op->name);
	if (!why && p->op->max_in >= 0 && nin > p->op->max_in)
		why = rule_say("%s would have %d inputs", p->op->name, nin);
	for (int i = 0; !why && i < nin; i++)
		if (!is_given(n, i))
			why = rule_say("%s would lack input %d", p->op->name, i);
	if (!why && !gg_infer_node(&silent, n))
		why = rule_say("%s does not take these inputs", p->op->name);
	return why;
}

static const char *build(engine *e, match *m)
{
	const char *why = 0;
	for (int i = m->r->nleft; i < m->r->nnode && !why; i++)
		why = build_node(e, m, m->r->node[i]);
	return why;
}

static void unbuild(match *m)
{
	for (int i = m->r->nnode; i-- > m->r->nleft;) {
		if (m->node[i])
			gg_remove_node(m->node[i]);
		m->node[i] = 0;
	}
}

static gg_value *result(const match *m, int i)
{
	const pat *to = m->r->map[i].to;
	return to->kind == PAT_VAR ? m->value[to->slot] : gg_out(m->node[to->slot], to->out);
}

static gg_value *replaced(const match *m, int i)
{
	return gg_out(m->node[m->r->map[i].node], m->r->map[i].out);
}

static bool is_state(const gg_value *v)
{
	for (size_t i = 0; i < v->graph->nstate; i++)
		if (v->graph->state[i]->final.value == v)
			return true;
	return false;
}

static const char *changes_type(const gg_value *old, const gg_value *now)
{
	if (!now)
		return "a result is absent";
	if (old->dtype != now->dtype)
		return rule_say("its result has dtype %s, the replacement's %s",
		                gg_dtype_name((gg_dtype)old->dtype), gg_dtype_name((gg_dtype)now->dtype));
	if (old->shape.rank < 0 || now->shape.rank < 0)
		return "the shape of its result is not known";
	return gg_shape_eq(&old->shape, &now->shape) ? 0 : "the replacement's result has another shape";
}

/* Types, and what is declared: each result keeps its name, so a value takes one declared name. */
static const char *check_results(const match *m)
{
	for (int i = 0; i < m->r->nmap; i++) {
		const gg_value *old = replaced(m, i), *now = result(m, i);
		const char *why = old && old->uses ? changes_type(old, now) : 0;
		if (!old || !old->uses)
			continue;
		if (why)
			return why;
		if (!gg_can_replace(old, now) || (now->kind != GG_TEMP && is_state(old)))
			return "its result is a declared output, and its input has a name to keep";
		for (int k = 0; k < i && gg_is_output(old); k++)
			if (replaced(m, k) && result(m, k) == now && gg_is_output(replaced(m, k)))
				return "two outputs of the graph would become one value";
	}
	return 0;
}

/* The target has a kernel of its own for the node: the one chosen, or one to choose. */
static bool has_kernel(const gg_target *t, const gg_node *n)
{
	const gg_row *r = n->kernel ? gg_target_chosen(t, n) : gg_target_row(t, n);
	return r && strcmp(r->kernel, "ref");
}

/* After selection: what ran on a kernel of the target must not fall back to ref. */
static const char *loses_kernel(const engine *e, const match *m)
{
	const char *name = e->g->m->target;
	const gg_target *t = name ? gg_target_find(name) : 0;
	bool had = false;
	for (int i = 0; t && i < e->ndead; i++)
		had |= has_kernel(t, e->dead[i]);
	for (int i = m->r->nleft; had && i < m->r->nnode; i++)
		if (!has_kernel(t, m->node[i]))
			return rule_say("target '%s' has no kernel for %s", t->name, m->node[i]->op->name);
	return 0;
}

static const char *ask(const match *m, bool late)
{
	for (int i = 0; i < m->r->ncond; i++)
		if (m->r->cond[i].late == late && !rule_holds(m, m->r->cond[i].e))
			return m->r->cond[i].fails;
	return 0;
}

/* What Depend and UpdateState make others wait for. */
static int waits(const gg_node *n)
{
	return !strcmp(n->op->name, "Depend") ? n->nin - 1 : !strcmp(n->op->name, "UpdateState") ? n->nin : 0;
}

static const char *loses_order(const engine *e, const match *m)
{
	int left = 0;
	for (int i = m->r->nleft; i < m->r->nnode; i++)
		left += waits(m->node[i]);
	for (int i = 0; i < e->ndead; i++)
		if ((left -= waits(e->dead[i])) < 0)
			return rule_say("the order that its %s says would be lost", e->dead[i]->op->name);
	return 0;
}

static const char *rounding(const engine *e, const match *m)
{
	int bits = 0;
	for (int i = 0; i < m->r->nmap; i++) {
		const gg_value *v = replaced(m, i);
		if (v && gg_dtype_class((gg_dtype)v->dtype) == 'F' &&
		    gg_dtype_bits((gg_dtype)v->dtype) > bits)
			bits = gg_dtype_bits((gg_dtype)v->dtype);
	}
	return rule_rounding(e->dead, e->ndead, m->node + m->r->nleft, m->r->nnode - m->r->nleft, bits);
}

/* Everything that may be in the way. True: the replacement stands built beside the pattern. */
static bool accept(matcher *k)
{
	engine *e = k->ctx;
	match *m = &k->m;
	const char *why = ask(m, false);
	e->root = m->node[m->r->root[0].p->slot];
	why = why ? why : collect(e, m);
	why = why ? why : escapes(e, m);
	why = why ? why : loses_attribute(m);
	why = why ? why : loses_effect(e, m);
	why = why ? why : reads_dead(e, m);
	why = why ? why : find_place(e, m);
	if (!why) {
		why = build(e, m);
		why = why ? why : ask(m, true);
		why = why ? why : loses_order(e, m);
		why = why ? why : check_results(m);
		why = why ? why : loses_kernel(e, m);
		if (why)
			unbuild(m);
	}
	if (why && !k->why)
		k->why = why;
	return !why;
}

static bool accept_near(matcher *k) { return k->soft != 0; }

/* ---- the change ---------------------------------------------------------------------------------- */
static void hand_on_edges(engine *e, const match *m)
{
	int from = m->r->nleft, to = m->r->nnode;
	for (int i = 0; i < e->ndead; i++) {
		gg_node *d = e->dead[i];
		for (int k = 0; k < d->nafter; k++)
			for (int j = from; j < to && !is_dead(e, d->after[k]); j++)
				gg_add_after(m->node[j], d->after[k]);
		int left = d->nfollow;
		for (gg_node *f = d->next; f && left; f = f->next) {
			bool follows = false;
			for (int k = 0; k < f->nafter; k++)
				follows |= f->after[k] == d;
			left -= follows;
			for (int j = from; j < to && follows && !is_dead(e, f); j++)
				gg_add_after(f, m->node[j]);
		}
	}
}

static void remove_dead(engine *e)
{
	for (int left = e->ndead; left;) {
		for (int i = 0; i < e->ndead; i++) {
			bool read = false;
			for (int k = 0; e->dead[i] && k < e->dead[i]->nout; k++)
				read |= e->dead[i]->out[k] && e->dead[i]->out[k]->uses;
			if (!e->dead[i] || read)
				continue;
			gg_remove_node(e->dead[i]);
			e->dead[i] = 0;
			left--;
		}
	}
}

static void replace_results(const match *m, const char **name)
{
	for (int i = 0; i < m->r->nmap; i++) {
		gg_value *old = replaced(m, i), *now = result(m, i);
		if (!old || !old->uses)
			continue;
		if (now->producer && m->r->map[i].to->kind == PAT_REF &&
		    m->r->map[i].to->slot >= m->r->nleft) {
			now->layout = old->layout;
			now->content = old->content ? old->content : now->content;
			name[i] = old->name;
		}
		gg_replace_value(old, now);
	}
}

/* To the new nodes or, where there are none, to those that make the results. */
static void hand_on_loc(const match *m, const gg_node *n)
{
	for (int i = m->r->nleft; i < m->r->nnode; i++)
		gg_merge_loc(m->node[i], n);
	for (int i = 0; i < m->r->nmap && m->r->nleft == m->r->nnode; i++)
		if (result(m, i) && result(m, i)->producer)
			gg_merge_loc(result(m, i)->producer, n);
}

/* A node that the pattern keeps for other readers goes when there are none. */
static void remove_unread(engine *e, const match *m)
{
	for (int i = 0; i < m->r->nleft; i++) {
		gg_node *n = m->node[i];
		bool read = n == e->resume || n->nfollow || gg_node_flags(n) & (GG_EFFECT | GG_RANDOM);
		if (!m->r->node[i]->keep)
			continue;
		for (int k = 0; k < n->nout; k++)
			read |= n->out[k] && n->out[k]->uses;
		for (int k = 0; k < i; k++)
			read |= m->node[k] == n;
		if (read)
			continue;
		hand_on_loc(m, n);
		gg_remove_node(n);
	}
}

static void commit(engine *e, match *m)
{
	const char *name[RULE_MAPS] = {0};
	uint32_t lives = 0;
	int made = m->r->nnode - m->r->nleft;
	gg_node *first = made ? m->node[m->r->nleft] : 0, *after = e->last->next;
	for (int i = 0; i < e->ndead; i++) {
		uint32_t k = lives_of(e->dead[i]);
		lives = k > lives ? k : lives;
		hand_on_loc(m, e->dead[i]);
	}
	e->lives = lives + (made >= e->ndead);
	for (int j = m->r->nleft; j < m->r->nnode; j++)
		set_mark(m->node[j], e->lives, 0);
	hand_on_edges(e, m);
	for (size_t i = 0; i < e->nlate; i++) {
		gg_move_before(e->late[i], after);
		e->late[i]->order = e->last->order;
	}
	e->resume = first ? first : e->nlate ? e->late[0] : after;
	replace_results(m, name);
	remove_dead(e);
	remove_unread(e, m);
	for (int i = 0; i < m->r->nmap; i++)
		if (name[i] && result(m, i)->name != name[i] && !gg_find_interned(e->g, name[i]))
			gg_rename(result(m, i), name[i]);
}

/* ---- the walk ------------------------------------------------------------------------------------ */
typedef struct refusal {
	rule *r;
	const gg_node *n;
	const char *why;
} refusal;

typedef struct refusals {
	refusal *v;
	size_t n, cap;
} refusals;

/* Tries one rule at one node; true: it was applied. */
static bool try_rule(engine *e, rule *r, gg_node *n, refusals *list, matcher *k)
{
	k->accept = accept;
	k->ctx = e;
	k->lenient = false;
	if (!rule_may_match(r, n))
		return false;
	if (rule_match(k, r, n)) {
		gg_rule_stat about = rule_stat(r);
		about.rounding = rounding(e, &k->m);
		if (!e->h->apply(e->h->ctx, n, &about)) {
			unbuild(&k->m);
			e->stop = true;
			return false;
		}
		r->applied += !e->h->uncounted;
		r->tried += !e->h->uncounted;
		commit(e, &k->m);
		return true;
	}
	const char *why = k->why;
	if (!why && r->exact_left && r->nleft > 1) {
		k->accept = accept_near;
		k->lenient = true;
		why = rule_match(k, r, n) ? k->soft : 0;
	}
	if (why)
		GG_PUSH(list->v, list->n, list->cap, ((refusal){r, n, why}));
	return false;
}

static bool ends(engine *e, rule *r, const gg_node *at)
{
	size_t most = (e->g->nnodes < LIVES ? e->g->nnodes : LIVES) + 100;
	if (e->lives <= most)
		return true;
	e->stop = e->failed = true;
	return gg_error(e->h->d, GG_USAGE,
	                "rule '%s' does not come to an end: stopped after %u rewrites at '%s'", r->name,
	                e->lives, at ? gg_node_name(at) : "");
}

/* The first rule with that root. */
static rule *rules_of(engine *e, const gg_rules *set, const gg_op *op)
{
	struct root *at = &e->root_of[(uintptr_t)op / sizeof *op % ROOTS];
	if (at->op != op)
		*at = (struct root){op, gg_map_get(&set->by_op, (uint64_t)(uintptr_t)op)};
	return at->first;
}

static bool sweep(engine *e, gg_rules *set, refusals *list, matcher *k)
{
	bool changed = false;
	list->n = 0;
	for (gg_node *n = e->g->first; n && !e->stop;) {
		rule *r = rules_of(e, set, n->op);
		while (r && !e->stop && !try_rule(e, r, n, list, k))
			r = r->next;
		if (r && !e->stop) {
			changed = true;
			n = e->resume;
			ends(e, r, n);
		} else {
			n = n->next;
		}
	}
	return changed;
}

/* The same few reasons come again and again. */
static void tell(engine *e, const refusals *list)
{
	gg_map said = {0};
	for (size_t i = 0; i < list->n; i++) {
		const refusal *f = &list->v[i];
		const void *pair[] = {f->r->name, f->why};
		uint64_t key = gg_hash(pair, sizeof pair, 0);
		const char *text = gg_map_get(&said, key);
		if (!text)
			gg_map_put(&said, key,
			           (void *)(text = rule_say("looks like %s, but %s", f->r->name, f->why)));
		f->r->tried += !e->h->uncounted;
		e->h->refused(e->h->ctx, f->n, text);
	}
	gg_map_fini(&said);
}

bool gg_rules_reach(const gg_rules *set, const gg_map *ops)
{
	for (size_t i = 0; i < set->nrule; i++) {
		const rule *r = set->rule[i];
		int k = 0;
		while (k < r->nleft && gg_map_get(ops, (uint64_t)(uintptr_t)r->node[k]->op))
			k++;
		if (k == r->nleft)
			return true;
	}
	return false;
}

bool gg_rules_run(gg_rules *set, gg_graph *g, const gg_rule_host *h)
{
	engine *e = gg_xcalloc(1, sizeof *e);
	matcher *k = gg_xcalloc(1, sizeof *k);
	refusals list = {0};
	e->h = h;
	e->g = g;
	uint32_t order = 1;
	for (gg_node *n = g->first; n; n = n->next) {
		n->order = order++;
		n->mark = 0;
	}
	while (!e->stop && sweep(e, set, &list, k))
		;
	tell(e, &list);
	for (size_t i = 0; i < e->nconst; i++)
		if (!e->consts[i].v->uses)
			gg_remove_const(e->consts[i].v);
	bool good = !e->failed;
	free(e->consts);
	free(e->late);
	free(list.v);
	free(k);
	free(e);
	return good;
}
