/* Selection: which kernel runs a node, and how its values lie in memory.
 *
 * Layouts are chosen front to back: a convolution makes its output channels-last, and whatever
 * takes channels-last and reads it goes on so, until a node that does not. Conversions are not
 * part of the choice: gg_insert_formats adds them where a kernel needs another layout than its
 * input has. Channels-last is what both oneDNN's convolutions and our own loops like best on
 * the machine of bench/NOTES.md. */
#include "graph_kernel.h"
#include "stream.h"
#include "target.h"
#include "tool.h"
#include <stdio.h>
#include <string.h>

static const gg_target *find_target(gg_diag *d, const char *name)
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

/* Channels-last and plain are the same bytes. */
static bool same_bytes(const gg_value *v)
{
	if (v->shape.rank < 3 || v->shape.dim[1] == 1)
		return true;
	for (int i = 2; i < v->shape.rank; i++)
		if (v->shape.dim[i] != 1)
			return false;
	return true;
}

/* Input i of a kernel whose values agree takes part in the agreement: it is no broadcast operand
 * and no weight. */
static bool agrees(const gg_node *n, int i)
{
	const gg_value *v = n->in[i].value, *out = n->out[0];
	if (!out || n->op->flags & GG_POINTWISE || gg_is_gk(n))
		return out && gg_shape_eq(&v->shape, &out->shape) && !v->data;
	return v->shape.rank == out->shape.rank;
}

/* ---- layouts -------------------------------------------------------------------------------- */

/* On cuda the tensor cores take channels-last, and plain f32 convolutions do not use them. */
static bool starts_nhwc(const gg_node *n, const gg_row *r)
{
	gg_dtypes half = GG_DT(GG_F16) | GG_DT(GG_BF16);
	static const char *const kernels[] = {"cpu_conv", "cpu_deconv", "cpu_conv_input_grad",
	                                      "cuda_conv_tf32"};
	for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
		if (!strcmp(r->kernel, kernels[i]))
			return true;
	return !strcmp(r->kernel, "cuda_conv") && half & GG_DT(n->out[0]->dtype);
}

static bool makes_nhwc(const gg_node *n, const gg_row *r)
{
	if (starts_nhwc(n, r))
		return true;
	for (int i = 0; i < gg_nargs(n); i++) {
		const gg_value *v = n->in[i].value;
		if (v && v->layout == GG_NHWC && (r->layouts & GG_MIXED ? i == 0 : agrees(n, i)))
			return true;
	}
	return false;
}

/* Declared layouts stay; so do those of values that other graphs see. */
static bool may_choose(const gg_value *v) { return v && v->kind == GG_TEMP && !gg_is_output(v); }

static void choose_layouts(const gg_node *n, const gg_row *r, bool nhwc)
{
	nhwc = nhwc && has_layout(r, GG_NHWC) && !(r->layouts & GG_PLAIN_OUT) && makes_nhwc(n, r);
	for (int i = 0; i < n->nout && gg_is_gk(n); i++)
		nhwc &= may_choose(n->out[i]); /* they lie alike */
	for (int i = 0; i < n->nout; i++) {
		gg_value *v = n->out[i];
		if (may_choose(v))
			v->layout = nhwc && v->shape.rank >= 3 && !same_bytes(v) ? GG_NHWC : GG_PLAIN;
	}
}

/* ---- choices: text, one line a node ----------------------------------------------------------
 *
 *     cpu_conv nhwc Conv "conv1"      kernel, layout of output 0, op, name */

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
	const gg_value *v = gg_out(n, 0);
	gg_buf_printf(b, "%s %s %s ", n->kernel, gg_layout_name(v ? v->layout : GG_PLAIN), n->op->name);
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
	bool nhwc, keep, tf32;
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
	if (may_choose(gg_out(n, 0)))
		n->out[0]->layout = l;
	return true;
}

static void explain(const selection *s, const gg_node *n, const gg_row *r, const char *why)
{
	const gg_value *v = gg_out(n, 0);
	fprintf(stderr, "%s\t%s\t", gg_node_name(n), n->op->name);
	if (is_ref(r) && s->t->nrows)
		fprintf(stderr, "ref (no %s row: %s)\n", s->t->name, why);
	else
		fprintf(stderr, "%s%s%s\n", r->kernel, v && v->layout ? " " : "",
		        v && v->layout ? gg_layout_name(v->layout) : "");
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

static bool select_node(selection *s, gg_node *n)
{
	const char *why = "";
	const gg_row *r = 0;
	choice *c = s->choices.n ? gg_map_gets(&s->choices, out_name(n)) : 0;
	if (c) {
		if (!apply_choice(s, n, c, &r))
			return false;
	} else {
		r = gg_target_why(s->t, n, &why);
		if (r && s->t->device && n->graph->owner && n->op->eval)
			r = row_named(s, n, "ref", &why);
		if (!r)
			return no_kernel(s, n, 0, why);
		r = faster(s, n, r);
		if (!s->keep)
			choose_layouts(n, r, s->nhwc);
	}
	n->kernel = gg_intern(r->kernel);
	if (s->t->device && is_ref(r))
		note_host(s, n);
	else if (gg_is_gk(n) && is_ref(r) && s->t->nrows && !s->told && !c)
		gg_note(s->d,
		        "node '%s' (GraphKernel): no kernel takes its body as it is (%s): its nodes run one "
		        "by one",
		        gg_node_name(n), why);
	if (s->o->explain)
		explain(s, n, r, why);
	if (s->o->save_choices)
		save_node(&s->saved, n);
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

/* A fused node that would run on ref though the target has kernels for its dtype is replaced by its
 * plain ops: the only change that selection makes to the graph. Not what updates state, nor what plain
 * ops cannot say. */
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

static bool select_graph(selection *s, gg_graph *g, bool open_only)
{
	gg_graph *body;
	for (gg_node *n = g->first; n; n = n->next) {
		if ((!open_only || !n->kernel) && !select_node(s, n))
			return false;
		for (int i = 0; (body = gg_body(n, i)); i++)
			if (!select_graph(s, body, open_only))
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
	s->nhwc = k == 1 || k == 3;
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
	selection s = {.d = d, .o = o, .t = find_target(d, o->target ? o->target : "cpu")};
	bool ok = s.t && check_options(&s) && load_choices(&s) && expand_unsupported(&s, m->main) &&
	          select_graph(&s, m->main, false) && finish(&s);
	if (ok && s.nhost)
		gg_note(d, "%d node%s on the host, as target '%s' has no kernels for %s", s.nhost,
		        s.nhost == 1 ? " runs" : "s run", s.t->name, s.host.p);
	if (ok) {
		m->target = gg_intern(o->target ? o->target : "cpu");
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
	selection s = {
	    .d = d, .o = &o, .keep = true, .told = true, .t = find_target(d, m->target ? m->target : "ref")};
	return s.t && select_graph(&s, m->main, true);
}

/* ---- conversions ---------------------------------------------------------------------------- */

/* Kernels read a convolution's weight as it is saved. */
static bool is_weight(const gg_node *n, int i)
{
	return i == 1 && gg_op_attr(n->op, "group") && strcmp(n->op->name, "ConvWeightGrad");
}

/* The layout that input i of n must have. */
static gg_layout needed(const gg_target *t, const gg_node *n, int i)
{
	const gg_row *r = gg_target_chosen(t, n);
	const gg_value *v = n->in[i].value;
	if (!r || i >= gg_nargs(n) || is_weight(n, i))
		return GG_PLAIN;
	if (r->layouts & GG_MIXED)
		return has_layout(r, v->layout) ? v->layout : GG_PLAIN;
	gg_layout l = n->out[0] ? n->out[0]->layout : GG_PLAIN;
	if (agrees(n, i))
		return l;
	bool broadcasts = n->op->flags & GG_POINTWISE || gg_is_gk(n);
	return l && broadcasts && has_layout(r, v->layout) ? v->layout : GG_PLAIN;
}

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
	gg_layout l = needed(t, n, i);
	if (v->layout == l || (v->layout <= GG_NHWC && l <= GG_NHWC && same_bytes(v)))
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

/* The layout that output i of n must have: where the kernel's values agree, that of output 0. */
static gg_layout made(const gg_target *t, const gg_node *n, int i)
{
	const gg_row *r = gg_target_chosen(t, n);
	const gg_value *v = n->out[i], *first = n->out[0];
	if (!r || !has_layout(r, v->layout))
		return GG_PLAIN;
	bool own = r->layouts & GG_MIXED || !first || v->shape.rank != first->shape.rank;
	return own ? v->layout : first->layout;
}

/* What a kernel cannot write in the layout its value has: the layout is a choice and given up,
 * unless it is an output's declared one. */
static bool convert_output(gg_diag *d, const gg_target *t, gg_node *n, int i)
{
	gg_value *v = n->out[i];
	gg_layout l = v ? made(t, n, i) : GG_PLAIN;
	if (!v || v->layout == l)
		return true;
	if (!may_choose(v) && !same_bytes(v)) {
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
	const gg_target *t = find_target(d, m->target ? m->target : "ref");
	return t && convert_graph(d, t, m->main);
}
