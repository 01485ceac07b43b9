/* From the text of rules to trees.
 *
 *   rule    [name:] pat {; pat} => make {; make} [; map {, map}] [where cond]
 *   pat     Op(arg, ...) [{attrs}] [:k] [keep] [ordered] [as name]
 *   arg     pat | name | name:k | name? | *name | number | _ | none
 *   make    Op(arg, ...) [{attrs}] [as name] | arg
 *   map     name[:k] => name[:k]
 *   attrs   a=literal | a=name | *      on the right also  a=node.b | node.a | node.* | a=(expression)
 *   cond    expressions with or, and (or ','), not, comparisons, + - * /
 *
 * A rule ends where the next token cannot go on; # starts a comment. */
#include "rule_in.h"
#include "stream.h"
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 64, TERMS = 1000 };

typedef struct symbol {
	const char *name; /* interned */
	enum { VARIABLE, TAIL, NODE, ATTRIBUTE } kind;
	int slot;
	gg_attr_type type; /* of an attribute */
} symbol;

typedef struct parser {
	gg_diag *d;
	gg_arena *a;
	const char *from, *text, *p;
	rule *r;
	symbol symbol[RULE_VARS + RULE_NODES + RULE_ATTRS];
	int nsymbol, depth, terms;
	bool right, commas; /* commas: they mean 'and' here */
} parser;

static bool fail(parser *s, const char *at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool fail(parser *s, const char *at, const char *fmt, ...)
{
	int line = 1;
	const char *start = s->text, *end = at + strcspn(at, "\n");
	gg_buf b = {0};
	va_list ap;
	va_start(ap, fmt);
	gg_buf_vprintf(&b, fmt, ap);
	va_end(ap);
	for (const char *c = s->text; c < at; c++) {
		if (*c != '\n')
			continue;
		line++;
		start = c + 1;
	}
	gg_error(s->d, GG_USAGE, "%s:%d:%d: %s", s->from, line, (int)(at - start) + 1, b.p);
	gg_caret(s->d, start, (int)(end - start), (int)(at - start));
	gg_buf_fini(&b);
	return false;
}

/* ---- tokens ------------------------------------------------------------------------------------ */
static void skip(parser *s)
{
	for (;; s->p++) {
		if (*s->p == '#')
			s->p += strcspn(s->p, "\n");
		if (!*s->p || !strchr(" \t\r\n", *s->p))
			return;
	}
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static size_t word_length(const char *p)
{
	size_t n = 0;
	while (is_letter(p[n]) || (n && is_digit(p[n])))
		n++;
	return n;
}

static bool at_sign(parser *s, const char *sign)
{
	skip(s);
	return !strncmp(s->p, sign, strlen(sign));
}

static bool take(parser *s, const char *sign)
{
	if (!at_sign(s, sign))
		return false;
	s->p += strlen(sign);
	return true;
}

static bool at_word(parser *s, const char *word)
{
	skip(s);
	size_t n = word_length(s->p);
	return n == strlen(word) && !strncmp(s->p, word, n);
}

static bool take_word(parser *s, const char *word)
{
	if (!at_word(s, word))
		return false;
	s->p += strlen(word);
	return true;
}

static bool need(parser *s, const char *sign)
{
	if (take(s, sign))
		return true;
	size_t n = word_length(s->p);
	return *s->p ? fail(s, s->p, "expected '%s', found '%.*s'", sign, n ? (int)n : 1, s->p)
	             : fail(s, s->p, "expected '%s', found the end", sign);
}

static const char *name(parser *s, const char *what)
{
	skip(s);
	size_t n = word_length(s->p);
	if (!n) {
		fail(s, s->p, "expected %s", what);
		return 0;
	}
	const char *w = gg_intern_n(s->p, n);
	s->p += n;
	return w;
}

static bool integer(parser *s, int *out)
{
	skip(s);
	if (!is_digit(*s->p))
		return fail(s, s->p, "expected a number of an output");
	const char *at = s->p;
	long n = strtol(at, (char **)&s->p, 10);
	*out = n < 64 ? (int)n : 64;
	return n < 64 || fail(s, at, "outputs are numbered below 64");
}

/* ---- names ------------------------------------------------------------------------------------- */
static symbol *find(parser *s, const char *name)
{
	for (int i = 0; i < s->nsymbol; i++)
		if (s->symbol[i].name == name)
			return &s->symbol[i];
	return 0;
}

static symbol *declare(parser *s, const char *at, const char *name, int kind)
{
	rule *r = s->r;
	int *count = kind == NODE ? &r->nnode : kind == ATTRIBUTE ? &r->nbound : &r->nvar;
	int most = kind == NODE ? RULE_NODES : kind == ATTRIBUTE ? RULE_ATTRS : RULE_VARS;
	if (kind != NODE && *count == most) {
		fail(s, at, "a rule has at most %d names of a kind", most);
		return 0;
	}
	symbol *y = &s->symbol[s->nsymbol++];
	*y = (symbol){name, kind, kind == NODE ? r->nnode - 1 : (*count)++};
	return y;
}

static pat *new_pat(parser *s, pat_kind kind)
{
	pat *p = gg_alloc(s->a, sizeof *p);
	p->kind = kind;
	return p;
}

static bool resolve_out(parser *s, pat *p, const char *at)
{
	if (!take(s, ":"))
		return true;
	if (!integer(s, &p->out))
		return false;
	const gg_op *op = s->r->node[p->slot]->op;
	return op->max_out < 0 || p->out < op->max_out ||
	       fail(s, at, "%s has %d output%s", op->name, op->max_out, op->max_out == 1 ? "" : "s");
}

/* ---- attributes -------------------------------------------------------------------------------- */
static void say_attr(pat *p, gg_arena *a, const char *name)
{
	const char **all = gg_alloc_n(a, (size_t)p->nsaid + 1, sizeof *all);
	for (int i = 0; i < p->nsaid; i++)
		all[i] = p->said[i];
	all[p->nsaid++] = name;
	p->said = all;
}

static bool check_attr(parser *s, const char *at, const gg_op *op, const char *name)
{
	if (gg_op_attr(op, name))
		return true;
	gg_buf b = {0};
	for (const gg_attr_spec *a = op->attrs; a && a->name; a++)
		gg_buf_printf(&b, "%s%s", b.len ? ", " : "", a->name);
	fail(s, at, "%s has no attribute '%s'%s%s", op->name, name, b.len ? "; it has " : "", b.p ? b.p : "");
	gg_buf_fini(&b);
	return false;
}

/* "node." of a node of the left side, where its slot is asked for: the slot, or -1. */
static int take_node_dot(parser *s)
{
	size_t n = word_length(s->p);
	symbol *y = n && s->p[n] == '.' ? find(s, gg_intern_n(s->p, n)) : 0;
	if (!y || y->kind != NODE)
		return -1;
	s->p += n + 1;
	return y->slot;
}

static const rule_expr *expression(parser *s, int level);

/* The text of a literal: up to the comma or brace that ends it. */
static const char *literal(parser *s)
{
	const char *start = s->p;
	int depth = 0;
	bool quoted = false;
	for (; *s->p && *s->p != '\n'; s->p++) {
		if (*s->p == '"')
			quoted = !quoted;
		if (quoted)
			continue;
		if (!depth && (*s->p == ',' || *s->p == '}'))
			break;
		depth += (*s->p == '[') - (*s->p == ']');
	}
	const char *end = s->p;
	while (end > start && strchr(" \t", end[-1]))
		end--;
	return gg_strndup(s->a, start, (size_t)(end - start));
}

/* [expression, ...] */
static bool number_list(parser *s, pat_attr *a)
{
	const rule_expr *list[RULE_ARGS];
	a->kind = ATTR_LIST;
	while (!take(s, "]")) {
		if (a->nlist && !need(s, ","))
			return false;
		if (a->nlist == RULE_ARGS)
			return fail(s, s->p, "at most %d numbers", RULE_ARGS);
		if (!(list[a->nlist++] = expression(s, 3)))
			return false;
	}
	a->list = gg_alloc_n(s->a, (size_t)a->nlist + 1, sizeof *list);
	for (int i = 0; i < a->nlist; i++)
		a->list[i] = list[i];
	return true;
}

static bool attr_value(parser *s, const gg_op *op, pat_attr *a)
{
	skip(s);
	const char *at = s->p;
	gg_attr_type type = gg_op_attr(op, a->name)->type;
	size_t n = word_length(s->p);
	int node = s->right ? take_node_dot(s) : -1;
	if (node >= 0) {
		*a = (pat_attr){a->name, name(s, "an attribute"), ATTR_COPY, node};
		if (!a->from || !check_attr(s, at, s->r->node[node]->op, a->from))
			return false;
		say_attr(s->r->node[node], s->a, a->from);
		return true;
	}
	if (s->right && (type == GG_ATTR_INTS || type == GG_ATTR_FLOATS) && take(s, "["))
		return number_list(s, a);
	if (s->right && at_sign(s, "(")) {
		a->kind = ATTR_EXPR;
		return (a->expr = expression(s, 0)) != 0;
	}
	if (n && !(type == GG_ATTR_DTYPE && gg_dtype_find(gg_intern_n(s->p, n)))) {
		const char *w = name(s, "a name");
		symbol *y = find(s, w);
		if (s->right && y && (y->kind == VARIABLE)) { /* the number in a constant */
			rule_expr *e = gg_alloc(s->a, sizeof *e);
			*e = (rule_expr){.kind = EX_VALUE, .slot = y->slot};
			*a = (pat_attr){.name = a->name, .kind = ATTR_EXPR, .expr = e};
			return true;
		}
		bool fresh = !y && !s->right;
		if (fresh)
			y = declare(s, at, w, ATTRIBUTE);
		if (!y || y->kind != ATTRIBUTE)
			return y || s->right ? fail(s, at, "'%s' is no attribute bound on the left side", w)
			                     : false;
		if (fresh)
			y->type = type;
		if (y->type != type)
			return fail(s, at, "attribute '%s' of %s is of another type than '%s'", a->name,
			            op->name, w);
		*a = (pat_attr){.name = a->name, .kind = ATTR_BIND, .slot = y->slot};
		return true;
	}
	gg_diag silent = {.silent = true};
	const char *text = literal(s);
	a->kind = ATTR_TEST;
	if (!gg_parse_attr(&silent, s->a, text, type, &a->value))
		return fail(s, at, "'%s' is no value of attribute '%s' of %s", text, a->name, op->name);
	a->value.name = a->name;
	a->rounded = type == GG_ATTR_FLOAT && (double)a->value.f != strtod(text, 0) &&
	             a->value.f == a->value.f;
	return true;
}

/* What a node must have is given, or copied with all that another one has. */
static bool check_required(parser *s, const char *at, const pat *p)
{
	for (const gg_attr_spec *spec = p->op->attrs; spec && spec->name; spec++) {
		bool given = !spec->required;
		for (int i = 0; i < p->nattr; i++) {
			const pat_attr *a = &p->attr[i];
			given |= a->name ? !strcmp(a->name, spec->name)
			                 : gg_op_attr(s->r->node[a->slot]->op, spec->name) != 0;
		}
		if (!given && spec->type == GG_ATTR_GRAPH)
			return fail(s, at, "%s has a body, which no rule can make", p->op->name);
		if (!given)
			return fail(s, at, "%s needs attribute '%s'", p->op->name, spec->name);
	}
	return true;
}

static bool one_attr(parser *s, pat *p, pat_attr *a)
{
	skip(s);
	const char *at = s->p;
	int node = s->right ? take_node_dot(s) : -1;
	if (node >= 0) { /* node.* or node.a, under the same name */
		pat *from = s->r->node[node];
		*a = (pat_attr){.kind = ATTR_COPY, .slot = node};
		if (take(s, "*"))
			return from->all = true;
		a->name = a->from = name(s, "an attribute or '*'");
		if (a->name)
			say_attr(from, s->a, a->name);
		return a->name && check_attr(s, at, from->op, a->name) && check_attr(s, at, p->op, a->name);
	}
	a->name = name(s, "an attribute");
	return a->name && check_attr(s, at, p->op, a->name) && need(s, "=") && attr_value(s, p->op, a);
}

static bool attrs(parser *s, pat *p)
{
	pat_attr list[RULE_ATTRS];
	int n = 0;
	while (!take(s, "}")) {
		if (n && !need(s, ","))
			return false;
		skip(s);
		if (n == RULE_ATTRS)
			return fail(s, s->p, "at most %d attributes", RULE_ATTRS);
		if (!s->right && take(s, "*")) {
			p->all = true;
			continue;
		}
		list[n] = (pat_attr){0};
		if (!one_attr(s, p, &list[n]))
			return false;
		n++;
		s->r->exact_left |= !s->right;
	}
	p->attr = gg_alloc_n(s->a, (size_t)n, sizeof *list);
	if (n)
		memcpy(p->attr, list, (size_t)n * sizeof *list);
	p->nattr = n;
	return true;
}

/* ---- patterns ---------------------------------------------------------------------------------- */
static pat *argument(parser *s);

static bool check_arity(parser *s, const char *at, const pat *p)
{
	bool tail = p->narg && p->arg[p->narg - 1]->kind == PAT_TAIL;
	int least = s->right && !tail ? p->op->min_in : 0;
	if ((p->op->max_in < 0 || p->narg - tail <= p->op->max_in) && p->narg >= least)
		return true;
	if (p->op->min_in == p->op->max_in)
		return fail(s, at, "%s takes %d input%s, not %d", p->op->name, p->op->max_in,
		            p->op->max_in == 1 ? "" : "s", p->narg);
	return p->op->max_in < 0 ? fail(s, at, "%s takes at least %d inputs", p->op->name, p->op->min_in)
	                         : fail(s, at, "%s takes %d to %d inputs, not %d", p->op->name, p->op->min_in,
	                                p->op->max_in, p->narg);
}

static pat *new_node(parser *s, const char *at, const char *op)
{
	pat *p = new_pat(s, PAT_NODE);
	p->op = gg_op_find(op);
	if (!p->op) {
		const char *near = gg_op_nearest(op);
		fail(s, at, "no op is named '%s'%s%s%s", op, near ? "; did you mean '" : "", near ? near : "",
		     near ? "'?" : "");
		return 0;
	}
	if (s->r->nnode == RULE_NODES) {
		fail(s, at, "a rule has at most %d nodes", RULE_NODES);
		return 0;
	}
	if (!s->right) {
		s->r->exact_left |= p->op->max_out != 1;
		p->slot = s->r->nnode;
		s->r->node[s->r->nnode++] = p;
	}
	return p;
}

static bool arguments(parser *s, pat *p)
{
	pat *list[RULE_ARGS];
	if (!need(s, "("))
		return false;
	while (!take(s, ")")) {
		if (p->narg && !need(s, ","))
			return false;
		skip(s);
		if (p->narg == RULE_ARGS)
			return fail(s, s->p, "at most %d inputs", RULE_ARGS);
		if (p->narg && list[p->narg - 1]->kind == PAT_TAIL)
			return fail(s, s->p, "nothing follows '*name'");
		if (!(list[p->narg] = argument(s)))
			return false;
		p->narg++;
	}
	p->arg = gg_alloc_n(s->a, (size_t)p->narg, sizeof *list);
	if (p->narg)
		memcpy(p->arg, list, (size_t)p->narg * sizeof *list);
	return true;
}

/* After ')': attributes, which output, and the node's name. */
static bool trimmings(parser *s, pat *p)
{
	const char *at;
	if (take(s, "{") && !attrs(s, p))
		return false;
	if (s->right) { /* its inputs are made before it */
		if (s->r->nnode == RULE_NODES)
			return fail(s, s->p, "a rule has at most %d nodes", RULE_NODES);
		p->slot = s->r->nnode;
		s->r->node[s->r->nnode++] = p;
	}
	if (!s->right && !resolve_out(s, p, s->p))
		return false;
	for (bool more = !s->right; more;) {
		bool keep = take_word(s, "keep"), ordered = !keep && take_word(s, "ordered");
		p->keep |= keep;
		p->fixed |= ordered;
		more = keep || ordered;
	}
	if (!take_word(s, "as"))
		return true;
	skip(s);
	at = s->p;
	const char *w = name(s, "a name");
	if (!w)
		return false;
	if (find(s, w))
		return fail(s, at, "'%s' is named already", w);
	symbol *y = declare(s, at, w, NODE);
	if (y)
		y->slot = p->slot;
	return y != 0;
}

static pat *node(parser *s, const char *at, const char *op)
{
	pat *p = new_node(s, at, op);
	if (++s->depth > DEPTH) {
		fail(s, at, "nested too deeply");
		return 0;
	}
	if (!p || !arguments(s, p) || !check_arity(s, at, p) || !trimmings(s, p))
		return 0;
	if (s->right && !check_required(s, at, p))
		return 0;
	s->depth--;
	return p;
}

static pat *variable(parser *s, const char *at, const char *w, int kind)
{
	symbol *y = find(s, w);
	if (!y && s->right) {
		fail(s, at, "'%s' is not bound on the left side", w);
		return 0;
	}
	if (!y && !(y = declare(s, at, w, kind)))
		return 0;
	if (y->kind == NODE) {
		pat *p = new_pat(s, PAT_REF);
		p->slot = y->slot;
		return resolve_out(s, p, at) ? p : 0;
	}
	if ((int)y->kind != kind) {
		fail(s, at, "'%s' stands for %s", w,
		     y->kind == ATTRIBUTE ? "an attribute"
		     : y->kind == TAIL    ? "any number of values: '*'"
		                          : "one value");
		return 0;
	}
	pat *p = new_pat(s, kind == TAIL ? PAT_TAIL : PAT_VAR);
	p->slot = y->slot;
	p->maybe = take(s, "?");
	return p;
}

static pat *argument(parser *s)
{
	skip(s);
	const char *at = s->p;
	if (*at == '*') {
		s->p++;
		const char *w = name(s, "a name");
		return w ? variable(s, at, w, TAIL) : 0;
	}
	if (is_digit(*at) || *at == '-' || *at == '.') {
		pat *p = new_pat(s, PAT_NUMBER);
		p->number = strtod(at, (char **)&s->p);
		s->r->exact_left |= !s->right;
		if (s->p == at)
			fail(s, at, "expected a number");
		return s->p == at ? 0 : p;
	}
	if (*at == '[' && s->right) {
		pat *p = new_pat(s, PAT_LIST);
		gg_diag silent = {.silent = true};
		size_t n = strcspn(at, "]\n");
		if (at[n] == ']' &&
		    gg_parse_attr(&silent, s->a, gg_strndup(s->a, at, n + 1), GG_ATTR_INTS, &p->list)) {
			s->p = at + n + 1;
			return p;
		}
		fail(s, at, "expected integers: [0, 1]");
		return 0;
	}
	const char *w = name(s, "an op, a name, a number, '_' or 'none'");
	if (!w)
		return 0;
	if (at_sign(s, "("))
		return node(s, at, w);
	if (!strcmp(w, "none"))
		return new_pat(s, PAT_NONE);
	if (!strcmp(w, "_") && !s->right)
		return new_pat(s, PAT_ANY);
	return variable(s, at, w, VARIABLE);
}

/* ---- expressions ------------------------------------------------------------------------------- */
static rule_expr *new_expr(parser *s, expr_kind kind)
{
	rule_expr *e = gg_alloc(s->a, sizeof *e);
	e->kind = kind;
	s->terms++;
	return e;
}

static const rule_expr *call(parser *s, const char *at, const char *w)
{
	rule_expr *e = new_expr(s, EX_CALL);
	const char *near = rule_func_nearest(w);
	e->func = rule_func_find(w);
	if (!e->func) {
		fail(s, at, "no predicate is named '%s'%s%s%s", w, near ? "; did you mean '" : "",
		     near ? near : "", near ? "'?" : "");
		return 0;
	}
	bool commas = s->commas;
	if (!need(s, "("))
		return 0;
	s->commas = false;
	for (const char *want = e->func->args; *want; want++) {
		if (e->narg && !need(s, ","))
			return 0;
		skip(s);
		const char *here = s->p;
		const rule_expr *x = expression(s, *want == 'x' ? 0 : 6);
		if (!x)
			return 0;
		bool good = *want == 'x' || x->kind == EX_NODE || (*want == 'v' && x->kind == EX_VALUE);
		if (!good) {
			fail(s, here, "'%s' asks about a %s", w, *want == 'v' ? "value" : "node");
			return 0;
		}
		e->arg[e->narg++] = x;
	}
	s->commas = commas;
	return need(s, ")") ? e : 0;
}

static const rule_expr *named(parser *s, const char *at, const char *w)
{
	symbol *y = find(s, w);
	rule_expr *e = new_expr(s, EX_NUMBER);
	if (!y && gg_dtype_find(w)) {
		e->number = gg_dtype_find(w);
		return e;
	}
	if (!y || y->kind == TAIL) {
		fail(s, at, y ? "'%s' stands for any number of values" : "'%s' is not bound", w);
		return 0;
	}
	e->slot = y->slot;
	e->kind = y->kind == NODE ? EX_NODE : y->kind == ATTRIBUTE ? EX_BOUND : EX_VALUE;
	if (y->kind != NODE)
		return e;
	pat *p = s->r->node[y->slot];
	if (take(s, ":"))
		return integer(s, &e->out) ? e : 0;
	if (*s->p != '.')
		return e;
	s->p++;
	e->kind = EX_ATTR;
	e->text = name(s, "an attribute");
	if (!e->text || !check_attr(s, at, p->op, e->text))
		return 0;
	say_attr(p, s->a, e->text);
	return e;
}

static const rule_expr *primary(parser *s)
{
	skip(s);
	const char *at = s->p;
	rule_expr *e;
	if (take(s, "(")) {
		const rule_expr *x = expression(s, 0);
		return x && need(s, ")") ? x : 0;
	}
	if (is_digit(*at) || *at == '.') {
		e = new_expr(s, EX_NUMBER);
		e->number = strtod(at, (char **)&s->p);
		return e;
	}
	if (*at == '"') {
		size_t n = strcspn(at + 1, "\"\n");
		if (at[n + 1] != '"') {
			fail(s, at, "a string without an end");
			return 0;
		}
		e = new_expr(s, EX_TEXT);
		e->text = gg_intern_n(at + 1, n);
		s->p = at + n + 2;
		return e;
	}
	const char *w = name(s, "a condition");
	return !w ? 0 : at_sign(s, "(") ? call(s, at, w) : named(s, at, w);
}

/* Operators by level, loosest first. */
static const struct {
	int level;
	const char *sign;
	char op;
} operators[] = {{0, "or", '|'}, {1, "and", '&'}, {1, ",", '&'}, {3, "==", '='}, {3, "!=", '!'},
                 {3, "<=", 'l'}, {3, ">=", 'g'},  {3, "<", '<'}, {3, ">", '>'},  {4, "+", '+'},
                 {4, "-", '-'},  {5, "*", '*'},   {5, "/", '/'}};

static char take_operator(parser *s, int level)
{
	for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
		const char *sign = operators[i].sign;
		if (operators[i].level == level &&
		    (is_letter(*sign) ? take_word(s, sign) : (*sign != ',' || s->commas) && take(s, sign)))
			return operators[i].op;
	}
	return 0;
}

/* Levels: 0 or, 1 and, 2 not, 3 comparison, 4 sum, 5 product, 6 sign and the rest. */
static const rule_expr *expression(parser *s, int level)
{
	rule_expr *e;
	if (++s->depth > DEPTH * 8 || s->terms > TERMS) {
		fail(s, s->p, s->terms > TERMS ? "a rule asks for too much" : "nested too deeply");
		return 0;
	}
	if (level == 6 || (level == 2 && at_word(s, "not"))) {
		bool sign = level == 6 ? take(s, "-") : take_word(s, "not");
		const rule_expr *y = sign ? 0 : primary(s);
		e = sign ? new_expr(s, EX_OP) : 0;
		if (sign) {
			e->op = level == 6 ? 'm' : 'n';
			e->narg = 1;
			y = (e->arg[0] = expression(s, level)) ? e : 0;
		}
		s->depth--;
		return y;
	}
	skip(s);
	const char *from = s->p;
	const rule_expr *x = expression(s, level + 1);
	for (char op; x && (op = take_operator(s, level));) {
		e = new_expr(s, EX_OP);
		e->op = op;
		e->narg = 2;
		e->arg[0] = x;
		if (!(e->arg[1] = expression(s, level + 1)))
			return 0;
		x = e;
		if (level == 3)
			break;
	}
	if (x && !x->from) {
		((rule_expr *)x)->from = from;
		((rule_expr *)x)->to = s->p;
	}
	s->depth--;
	return x;
}

/* ---- a rule ------------------------------------------------------------------------------------ */
static const char *slice(parser *s, const char *from, const char *to)
{
	gg_buf b = {0};
	bool gap = false;
	for (; from < to; from++) {
		if (*from == '#')
			from += strcspn(from, "\n");
		if (from >= to)
			break;
		if (strchr(" \t\r\n", *from)) {
			gap = b.len > 0;
			continue;
		}
		if (gap)
			gg_buf_str(&b, " ");
		gap = false;
		gg_buf_add(&b, from, 1);
	}
	const char *text = gg_strdup(s->a, b.p ? b.p : "");
	gg_buf_fini(&b);
	return text;
}

/* Something of p's tree that the roots before bound, as low as can be: how many readers up p is. */
static const pat *anchor(const pat *p, const bool *var, int nodes, int depth, int *up)
{
	const pat *best = 0, *a;
	int k;
	for (int i = 0; i < p->narg; i++) {
		const pat *q = p->arg[i];
		bool known = q->kind == PAT_VAR ? var[q->slot] : q->kind == PAT_REF && q->slot < nodes;
		a = known ? q : q->kind == PAT_NODE ? anchor(q, var, nodes, depth + 1, &k) : 0;
		if (known)
			k = depth + 1;
		if (a && (!best || k < *up)) {
			best = a;
			*up = k;
		}
	}
	return best;
}

static void note_vars(const pat *p, bool *var)
{
	if (p->kind == PAT_VAR)
		var[p->slot] = true;
	for (int i = 0; i < p->narg; i++)
		note_vars(p->arg[i], var);
}

static bool left_side(parser *s)
{
	rule *r = s->r;
	bool var[RULE_VARS] = {0};
	do {
		skip(s);
		const char *at = s->p, *w = name(s, "an op");
		if (r->nroot == RULE_ROOTS)
			return fail(s, at, "a rule has at most %d roots", RULE_ROOTS);
		if (!w)
			return false;
		if (!at_sign(s, "("))
			return fail(s, at, "expected an op with its inputs, found '%s'", w);
		int nodes = r->nnode;
		rule_root *root = &r->root[r->nroot];
		if (!(root->p = node(s, at, w)))
			return false;
		if (r->nroot && !(root->from = (pat *)anchor(root->p, var, nodes, 0, &root->up)))
			return fail(s, at, "it shares no value with the roots before it");
		note_vars(root->p, var);
		r->nroot++;
	} while (take(s, ";"));
	r->nleft = r->nnode;
	return true;
}

/* A map starts with a name of the left side's node, and '=>' follows. */
static bool at_map(parser *s)
{
	const char *saved = s->p;
	skip(s);
	size_t n = word_length(s->p);
	symbol *y = n ? find(s, gg_intern_n(s->p, n)) : 0;
	bool yes = false;
	if (y && y->kind == NODE && y->slot < s->r->nleft) {
		s->p += n;
		if (take(s, ":")) {
			skip(s);
			while (is_digit(*s->p))
				s->p++;
		}
		yes = at_sign(s, "=>");
	}
	s->p = saved;
	return yes;
}

static bool maps(parser *s)
{
	rule *r = s->r;
	do {
		skip(s);
		const char *at = s->p;
		if (r->nmap == RULE_MAPS)
			return fail(s, at, "a rule replaces at most %d outputs", RULE_MAPS);
		if (!at_map(s))
			return fail(s, at, "expected an output of the left side and '=>'");
		pat *old = argument(s);
		if (!old || !need(s, "=>"))
			return false;
		skip(s);
		const char *to_at = s->p;
		pat *to = argument(s);
		if (!to)
			return false;
		if (to->kind != PAT_VAR && to->kind != PAT_REF)
			return fail(s, to_at, "an output becomes a value: a name, or an output of a node");
		if (r->node[old->slot]->keep)
			return fail(s, at, "a node that is kept keeps its outputs");
		r->map[r->nmap++] = (rule_map){old->slot, old->out, to};
	} while (take(s, ","));
	return true;
}

static bool right_side(parser *s)
{
	rule *r = s->r;
	pat *first = 0;
	s->right = true;
	do {
		if (at_map(s))
			return maps(s);
		skip(s);
		const char *at = s->p;
		pat *p = argument(s);
		if (!p)
			return false;
		if (p->kind == PAT_NUMBER || p->kind == PAT_LIST || p->kind == PAT_TAIL ||
		    p->kind == PAT_NONE)
			return fail(s, at, "a rule results in a node or a name");
		if (first && p->kind != PAT_NODE)
			return fail(s, at, "expected a node");
		first = first ? first : p;
	} while (take(s, ";"));
	if (r->nroot > 1)
		return fail(s, s->p, "which output becomes which must be said: name => name");
	if (r->root[0].p->keep)
		return fail(s, s->p, "the left side is kept, so nothing is replaced");
	pat *to = new_pat(s, first->kind == PAT_VAR ? PAT_VAR : PAT_REF);
	to->slot = first->slot;
	to->out = first->kind == PAT_REF ? first->out : 0;
	r->map[r->nmap++] = (rule_map){r->root[0].p->slot, r->root[0].p->out, to};
	return true;
}

static bool is_late(const rule *r, const rule_expr *e)
{
	bool late = (e->kind == EX_NODE || e->kind == EX_ATTR) && e->slot >= r->nleft;
	for (int i = 0; i < e->narg; i++)
		late |= is_late(r, e->arg[i]);
	return late;
}

/* Conditions that 'and' joins are kept apart, for the reason of a refusal. */
static void add_conditions(parser *s, const rule_expr *e, const char *from, const char *to)
{
	rule *r = s->r;
	if (e->kind == EX_OP && e->op == '&') {
		add_conditions(s, e->arg[0], e->arg[0]->from, e->arg[0]->to);
		add_conditions(s, e->arg[1], e->arg[1]->from, e->arg[1]->to);
		return;
	}
	rule_cond *all = gg_alloc_n(s->a, (size_t)r->ncond + 1, sizeof *all);
	for (int i = 0; i < r->ncond; i++)
		all[i] = r->cond[i];
	const char *text = slice(s, from, to);
	all[r->ncond++] = (rule_cond){e, text, rule_say("'%s' does not hold", text), is_late(r, e)};
	r->cond = all;
}

static bool conditions(parser *s)
{
	skip(s);
	const char *at = s->p;
	s->depth = 0;
	s->commas = true;
	const rule_expr *x = expression(s, 0);
	s->commas = false;
	if (x)
		add_conditions(s, x, at, s->p);
	return x != 0;
}

/* "name:" before the pattern. */
static const char *title(parser *s)
{
	skip(s);
	size_t n = word_length(s->p);
	if (!n || s->p[n] != ':')
		return 0;
	const char *w = gg_intern_n(s->p, n);
	s->p += n + 1;
	return w;
}

static bool one_rule(parser *s, rule *r, const char *base)
{
	s->r = r;
	s->nsymbol = s->depth = s->terms = 0;
	s->right = false;
	r->name = title(s);
	skip(s);
	const char *at = s->p;
	if (!left_side(s))
		return false;
	r->pattern = slice(s, at, s->p);
	r->name = r->name ? r->name : base ? base : gg_intern(r->pattern);
	if (!need(s, "=>"))
		return false;
	skip(s);
	at = s->p;
	s->depth = 0;
	if (!right_side(s))
		return false;
	r->replacement = slice(s, at, s->p);
	if (!take_word(s, "where"))
		return true;
	skip(s);
	at = s->p;
	if (!conditions(s))
		return false;
	r->where = slice(s, at, s->p);
	return true;
}

static void index_rule(gg_rules *set, rule *r)
{
	uint64_t key = (uint64_t)(uintptr_t)r->root[0].p->op;
	rule *last = gg_map_get(&set->last, key);
	if (last)
		last->next = r;
	else
		gg_map_put(&set->by_op, key, r);
	gg_map_put(&set->last, key, r);
}

gg_rules *gg_rules_compile(gg_diag *d, const char *from, const char *name, const char *text)
{
	gg_rules *set = gg_xcalloc(1, sizeof *set);
	parser s = {.d = d, .a = &set->arena, .from = from, .text = text, .p = text};
	for (skip(&s); *s.p; skip(&s)) {
		rule *r = gg_alloc(&set->arena, sizeof *r);
		if (!one_rule(&s, r, name)) {
			gg_rules_free(set);
			return 0;
		}
		GG_PUSH(set->rule, set->nrule, set->cap_rule, r);
		index_rule(set, r);
	}
	if (set->nrule)
		return set;
	fail(&s, s.p, "expected a rule");
	gg_rules_free(set);
	return 0;
}

void gg_rules_free(gg_rules *r)
{
	if (!r)
		return;
	free(r->rule);
	gg_map_fini(&r->by_op);
	gg_map_fini(&r->last);
	gg_arena_fini(&r->arena);
	free(r);
}

size_t gg_rules_count(const gg_rules *r) { return r->nrule; }

gg_rule_stat rule_stat(const rule *r)
{
	bool moves = true;
	for (int i = 0; i < r->nnode; i++)
		moves &= gg_op_moves(r->node[i]->op);
	return (gg_rule_stat){r->name, r->pattern, r->replacement, r->where, moves, r->tried, r->applied};
}

gg_rule_stat gg_rules_stat(const gg_rules *r, size_t i) { return rule_stat(r->rule[i]); }
