/* What `where` can ask: one table of predicates and functions. */
#include "rule_in.h"
#include "target.h"
#include <math.h>
#include <string.h>

static rule_result number(double x) { return (rule_result){.known = true, .x = x}; }
static rule_result unknown(void) { return (rule_result){0}; }

gg_value *rule_value(const match *m, const rule_expr *e)
{
	if (e->kind == EX_VALUE)
		return m->value[e->slot];
	return e->kind == EX_NODE && m->node[e->slot] ? gg_out(m->node[e->slot], e->out) : 0;
}

static int rank_of(const gg_value *v) { return v ? v->shape.rank : -1; }

/* ---- the functions ---------------------------------------------------------------------------- */
#define VALUE(i) rule_value(m, arg[i])
#define FUNC(NAME) static rule_result f_##NAME(const match *m, const rule_expr *const *arg)

FUNC(given) { return number(VALUE(0) != 0); }
FUNC(rank) { return rank_of(VALUE(0)) < 0 ? unknown() : number(rank_of(VALUE(0))); }
FUNC(dtype) { return VALUE(0) ? number(VALUE(0)->dtype) : unknown(); }
FUNC(constant) { return number(gg_is_fixed(VALUE(0))); }
FUNC(param) { return number(VALUE(0) && VALUE(0)->kind == GG_PARAM); }
FUNC(one_use) { return number(VALUE(0) && gg_one_use(VALUE(0))); }
FUNC(is_output) { return number(VALUE(0) && gg_is_output(VALUE(0))); }
FUNC(static) { return number(VALUE(0) && gg_shape_known(&VALUE(0)->shape)); }

FUNC(dim)
{
	gg_value *v = VALUE(0);
	rule_result i = rule_eval(m, arg[1]);
	if (!v || !i.known || v->shape.rank < 0)
		return unknown();
	double k = i.x + (i.x < 0 ? v->shape.rank : 0);
	if (!(k >= 0 && k < v->shape.rank) || k != (int)k || !gg_dim_known(v->shape.dim[(int)k]))
		return unknown();
	return number((double)v->shape.dim[(int)k]);
}

FUNC(count)
{
	int64_t n = VALUE(0) ? gg_shape_count(&VALUE(0)->shape) : -1;
	return n < 0 ? unknown() : number((double)n);
}

FUNC(scalar) { return number(VALUE(0) && gg_shape_count(&VALUE(0)->shape) == 1); }

FUNC(value)
{
	double x;
	return rule_scalar(VALUE(0), &x) ? number(x) : unknown();
}

FUNC(float) { return number(VALUE(0) && gg_dtype_class((gg_dtype)VALUE(0)->dtype) == 'F'); }

FUNC(same_dtype) { return number(VALUE(0) && VALUE(1) && VALUE(0)->dtype == VALUE(1)->dtype); }

FUNC(same_shape)
{
	const gg_value *a = VALUE(0), *b = VALUE(1);
	return number(a && b && a->shape.rank >= 0 && gg_shape_eq(&a->shape, &b->shape));
}

/* a, broadcast with b, has b's shape. */
FUNC(fits)
{
	const gg_value *a = VALUE(0), *b = VALUE(1);
	gg_shape s;
	return number(a && b && rank_of(a) >= 0 && rank_of(b) >= 0 &&
	              gg_broadcast(&a->shape, &b->shape, &s) && gg_shape_eq(&s, &b->shape));
}

/* A constant list of axes: as bits, with the lowest. */
static bool axes_of(gg_value *axes, const gg_value *x, uint32_t *bits, int *first)
{
	gg_diag silent = {.silent = true};
	gg_tensor t;
	int rank = rank_of(x);
	*bits = 0;
	*first = GG_MAX_RANK;
	if (rank < 0 || !gg_is_const(axes) || gg_shape_count(&axes->shape) > GG_MAX_RANK ||
	    !gg_value_tensor(&silent, axes, &t))
		return false;
	for (int64_t i = 0; i < gg_count(&t); i++) {
		int64_t a = gg_get_i64(&t, i);
		a += a < 0 ? rank : 0;
		if (a < 0 || a >= rank)
			return false;
		*bits |= 1u << a;
		*first = a < *first ? (int)a : *first;
	}
	return *bits != 0;
}

FUNC(trailing)
{
	uint32_t bits;
	int first;
	return number(axes_of(VALUE(0), VALUE(1), &bits, &first) &&
	              bits == ((1u << rank_of(VALUE(1))) - (1u << first)));
}

FUNC(first)
{
	uint32_t bits;
	int first;
	return axes_of(VALUE(0), VALUE(1), &bits, &first) ? number(first) : unknown();
}

FUNC(kernel_exists)
{
	const gg_node *n = m->node[arg[0]->slot];
	const char *name = n ? n->graph->m->target : 0;
	const gg_target *t = name ? gg_target_find(name) : 0;
	const gg_row *r = t && n ? gg_target_row(t, n) : 0;
	return number(n && (!t || (r && (!t->nrows || strcmp(r->kernel, "ref")))));
}

#define ROW(NAME, ARGS, HELP) \
	{ \
#NAME, ARGS, HELP, f_##NAME \
	}
static const rule_func funcs[] = {
    ROW(constant, "v", "its contents are known and nothing updates it"),
    ROW(count, "v", "how many elements it has"),
    ROW(dim, "vx", "a size of its shape; negative axes count from the end"),
    ROW(dtype, "v", "its dtype: dtype(x) == f32"),
    ROW(first, "vv", "the lowest of constant axes of the second value"),
    ROW(fits, "vv", "broadcast with the second, it has the second's shape"),
    ROW(float, "v", "its dtype is a float"),
    ROW(given, "v", "it is there: for b?"),
    ROW(is_output, "v", "it is an output of the graph"),
    ROW(kernel_exists, "n", "the target has a kernel for the node; before selection: always"),
    ROW(one_use, "v", "it has one reader, and is no output"),
    ROW(param, "v", "it is a parameter"),
    ROW(rank, "v", "its rank"),
    ROW(same_dtype, "vv", "both have one dtype"),
    ROW(same_shape, "vv", "both have one shape"),
    ROW(scalar, "v", "it has one element"),
    ROW(static, "v", "all its sizes are numbers"),
    ROW(trailing, "vv", "constant axes: the last ones of the second value, without a gap"),
    ROW(value, "v", "the number in a constant of one element"),
};
#undef ROW
#define NFUNCS (sizeof funcs / sizeof *funcs)

const rule_func *rule_func_find(const char *name)
{
	for (size_t i = 0; i < NFUNCS; i++)
		if (!strcmp(funcs[i].name, name))
			return &funcs[i];
	return 0;
}

/* The one that shares the longest beginning. */
const char *rule_func_nearest(const char *name)
{
	const char *best = 0;
	size_t most = 2;
	for (size_t i = 0; i < NFUNCS; i++) {
		size_t n = 0;
		while (name[n] && name[n] == funcs[i].name[n])
			n++;
		if (n > most) {
			most = n;
			best = funcs[i].name;
		}
	}
	return best;
}

void gg_rules_help(gg_buf *b)
{
	for (size_t i = 0; i < NFUNCS; i++)
		gg_buf_printf(b, "%-14s %s\n", funcs[i].name, funcs[i].help);
}

/* ---- expressions -------------------------------------------------------------------------------- */
static rule_result of_attr(const gg_attr *a)
{
	if (!a)
		return unknown();
	switch (a->type) {
	case GG_ATTR_INT:
		return number((double)a->i);
	case GG_ATTR_FLOAT:
		return number((double)a->f);
	case GG_ATTR_DTYPE:
		return number(a->dtype);
	case GG_ATTR_STRING:
		return (rule_result){.known = true, .s = a->s};
	default:
		return unknown();
	}
}

static rule_result node_attr(const gg_node *n, const char *name)
{
	const gg_attr *a = n ? gg_find_attr(n, name) : 0;
	return of_attr(a ? a : n ? gg_op_default(n->op, name) : 0);
}

/* false and X is false whatever X is, so that given(b) guards what follows. */
static rule_result logic(const match *m, const rule_expr *e)
{
	rule_result a = rule_eval(m, e->arg[0]);
	if (e->op == 'n')
		return a.known ? number(!a.x) : a;
	bool is_and = e->op == '&';
	if (a.known && (is_and ? !a.x : a.x != 0))
		return number(!is_and);
	rule_result b = rule_eval(m, e->arg[1]);
	if (b.known && (is_and ? !b.x : b.x != 0))
		return number(!is_and);
	return a.known && b.known ? number(is_and) : unknown();
}

static rule_result binary(const match *m, const rule_expr *e)
{
	rule_result a = rule_eval(m, e->arg[0]), b = e->narg > 1 ? rule_eval(m, e->arg[1]) : number(0);
	if (!a.known || !b.known)
		return unknown();
	if (a.s || b.s) {
		bool same = a.s && b.s && !strcmp(a.s, b.s);
		return e->op == '=' ? number(same) : e->op == '!' ? number(!same) : unknown();
	}
	switch (e->op) {
	case '+':
		return number(a.x + b.x);
	case '-':
		return number(a.x - b.x);
	case '*':
		return number(a.x * b.x);
	case '/':
		return b.x == 0 ? unknown() : number(a.x / b.x);
	case 'm':
		return number(-a.x);
	case '=':
		return number(a.x == b.x);
	case '!':
		return number(a.x != b.x);
	case '<':
		return number(a.x < b.x);
	case '>':
		return number(a.x > b.x);
	case 'l':
		return number(a.x <= b.x);
	default:
		return number(a.x >= b.x);
	}
}

rule_result rule_eval(const match *m, const rule_expr *e)
{
	double x;
	switch (e->kind) {
	case EX_NUMBER:
		return number(e->number);
	case EX_TEXT:
		return (rule_result){.known = true, .s = e->text};
	case EX_ATTR:
		return node_attr(m->node[e->slot], e->text);
	case EX_BOUND:
		return of_attr(m->attr[e->slot]);
	case EX_VALUE:
	case EX_NODE:
		return rule_scalar(rule_value(m, e), &x) ? number(x) : unknown();
	case EX_CALL:
		return e->func->f(m, e->arg);
	case EX_OP:
		return strchr("&|n", e->op) ? logic(m, e) : binary(m, e);
	}
	return unknown();
}

bool rule_holds(const match *m, const rule_expr *e)
{
	rule_result r = rule_eval(m, e);
	return r.known && !r.s && r.x != 0;
}
