/* Selection: which kernel runs a node, and how its values lie in memory.
 *
 * First every node of a graph gets its kernel, then all of them together their layouts (layout.c).
 * Conversions are no nodes yet: gg_insert_formats adds them where a kernel needs another layout than
 * its input has. */
#include "graph_kernel.h"
#include "cut.h"
#include "layout.h"
#include "stream.h"
#include "target.h"
#include "tool.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const gg_target *gg_target_need(gg_diag *d, const char *name)
{
	const gg_target *t = gg_target_find(name);
	if (t)
		return t;
	gg_buf b = {0};
	int n;
	const gg_target *const *list = gg_target_list(&n);
	for (int i = 0; i < n; i++)
		gg_buf_printf(&b, "%s%s", i ? ", " : "", list[i]->name);
	gg_error(d, GG_UNSUPPORTED, "target '%s' is not built in; there are: %s", name, b.p);
	gg_buf_fini(&b);
	return 0;
}

static bool has_layout(const gg_row *r, gg_layout l) { return r->layouts >> l & 1; }
static bool is_ref(const gg_row *r) { return !strcmp(r->kernel, "ref"); }

/* ---- choices: text, one line a node ----------------------------------------------------------
 *
 *     cpu_conv nhwc Conv "conv1"      kernel, layout of the outputs, op, name */

static const char *out_name(const gg_node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			return n->out[i]->name;
	return gg_node_name(n);
}

static void save_node(gg_buf *b, const gg_node *n)
{
	gg_attr name = {.type = GG_ATTR_STRING, .s = out_name(n)};
	gg_buf_printf(b, "%s %s %s ", n->kernel, gg_layout_name(gg_node_layout(n)), n->op->name);
	gg_print_attr(b, &name);
	gg_buf_str(b, "\n");
}

typedef struct choice {
	const char *kernel, *layout, *op;
	int line;
	bool used;
} choice;

typedef struct selection {
	gg_diag *d;
	const gg_target *t;
	const gg_select_options *o;
	gg_arena a;
	gg_map choices; /* by name: choice */
	choice **list;
	size_t nlist, cap_list;
	gg_buf saved;
	bool keep, layouts, nhwc, tf32;
	gg_buf host; /* ops that a device leaves to the host */
	int nhost;
	gg_map hosted;
	bool told; /* what runs node by node */
} selection;

static bool load_line(selection *s, char *line, int number)
{
	char *word[3], *p = line;
	for (int i = 0; i < 3; i++) {
		word[i] = p;
		if (!(p = strchr(p, ' ')))
			return gg_error(s->d, GG_MALFORMED,
			                "%s: line %d: expected 'kernel layout op \"name\"'",
			                s->o->load_choices, number);
		*p++ = 0;
	}
	gg_attr name;
	if (!gg_parse_attr(s->d, &s->a, p, GG_ATTR_STRING, &name))
		return false;
	if (gg_layout_find(word[1]) == GG_LAYOUTS)
		return gg_error(s->d, GG_MALFORMED, "%s: line %d: no layout '%s'", s->o->load_choices, number,
		                word[1]);
	choice *c = gg_alloc(&s->a, sizeof *c);
	*c = (choice){word[0], word[1], word[2], number, false};
	if (gg_map_gets(&s->choices, name.s))
		return gg_error(s->d, GG_MALFORMED, "%s: line %d: '%s' is named twice", s->o->load_choices,
		                number, name.s);
	gg_map_puts(&s->choices, gg_strdup(&s->a, name.s), c);
	s->list = gg_grow_in(&s->a, s->list, s->nlist, &s->cap_list, sizeof *s->list);
	s->list[s->nlist++] = c;
	return true;
}

static bool load_choices(selection *s)
{
	gg_source src;
	if (!s->o->load_choices)
		return true;
	if (!gg_source_open(s->d, &src, s->o->load_choices))
		return false;
	char *text = gg_strndup(&s->a, src.p, src.len);
	gg_source_close(&src);
	int number = 0;
	for (char *line = text, *end; *line; line = end) {
		end = line + strcspn(line, "\n");
		if (*end)
			*end++ = 0;
		number++;
		if (*line && *line != '#' && !load_line(s, line, number))
			return false;
	}
	return true;
}

/* ---- kernels -------------------------------------------------------------------------------- */

static void print_dtypes(gg_buf *b, gg_dtypes set)
{
	if (set == GG_ANY) {
		gg_buf_str(b, "any");
		return;
	}
	bool first = true;
	for (int t = 1; t < GG_DTYPES; t++)
		if (set & GG_DT(t)) {
			gg_buf_printf(b, "%s%s", first ? "" : "|", gg_dtype_name(t));
			first = false;
		}
}

static void print_signature(gg_buf *b, const gg_row *r)
{
	if (r->slot < 0)
		gg_buf_printf(b, "%s(out 0 ", r->kernel);
	else
		gg_buf_printf(b, "%s(in %d ", r->kernel, r->slot);
	print_dtypes(b, r->dtypes);
	for (int l = 0; l < GG_LAYOUTS; l++)
		if (has_layout(r, l))
			gg_buf_printf(b, " %s", gg_layout_name(l));
	gg_buf_printf(b, "%s%s)", *r->need ? ", " : "", r->need);
}

/* Exit 4, with the signatures there are and the slot that differs. */
static bool no_kernel(selection *s, const gg_node *n, const char *wanted, const char *why)
{
	gg_buf b = {0};
	for (int i = 0; i < s->t->nrows; i++)
		if (!strcmp(s->t->rows[i].op, n->op->name)) {
			gg_buf_str(&b, b.len ? ", " : "");
			print_signature(&b, &s->t->rows[i]);
		}
	if (s->t->ref_fallback && n->op->eval)
		gg_buf_printf(&b, "%sref(any plain)", b.len ? ", " : "");
	gg_node_error(s->d, GG_UNSUPPORTED, n,
	              "target '%s' has no kernel%s%s%s for it: %s differs; there are: %s", s->t->name,
	              wanted ? " '" : "", wanted ? wanted : "", wanted ? "'" : "", why, b.len ? b.p : "none");
	gg_buf_fini(&b);
	return false;
}

static const gg_row *row_named(const selection *s, const gg_node *n, const char *kernel, const char **why)
{
	static const gg_row ref = {"ref", "", GG_ANY, 0, 1u << GG_PLAIN, "", 0};
	*why = "op";
	if (!strcmp(kernel, "ref") && s->t->ref_fallback && n->op->eval)
		return &ref;
	for (int i = 0; i < s->t->nrows; i++) {
		const gg_row *r = &s->t->rows[i];
		if (!strcmp(r->kernel, kernel) && !strcmp(r->op, n->op->name) && gg_row_takes(r, n, why))
			return r;
	}
	return 0;
}

static bool apply_choice(selection *s, gg_node *n, choice *c, const gg_row **out)
{
	const char *why;
	c->used = true;
	if (strcmp(c->op, n->op->name))
		return gg_node_error(s->d, GG_MALFORMED, n, "%s: line %d is for op '%s'", s->o->load_choices,
		                     c->line, c->op);
	*out = row_named(s, n, c->kernel, &why);
	if (!*out)
		return no_kernel(s, n, c->kernel, why);
	gg_layout l = gg_layout_find(c->layout);
	if (!has_layout(*out, l))
		return no_kernel(s, n, c->kernel, gg_printf(&s->a, "layout '%s' of output 0", c->layout));
	gg_set_node_layout(n, l);
	return true;
}

/* Why a node that had a choice makes this layout: what the other one would cost, all else as it is. */
static void explain_layout(const gg_layouts *l, gg_node *n)
{
	gg_layout is = gg_node_layout(n), other = is ? GG_PLAIN : GG_NHWC;
	gg_layout_cost now = gg_node_layout_cost(l, n), then;
	gg_set_node_layout(n, other);
	then = gg_node_layout_cost(l, n);
	gg_set_node_layout(n, is);
	fprintf(stderr, " (%s would convert %lld bytes %s, %d reorder%s instead of %d)",
	        gg_layout_name(other), (long long)llabs(then.bytes - now.bytes),
	        then.bytes < now.bytes ? "less" : "more", then.reorders, then.reorders == 1 ? "" : "s",
	        now.reorders);
}

static void explain(const selection *s, const gg_layouts *all, gg_node *n)
{
	const gg_pick *k = &all->pick[n->order];
	gg_layout l = gg_node_layout(n);
	fprintf(stderr, "%s\t%s\t", gg_node_name(n), n->op->name);
	if (is_ref(k->row) && s->t->nrows)
		fprintf(stderr, "ref (no %s row: %s)", s->t->name, k->why);
	else
		fprintf(stderr, "%s%s%s", k->row->kernel, l ? " " : "", l ? gg_layout_name(l) : "");
	if (k->side > GG_CUT_YES)
		explain_layout(all, n);
	fputs("\n", stderr);
}

static void explain_graph(const gg_layouts *l, int choices)
{
	gg_layout_cost c = gg_graph_layout_cost(l);
	fprintf(stderr, "layouts: chosen for %d node%s; %d reorder%s, %lld bytes converted in all\n", choices,
	        choices == 1 ? "" : "s", c.reorders, c.reorders == 1 ? "" : "s", (long long)c.bytes);
}

/* The row of the same op that may round products to tf32. */
static const gg_row *faster(const selection *s, const gg_node *n, const gg_row *r)
{
	const char *why;
	for (int i = 0; s->tf32 && i < s->t->nrows; i++) {
		const gg_row *f = &s->t->rows[i];
		size_t len = strlen(r->kernel);
		if (!strcmp(f->op, n->op->name) && !strncmp(f->kernel, r->kernel, len) &&
		    !strcmp(f->kernel + len, "_tf32") && gg_row_takes(f, n, &why))
			return f;
	}
	return r;
}

/* Nodes that a run computes from shapes alone, or that only name a value anew. */
static bool is_light(const gg_node *n)
{
	return n->op->flags & GG_VIEW || !strcmp(n->op->name, "Shape") || !strcmp(n->op->name, "Size") ||
	       (gg_out(n, 0) && n->out[0]->content);
}

static void note_host(selection *s, const gg_node *n)
{
	if (is_light(n))
		return;
	s->nhost++;
	if (gg_map_gets(&s->hosted, n->op->name))
		return;
	gg_map_puts(&s->hosted, n->op->name, s);
	gg_buf_printf(&s->host, "%s%s", s->host.len ? ", " : "", n->op->name);
}

static bool select_node(selection *s, gg_node *n, gg_pick *k)
{
	choice *c = s->choices.n ? gg_map_gets(&s->choices, out_name(n)) : 0;
	k->why = "";
	if (c) {
		if (!apply_choice(s, n, c, &k->row))
			return false;
		k->fixed = true;
	} else {
		const gg_row *r = gg_target_why(s->t, n, &k->why);
		if (r && s->t->device && n->graph->owner && n->op->eval)
			r = row_named(s, n, "ref", &k->why);
		if (!r)
			return no_kernel(s, n, 0, k->why);
		k->row = faster(s, n, r);
	}
	n->kernel = gg_intern(k->row->kernel);
	if (s->t->device && is_ref(k->row))
		note_host(s, n);
	else if (gg_is_gk(n) && is_ref(k->row) && s->t->nrows && !s->told && !c)
		gg_note(s->d,
		        "node '%s' (GraphKernel): no kernel takes its body as it is (%s): its nodes run one "
		        "by one",
		        gg_node_name(n), k->why);
	return true;
}

/* A GraphKernel without a kernel of its own runs its body node by node, each by its own kernel. On a
 * device bodies run on the host. */
static bool may_expand(const selection *s, const gg_node *n)
{
	gg_dtype t = gg_in(n, 0)->dtype;
	return s->t->device ? gg_is_gk(n) || gg_dtype_class(t) == 'F' : t == GG_F32;
}

static bool stays_whole(const selection *s, const gg_node *n) { return gg_is_gk(n) && !s->t->device; }

bool gg_write_out(gg_diag *d, gg_graph *g)
{
	gg_graph *body;
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		for (int i = 0; (body = gg_body(n, i)); i++)
			if (!gg_write_out(d, body))
				return false;
		if (n->op->expand && !n->op->eval && !n->op->expand(d, n))
			return false;
	}
	return true;
}

/* A fused node that would run on ref though the target has kernels for its dtype is replaced by its
 * plain ops: the only change that selection makes to the graph, but for gg_write_out. Not what updates
 * state, nor what plain ops cannot say. */
static bool expand_unsupported(selection *s, gg_graph *g)
{
	gg_diag silent = {.silent = true};
	gg_graph *body;
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		for (int i = 0; (body = gg_body(n, i)); i++)
			if (!expand_unsupported(s, body))
				return false;
		if (!n->op->expand || stays_whole(s, n) || n->op->aliases || !gg_in(n, 0) || n->nafter ||
		    n->nfollow || !may_expand(s, n))
			continue;
		const gg_row *r = gg_target_row(s->t, n);
		gg_node *prev = n->prev;
		if (s->t->nrows && (!r || is_ref(r)) && n->op->expand(&silent, n))
			next = prev ? prev->next : g->first; /* what it became may be fused too */
	}
	return true;
}

static int choose_layouts(const selection *s, const gg_layouts *l)
{
	if (s->keep)
		return 0;
	if (s->layouts)
		return gg_choose_layouts(l, s->nhwc);
	for (gg_node *n = l->g->first; n; n = n->next)
		if (!l->pick[n->order].fixed)
			gg_set_node_layout(n, GG_PLAIN);
	return 0;
}

static bool select_graph(selection *s, gg_graph *g)
{
	gg_layouts l = {s->t, g, gg_xcalloc(g->nnodes + 1, sizeof *l.pick)};
	bool good = true;
	gg_graph *body;
	gg_graph_number(g);
	for (gg_node *n = g->first; n && good; n = n->next)
		good = select_node(s, n, &l.pick[n->order]);
	int choices = good ? choose_layouts(s, &l) : 0;
	for (gg_node *n = g->first; n && good; n = n->next) {
		if (s->o->explain)
			explain(s, &l, n);
		if (s->o->save_choices)
			save_node(&s->saved, n);
		for (int i = 0; good && (body = gg_body(n, i)); i++)
			good = select_graph(s, body);
	}
	if (good && choices && s->o->explain)
		explain_graph(&l, choices);
	free(l.pick);
	return good;
}

/* Nodes that a pass made since. */
static bool select_open(selection *s, gg_graph *g)
{
	gg_graph *body;
	for (gg_node *n = g->first; n; n = n->next) {
		gg_pick k = {0};
		if (!n->kernel && !select_node(s, n, &k))
			return false;
		for (int i = 0; (body = gg_body(n, i)); i++)
			if (!select_open(s, body))
				return false;
	}
	return true;
}

static bool check_options(selection *s)
{
	static const char *const precisions[] = {"strict", "tf32", "f16", "bf16"};
	static const char *const layouts[] = {"keep", "auto", "nchw", "nhwc"};
	const char *p = s->o->precision ? s->o->precision : "strict",
	           *l = s->o->layout ? s->o->layout : "keep";
	size_t i = 0, k = 0;
	while (i < 4 && strcmp(p, precisions[i]))
		i++;
	while (k < 4 && strcmp(l, layouts[k]))
		k++;
	if (i == 4)
		return gg_error(s->d, GG_USAGE, "precision '%s': expected strict, tf32, f16 or bf16", p);
	if (k == 4)
		return gg_error(s->d, GG_USAGE, "layout '%s': expected keep, auto, nchw or nhwc", l);
	if (i > 1 || (i && !s->t->device))
		return gg_error(s->d, GG_UNSUPPORTED,
		                "target '%s' has no precision '%s'; there are: strict%s", s->t->name, p,
		                s->t->device ? ", tf32" : "");
	s->tf32 = i == 1;
	if (k == 3 && !s->t->nrows)
		return gg_error(s->d, GG_UNSUPPORTED, "target '%s' has no layout 'nhwc'; there are: nchw",
		                s->t->name);
	s->keep = k == 0;
	s->layouts = (k == 1 || k == 3) && s->t->nrows;
	s->nhwc = k == 3;
	return true;
}

static bool finish(selection *s)
{
	for (size_t i = 0; i < s->nlist; i++)
		if (!s->list[i]->used)
			return gg_error(s->d, GG_MALFORMED, "%s: line %d: the graph has no such node",
			                s->o->load_choices, s->list[i]->line);
	return !s->o->save_choices ||
	       gg_write_file(s->d, s->o->save_choices, s->saved.len ? s->saved.p : "", s->saved.len);
}

bool gg_select(gg_diag *d, gg_model *m, const gg_select_options *o)
{
	selection s = {.d = d, .o = o, .t = gg_target_need(d, o->target ? o->target : "cpu")};
	const char *target = s.t ? gg_target_name(d, o->target ? o->target : "cpu") : NULL;
	bool ok = target && gg_target_describe(d, m, o->target) && check_options(&s) && load_choices(&s) &&
	          gg_write_out(s.d, m->main) && expand_unsupported(&s, m->main) &&
	          select_graph(&s, m->main) && finish(&s);
	if (ok && s.nhost)
		gg_note(d, "%d node%s on the host, as target '%s' has no kernels for %s", s.nhost,
		        s.nhost == 1 ? " runs" : "s run", s.t->name, s.host.p);
	if (ok) {
		m->target = target;
		m->stage = "select";
		gg_drop_plan(m);
	}
	gg_map_fini(&s.choices);
	gg_map_fini(&s.hosted);
	gg_buf_fini(&s.host);
	gg_buf_fini(&s.saved);
	gg_arena_fini(&s.a);
	return ok;
}

bool gg_select_open(gg_diag *d, gg_model *m)
{
	gg_select_options o = {.target = m->target};
	selection s = {.d = d, .o = &o, .told = true, .t = gg_target_need(d, m->target ? m->target : "ref")};
	return s.t && select_open(&s, m->main);
}
