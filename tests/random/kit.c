#include "kit.h"
#include "../../lib/stream.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

gg_value absent;

uint32_t below(gen *r, uint32_t n) { return (uint32_t)(gg_uniform(r->seed, r->drawn++) * n); }
bool chance(gen *r, int percent) { return (int)below(r, 100) < percent; }

const char *one_of(gen *r, const char *words)
{
	uint32_t n = 1;
	for (const char *s = words; *s; s++)
		n += *s == ' ';
	for (n = below(r, n); n; n--)
		words = strchr(words, ' ') + 1;
	return gg_strndup(&r->a, words, strcspn(words, " "));
}

/* ---- values ------------------------------------------------------------------------------- */
static bool fits(const gg_value *v, gg_dtypes set, int lo, int hi)
{
	return GG_DT(v->dtype) & set && v->shape.rank >= lo && v->shape.rank <= hi;
}

static gg_dim some_dim(gen *r)
{
	static const int dims[] = {1, 2, 3, 4, 5, 6, 7, 8};
	return chance(r, 1) ? 0 : chance(r, 15) ? 1 : dims[below(r, 8)];
}

static gg_dtype some_dtype(gen *r, gg_dtypes set)
{
	static const gg_dtype order[] = {GG_I64, GG_I32, GG_BOOL, GG_F32, GG_F16, GG_BF16,
	                                 GG_F64, GG_U8,  GG_I8,   GG_I16, GG_U32};
	if (GG_DT(r->main) & set && chance(r, 85))
		return r->main;
	for (uint32_t k = 0; k < 100; k++) {
		gg_dtype t = order[k < 50 ? below(r, 7) : below(r, 11)];
		if (GG_DT(t) & set)
			return t;
	}
	return r->main;
}

static void remember(gen *r, gg_value *v) { GG_PUSH(r->pool, r->npool, r->cap_pool, v); }

gg_value *weight(gen *r, gg_dtype t, int rank, const gg_dim *dim, double mean, double spread)
{
	gg_shape s = gg_shape_of(rank, dim);
	if (!gg_shape_known(&s) || gg_shape_count(&s) > MOST_ELEMENTS * 4)
		return 0;
	gg_tensor x = {t, s, gg_xaligned((size_t)gg_shape_count(&s) * gg_dtype_size(t) + 1)};
	for (int64_t i = 0; i < gg_count(&x); i++) {
		double u = mean + spread * (2 * gg_uniform(r->seed, r->drawn) - 1);
		if (gg_dtype_class(t) == 'F')
			gg_set_f64(&x, i, u);
		else
			gg_set_i64(&x, i, t == GG_BOOL ? u > mean : (int64_t)u);
		r->drawn++;
	}
	gg_data *d = gg_data_inline(r->m, x.data, (int64_t)gg_nbytes(&x));
	free(x.data);
	return gg_add_const(r->g, chance(r, 30) ? GG_CONST : GG_PARAM, gg_fresh_name(r->g, "w"), t, &s, d);
}

gg_value *number(gen *r, gg_dtype t, double x)
{
	double room = 0;
	gg_tensor one = {.dtype = t, .data = &room};
	if (chance(r, 5))
		one.shape = gg_shape_of(1, (gg_dim[]){1});
	if (gg_dtype_class(t) == 'F')
		gg_set_f64(&one, 0, x);
	else
		gg_set_i64(&one, 0, (int64_t)x);
	return gg_add_tensor(r->g, "c", &one);
}

gg_value *ints(gen *r, int n, const int64_t *x)
{
	gg_tensor t = {.dtype = GG_I64, .shape = {.rank = 1, .dim = {n}}, .data = (void *)(uintptr_t)x};
	return gg_add_tensor(r->g, "i", &t);
}

gg_value *fresh(gen *r, gg_dtype t, int rank, const gg_dim *dim)
{
	gg_shape s = gg_shape_of(rank, dim);
	bool fixed = gg_shape_known(&s);
	if (fixed && gg_shape_count(&s) > MOST_ELEMENTS)
		return 0;
	gg_value *v = r->g->owner || r->g != r->m->main || (fixed && chance(r, 20))
	                  ? weight(r, t, rank, dim, 0, 2)
	                  : gg_add_input(r->g, gg_fresh_name(r->g, "x"), t, &s);
	if (v)
		remember(r, v);
	return v;
}

gg_value *pick(gen *r, gg_dtypes set, int lo, int hi)
{
	gg_value *best = 0;
	uint32_t n = 0;
	bool unread = chance(r, 65);
	for (size_t i = 0; i < r->npool; i++) {
		gg_value *v = r->pool[i];
		if (!fits(v, set, lo, hi) || (unread && v->uses))
			continue;
		if (unread ? chance(r, 60) || !best : below(r, ++n) == 0)
			best = v; /* of unread ones a late one */
	}
	if (best && !chance(r, 6))
		return best;
	gg_dim dim[GG_MAX_RANK];
	int rank = lo + (int)below(r, (uint32_t)((hi > lo + 4 ? lo + 4 : hi) - lo + 1));
	for (int i = 0; i < rank; i++)
		dim[i] = i ? some_dim(r) : r->batch;
	return fresh(r, some_dtype(r, set), rank, dim);
}

gg_value *pick_like(gen *r, const gg_value *x)
{
	gg_value *best = 0;
	uint32_t n = 0;
	for (size_t i = 0; i < r->npool; i++)
		if (r->pool[i] != x && r->pool[i]->dtype == x->dtype &&
		    gg_shape_eq(&r->pool[i]->shape, &x->shape) && below(r, ++n) == 0)
			best = r->pool[i];
	return best;
}

/* ---- nodes -------------------------------------------------------------------------------- */
static bool set_attrs(gen *r, gg_node *n, const char *attrs)
{
	for (const char *s = attrs; s && *s; s += *s == ';') {
		size_t name = strcspn(s += strspn(s, " "), "="), len = strcspn(s, ";");
		const gg_attr_spec *spec = gg_op_attr(n->op, gg_strndup(&r->a, s, name));
		gg_attr a;
		if (!spec || name >= len ||
		    !gg_parse_attr(&r->d, &r->m->arena, gg_strndup(&r->a, s + name + 1, len - name - 1),
		                   spec->type, &a))
			gg_bug("attribute '%s' of '%s'", s, n->op->name);
		a.name = gg_intern(spec->name);
		gg_set_attr(n, &a);
		s += len;
	}
	return true;
}

/* Sizes that fit; a rank that is not known cannot be worked with. */
static bool is_small(const gg_node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] &&
		    (n->out[i]->shape.rank < 0 || gg_shape_count(&n->out[i]->shape) > MOST_ELEMENTS))
			return false;
	return true;
}

gg_value *node(gen *r, const char *op, const char *attrs, int nout, int nin, gg_value *const *in)
{
	gg_value *arg[64];
	const char *name[8];
	const gg_op *o = gg_op_find(op);
	if (!o)
		gg_bug("no op '%s'", op);
	for (int i = 0; i < nin; i++) {
		if (!in[i])
			return 0;
		arg[i] = in[i] == &absent ? 0 : in[i];
	}
	if (o->flags & GG_COMMUTES && nin == 2 && chance(r, 50)) {
		arg[0] = in[1];
		arg[1] = in[0];
	}
	for (int i = 0; i < nout; i++)
		name[i] = gg_fresh_name(r->g, gg_printf(&r->a, "t%d", i));
	gg_node *n = gg_add_node(r->g, 0, o, nin, arg, nout, name);
	if (!set_attrs(r, n, attrs) || !gg_infer_node(&r->d, n) || !is_small(n)) {
		gg_remove_node(n);
		return 0;
	}
	for (int i = 0; i < nout; i++)
		remember(r, n->out[i]);
	return n->out[0];
}

/* ---- expressions ---------------------------------------------------------------------------- */
typedef struct scan {
	gen *r;
	const char *s, *text;
	gg_value *bound[4]; /* x y z w */
} scan;

static void blanks(scan *p) { p->s += strspn(p->s, " "); }

static bool eat(scan *p, char c)
{
	blanks(p);
	return *p->s == c && p->s++;
}

static gg_value *list(scan *p)
{
	int64_t x[16];
	int n = 0;
	while (!eat(p, ']')) {
		x[n++] = strtoll(p->s, (char **)&p->s, 10);
		eat(p, ',');
	}
	return ints(p->r, n, x);
}

static gg_value *text(scan *p)
{
	size_t len = strcspn(p->s, "'");
	const char *word = gg_strndup(&p->r->m->arena, p->s, len);
	gg_tensor t = {.dtype = GG_STRING, .data = &word};
	p->s += len + 1;
	return gg_add_tensor(p->r->g, "word", &t);
}

static gg_value *term(scan *p);

static gg_value *call(scan *p)
{
	gg_value *in[64];
	int nin = 0, nout = 1;
	size_t len = strspn(p->s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
	const char *op = gg_strndup(&p->r->a, p->s, len), *attrs = 0;
	p->s += len;
	if (eat(p, ':'))
		nout = (int)strtol(p->s, (char **)&p->s, 10);
	if (!eat(p, '('))
		gg_bug("'(' after '%s' in '%s'", op, p->text);
	while (!eat(p, ')')) {
		in[nin++] = term(p);
		eat(p, ',');
	}
	if (eat(p, '{')) {
		len = strcspn(p->s, "}");
		attrs = gg_strndup(&p->r->a, p->s, len);
		p->s += len + 1;
	}
	return node(p->r, op, attrs, nout, nin, in);
}

static gg_value *term(scan *p)
{
	blanks(p);
	const char *bound = strchr("xyzw", *p->s);
	if (*p->s && bound && !isalnum((unsigned char)p->s[1]))
		return p->s++, p->bound[bound - "xyzw"];
	if (eat(p, '_'))
		return &absent;
	if (eat(p, '['))
		return list(p);
	if (eat(p, '\''))
		return text(p);
	if (isupper((unsigned char)*p->s))
		return call(p);
	char *end;
	double x = strtod(p->s, &end);
	if (end == p->s)
		gg_bug("a term at '%s' in '%s'", p->s, p->text);
	p->s = end;
	return number(p->r, p->bound[0] ? (gg_dtype)p->bound[0]->dtype : GG_F32, x);
}

gg_value *expr(gen *r, const char *text, gg_value *x, gg_value *y, gg_value *z, gg_value *w)
{
	scan p = {r, text, text, {x, y, z, w}};
	return x ? term(&p) : 0;
}
