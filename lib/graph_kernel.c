#include "graph_kernel.h"
#include <stdlib.h>
#include <string.h>

enum { SMALL = 4096 }; /* bytes of a constant that is copied into a body */

bool gg_is_gk(const gg_node *n) { return n && !strcmp(n->op->name, "GraphKernel"); }

gg_graph *gg_gk_body(const gg_node *n) { return gg_body(n, 0); }

const char *gg_gk_bars(const gg_node *n)
{
	if (n->ncap)
		return "captures values";
	if (n->op->flags & GG_RANDOM)
		return "draws random numbers";
	if (n->op->flags & GG_EFFECT)
		return "has effects";
	if (n->op->flags & GG_NOFOLD && !gg_body(n, 0))
		return "depends on more than its inputs";
	if (n->op->aliases)
		return "updates state";
	if (n->nafter || n->nfollow)
		return "is ordered by control edges";
	return gg_body(n, 0) && !gg_is_gk(n) ? "has a body of its own" : 0;
}

/* ---- copying nodes from graph to graph --------------------------------------------------------- */

typedef struct pair {
	const gg_value *there;
	gg_value *here;
} pair;

typedef struct copier {
	gg_graph *to;
	gg_node *before;
	pair *pair; /* a value that has one knows its number by its mark; other marks may be anything */
	size_t n, cap;
} copier;

static gg_value *mapped(const copier *c, const gg_value *v)
{
	return v && v->mark < c->n && c->pair[v->mark].there == v ? c->pair[v->mark].here : 0;
}

static void put(copier *c, gg_value *there, gg_value *here)
{
	there->mark = c->n;
	GG_PUSH(c->pair, c->n, c->cap, ((pair){there, here}));
}

static void know(gg_value *to, const gg_value *from)
{
	to->dtype = from->dtype;
	to->shape = from->shape;
	to->content = from->content;
}

/* Its inputs have been mapped. */
static gg_node *copy_node(copier *c, const gg_node *n)
{
	gg_value **in = gg_xmalloc((size_t)n->nin * sizeof *in);
	const char **out = gg_xmalloc((size_t)n->nout * sizeof *out);
	for (int i = 0; i < n->nin; i++)
		in[i] = mapped(c, n->in[i].value);
	for (int i = 0; i < n->nout; i++)
		out[i] = n->out[i] ? gg_fresh_interned(c->to, n->out[i]->name) : 0;
	gg_node *k = gg_add_named(c->to, c->before, n->op, n->nin, in, n->nout, out);
	for (int i = 0; i < n->nout; i++)
		if (n->out[i]) {
			know(k->out[i], n->out[i]);
			put(c, n->out[i], k->out[i]);
		}
	gg_copy_attrs(k, n);
	k->loc = n->loc;
	k->nloc = n->nloc;
	k->kernel = n->kernel;
	k->stream = n->stream;
	k->extra = n->extra;
	free(in);
	free(out);
	return k;
}

static void copy_const(copier *c, gg_value *v)
{
	gg_value *k = gg_add_const(c->to, GG_CONST, gg_fresh_interned(c->to, v->name), v->dtype, &v->shape,
	                           v->data);
	k->content = v->content;
	put(c, v, k);
}

/* A body's inputs have been mapped. */
static void copy_body(copier *c, const gg_graph *b, gg_node **made)
{
	for (gg_value *v = b->consts; v; v = v->next_const)
		copy_const(c, v);
	for (const gg_node *n = b->first; n; n = n->next) {
		gg_node *k = copy_node(c, n);
		if (made)
			*made++ = k;
	}
}

/* `to` has from's name, layout and readers from now on; `from` goes. */
static void take_place(gg_value *to, gg_value *from)
{
	to->layout = from->layout;
	gg_replace_uses(from, to);
	gg_swap_names(from, to);
}

/* ---- nodes to a kernel ------------------------------------------------------------------------- */

typedef struct maker {
	copier c;
	gg_graph *g;
	gg_value **in, **out; /* of the new node; out: the values it takes the place of */
	int nin, nout;
} maker;

bool gg_gk_moves_inside(const gg_value *v)
{
	int64_t bytes;
	if (v->kind != GG_CONST && (v->kind != GG_PARAM || gg_dtype_class(v->dtype) == 'F' || v->updated))
		return false;
	return v->dtype != GG_STRING && gg_size_of(v->dtype, &v->shape, &bytes) && bytes <= SMALL;
}

static void reach(maker *k, gg_value *v)
{
	if (!v || mapped(&k->c, v))
		return;
	if (gg_gk_moves_inside(v)) {
		copy_const(&k->c, v);
		return;
	}
	gg_value *in = gg_add_input(k->c.to, gg_fresh_interned(k->c.to, v->name), v->dtype, &v->shape);
	in->content = v->content;
	put(&k->c, v, in);
	k->in[k->nin++] = v;
}

static void take_in(maker *k, gg_node *n)
{
	for (int i = 0; i < n->nin; i++)
		reach(k, n->in[i].value);
	if (!gg_is_gk(n)) {
		copy_node(&k->c, n);
		return;
	}
	const gg_graph *b = gg_gk_body(n);
	for (size_t i = 0; i < b->nin; i++)
		put(&k->c, b->in[i], mapped(&k->c, n->in[i].value));
	copy_body(&k->c, b, 0);
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			put(&k->c, n->out[i], mapped(&k->c, b->out[i]->value));
}

/* What members make has been copied; what others make of it has not, or a path would come back. */
static bool is_member(const maker *k, const gg_node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			return mapped(&k->c, n->out[i]);
	return false;
}

static bool read_outside(const maker *k, const gg_value *v)
{
	for (const gg_use *u = v->uses; u; u = u->next)
		if (!u->node || !is_member(k, u->node))
			return true;
	return false;
}

static void give_outputs(maker *k, gg_node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && read_outside(k, n->out[i])) {
			k->out[k->nout++] = n->out[i];
			gg_add_output(k->c.to, mapped(&k->c, n->out[i]));
		}
}

/* Nobody reads it yet. */
static gg_node *place(maker *k, gg_node *before)
{
	const char **name = gg_xcalloc((size_t)k->nout + 1, sizeof *name);
	for (int i = 0; i < k->nout; i++)
		name[i] = gg_fresh_interned(k->g, k->out[i]->name);
	gg_node *n = gg_add_named(k->g, before, gg_op_find("GraphKernel"), k->nin, k->in, k->nout, name);
	gg_set_attr_graph(n, "body", k->c.to);
	for (int i = 0; i < k->nout; i++) {
		know(n->out[i], k->out[i]);
		n->out[i]->layout = k->out[i]->layout;
	}
	free(name);
	return n;
}

static void replace(maker *k, gg_node *made, gg_node *const *n, size_t count)
{
	for (int i = 0; i < k->nout; i++)
		take_place(made->out[i], k->out[i]);
	for (size_t i = 0; i < count; i++)
		gg_merge_loc(made, n[i]);
	for (size_t i = count; i-- > 0;)
		gg_remove_node(n[i]);
}

gg_node *gg_gk_make_if(gg_graph *g, gg_node *const *n, size_t count, gg_gk_fits *fits, void *ctx)
{
	size_t nin = 1, nout = 1;
	for (size_t i = 0; i < count; i++) {
		nin += (size_t)n[i]->nin;
		nout += (size_t)n[i]->nout;
	}
	maker k = {.g = g, .in = gg_xcalloc(nin, sizeof *k.in), .out = gg_xcalloc(nout, sizeof *k.out)};
	k.c.to = gg_graph_new(g->m, 0);
	for (size_t i = 0; i < count; i++)
		take_in(&k, n[i]);
	for (size_t i = 0; i < count; i++)
		give_outputs(&k, n[i]);
	if (!k.nout)
		gg_bug("nobody reads what the new GraphKernel of '%s' makes", gg_node_name(n[0]));
	gg_node *made = place(&k, n[count - 1]->next);
	if (!fits || fits(ctx, made)) {
		replace(&k, made, n, count);
	} else {
		gg_remove_node(made);
		made = 0;
	}
	gg_drop_names(k.c.to); /* there are many bodies */
	free(k.c.pair);
	free(k.in);
	free(k.out);
	return made;
}

gg_node *gg_gk_make(gg_graph *g, gg_node *const *n, size_t count) { return gg_gk_make_if(g, n, count, 0, 0); }

/* ---- a kernel to nodes ------------------------------------------------------------------------- */

/* Interior values of full shape lie as the outputs do. */
static void lay_out(const gg_node *n, gg_node *const *made, size_t count)
{
	const gg_value *like = gg_out(n, 0);
	for (size_t i = 0; like && like->layout && i < count; i++)
		for (int k = 0; k < made[i]->nout; k++)
			if (made[i]->out[k] && gg_shape_eq(&made[i]->out[k]->shape, &like->shape))
				made[i]->out[k]->layout = like->layout;
}

/* Output i becomes `to`: a value that was made here and has no name of its own to keep, or another. */
static bool hand_over(gg_diag *d, gg_node *n, int i, gg_value *to, bool made)
{
	gg_value *from = n->out[i];
	if (made) {
		take_place(to, from);
		return true;
	}
	if (!gg_can_replace(from, to)) { /* a declared name needs a node of its own */
		const char *name = gg_fresh_name(n->graph, from->name);
		gg_node *k = gg_add_node(n->graph, n, gg_op_find("Identity"), 1, &to, 1, &name);
		if (!gg_infer_node(d, k))
			return false;
		to = k->out[0];
	}
	gg_replace_value(from, to);
	return true;
}

bool gg_gk_spread(gg_diag *d, gg_node *n, gg_node **made)
{
	const gg_graph *b = gg_gk_body(n);
	copier c = {.to = n->graph, .before = n};
	gg_node **own = gg_xcalloc(b->nnodes + 1, sizeof *own);
	bool good = true;
	for (size_t i = 0; i < b->nin; i++)
		put(&c, b->in[i], n->in[i].value);
	copy_body(&c, b, own);
	lay_out(n, own, b->nnodes);
	for (int i = 0; i < n->nout && good; i++) {
		gg_value *v = b->out[i]->value, *to = mapped(&c, v);
		bool first = v->kind == GG_TEMP && !to->mark++; /* the marks of new values are 0 */
		if (n->out[i] && n->out[i]->uses)
			good = hand_over(d, n, i, to, first);
	}
	if (made && b->nnodes)
		memcpy(made, own, b->nnodes * sizeof *own);
	free(own);
	free(c.pair);
	if (good)
		gg_remove_node(n);
	return good;
}

bool gg_gk_inline(gg_diag *d, gg_node *n) { return gg_gk_spread(d, n, 0); }
