/* Dims: interned polynomials over symbols and over floor-div, max and min of other dims.
 *
 *     expr   terms, highest degree first; the constant last        2*M*N+N-1
 *      term   coefficient and a product of atoms, sorted by text    2 · M · N
 *       atom   a symbol, or floor-div, max, min of two dims         N    (H-1)/2     max(N,M)
 *
 * The text of an expression is its identity: two expressions with equal text are one handle.
 * Everything is kept for the life of the process. A result that would grow past the limits below,
 * or whose coefficients overflow, becomes a fresh symbol '?lost.K': a size that is not known. */
#include "tensor.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEGREE = 16, MAX_TERMS = 32, MAX_DEPTH = 24, MAX_TEXT = 1024 };

/* The first handle; the others lie below. */
static const gg_dim handle_top = -((gg_dim)1 << 40);

typedef struct atom {
	char op; /* 's' symbol, '/' floor-div, 'M' max, 'm' min */
	int depth;
	const char *text; /* as a factor */
	const char *sym;
	gg_dim a, b;
} atom;

typedef struct term {
	int64_t coef;
	int n;
	const atom *atom[MAX_DEGREE];
} term;

typedef struct expr {
	int n, depth;
	const char *text;
	term *term;
} expr;

/* An expression being made. */
typedef struct work {
	int n;
	bool lost;
	term term[MAX_TERMS + 1];
} work;

static expr *exprs;
static size_t nexprs, cap_exprs;
static gg_map expr_of_text, atom_of_text; /* index + 1; atom */

static bool is_expr(gg_dim d) { return !gg_dim_number(d); }

static const expr *get(gg_dim d)
{
	size_t i = (size_t)(handle_top - d);
	if (i >= nexprs)
		gg_bug("dim %lld is no expression", (long long)d);
	return &exprs[i];
}

static int depth_of(gg_dim d) { return is_expr(d) ? get(d)->depth : 0; }

/* ---- text ---------------------------------------------------------------------------------- */

static bool plain_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '?';
}
static bool plain_char(char c) { return plain_start(c) || (c >= '0' && c <= '9') || c == '.'; }

static bool is_plain(const char *s)
{
	if (!plain_start(*s))
		return false;
	while (plain_char(*s))
		s++;
	return !*s;
}

static void put_symbol(gg_buf *b, const char *s)
{
	if (is_plain(s)) {
		gg_buf_str(b, s);
		return;
	}
	gg_buf_str(b, "'");
	for (; *s; s++) {
		if (*s == '\'' || *s == '\\')
			gg_buf_printf(b, "\\%c", *s);
		else if ((unsigned char)*s < ' ')
			gg_buf_printf(b, "\\x%02x", *s);
		else
			gg_buf_add(b, s, 1);
	}
	gg_buf_str(b, "'");
}

static void put_operand(gg_buf *b, gg_dim d)
{
	bool bare = !is_expr(d) || gg_dim_is_symbol(d);
	gg_buf_printf(b, bare ? "%s" : "(%s)", gg_dim_str(d));
}

static void put_term(gg_buf *b, const term *t, bool first)
{
	gg_buf_str(b, first || t->coef < 0 ? "" : "+");
	if (t->n == 0 || (t->coef != 1 && t->coef != -1))
		gg_buf_printf(b, t->n ? "%lld*" : "%lld", (long long)t->coef);
	else if (t->coef == -1)
		gg_buf_str(b, "-");
	for (int i = 0; i < t->n; i++) {
		/* A quotient stands bare only where it is the whole term. */
		bool wrap = t->atom[i]->op == '/' && (t->n > 1 || t->coef != 1);
		gg_buf_str(b, i ? "*" : "");
		gg_buf_printf(b, wrap ? "(%s)" : "%s", t->atom[i]->text);
	}
}

const char *gg_dim_str(gg_dim d)
{
	char s[24];
	if (is_expr(d))
		return get(d)->text;
	snprintf(s, sizeof s, "%lld", (long long)d);
	return gg_intern(s);
}

/* ---- interning ------------------------------------------------------------------------------- */

static const atom *make_atom(char op, const char *sym, gg_dim x, gg_dim y)
{
	gg_buf b = {0};
	if (op == 's') {
		put_symbol(&b, sym);
	} else if (op == '/') {
		put_operand(&b, x);
		gg_buf_str(&b, "/");
		put_operand(&b, y);
	} else {
		gg_buf_printf(&b, "%s(%s,%s)", op == 'M' ? "max" : "min", gg_dim_str(x), gg_dim_str(y));
	}
	const char *text = gg_intern_n(b.p, b.len);
	gg_buf_fini(&b);
	atom *a = gg_map_gets(&atom_of_text, text);
	if (a)
		return a;
	int dx = depth_of(x), dy = depth_of(y);
	a = gg_xmalloc(sizeof *a);
	*a = (atom){op, op == 's' ? 0 : 1 + (dx > dy ? dx : dy), text, sym, x, y};
	gg_map_puts(&atom_of_text, text, a);
	return a;
}

static int compare_terms(const term *a, const term *b)
{
	if (a->n != b->n)
		return b->n - a->n;
	for (int i = 0; i < a->n; i++)
		if (a->atom[i] != b->atom[i])
			return strcmp(a->atom[i]->text, b->atom[i]->text);
	return 0;
}

static int nlost;

static gg_dim lost(void)
{
	char s[32];
	do
		snprintf(s, sizeof s, "?lost.%d", ++nlost);
	while (gg_map_gets(&atom_of_text, s));
	return gg_dim_sym(s);
}

static gg_dim intern(const work *w)
{
	int depth = 0;
	gg_buf b = {0};
	if (w->lost)
		return lost();
	if (w->n == 0)
		return 0;
	if (w->n == 1 && w->term[0].n == 0 && w->term[0].coef > handle_top)
		return w->term[0].coef;
	if (w->n == 1 && w->term[0].n == 0)
		return lost();
	for (int i = 0; i < w->n; i++) {
		put_term(&b, &w->term[i], i == 0);
		for (int j = 0; j < w->term[i].n; j++)
			if (w->term[i].atom[j]->depth > depth)
				depth = w->term[i].atom[j]->depth;
	}
	bool fits = depth <= MAX_DEPTH && b.len <= MAX_TEXT;
	const char *text = fits ? gg_intern_n(b.p, b.len) : NULL;
	gg_buf_fini(&b);
	if (!fits)
		return lost();
	size_t at = (size_t)(uintptr_t)gg_map_gets(&expr_of_text, text);
	if (!at) {
		expr e = {w->n, depth, text, gg_xmalloc((size_t)w->n * sizeof *e.term)};
		memcpy(e.term, w->term, (size_t)w->n * sizeof *e.term);
		GG_PUSH(exprs, nexprs, cap_exprs, e);
		at = nexprs;
		gg_map_puts(&expr_of_text, text, (void *)(uintptr_t)at);
	}
	return handle_top - (gg_dim)(at - 1);
}

/* ---- polynomials ----------------------------------------------------------------------------- */

static void add_term(work *w, const term *t)
{
	int i = 0;
	while (i < w->n && compare_terms(&w->term[i], t) < 0)
		i++;
	if (i < w->n && compare_terms(&w->term[i], t) == 0) {
		w->lost |= __builtin_add_overflow(w->term[i].coef, t->coef, &w->term[i].coef);
		if (w->term[i].coef == 0)
			memmove(&w->term[i], &w->term[i + 1], (size_t)(--w->n - i) * sizeof *t);
		return;
	}
	if (t->coef == 0)
		return;
	memmove(&w->term[i + 1], &w->term[i], (size_t)(w->n++ - i) * sizeof *t);
	w->term[i] = *t;
	if (w->n > MAX_TERMS) {
		w->lost = true;
		w->n--;
	}
}

/* The terms of d: a number is one term without atoms. */
static const term *terms(gg_dim d, term *number, int *n)
{
	if (is_expr(d)) {
		*n = get(d)->n;
		return get(d)->term;
	}
	*number = (term){.coef = d};
	*n = d != 0;
	return number;
}

static term mul_terms(const term *a, const term *b, bool *lost)
{
	term t = {.n = 0};
	int i = 0, j = 0;
	*lost |= __builtin_mul_overflow(a->coef, b->coef, &t.coef) || a->n + b->n > MAX_DEGREE;
	while (!*lost && (i < a->n || j < b->n)) {
		bool left = j == b->n || (i < a->n && strcmp(a->atom[i]->text, b->atom[j]->text) <= 0);
		t.atom[t.n++] = left ? a->atom[i++] : b->atom[j++];
	}
	return t;
}

/* w += k * d */
static void add_scaled(work *w, gg_dim d, const term *k)
{
	term number;
	int n;
	const term *t = terms(d, &number, &n);
	for (int i = 0; i < n && !w->lost; i++) {
		term p = mul_terms(&t[i], k, &w->lost);
		if (!w->lost)
			add_term(w, &p);
	}
}

static const term one = {.coef = 1}, minus_one = {.coef = -1};

gg_dim gg_dim_sym(const char *name)
{
	work w;
	w.n = 1;
	w.lost = false;
	w.term[0] = (term){.coef = 1, .n = 1, .atom = {make_atom('s', gg_intern(name), 0, 0)}};
	return intern(&w);
}

gg_dim gg_dim_add(gg_dim a, gg_dim b)
{
	int64_t sum;
	if (!is_expr(a) && !is_expr(b) && !__builtin_add_overflow(a, b, &sum) && !is_expr(sum))
		return sum;
	if (a == 0 || b == 0)
		return a == 0 ? b : a;
	work w;
	w.n = 0;
	w.lost = false;
	add_scaled(&w, a, &one);
	add_scaled(&w, b, &one);
	return intern(&w);
}

gg_dim gg_dim_sub(gg_dim a, gg_dim b)
{
	work w;
	if (a == b || b == 0)
		return b == 0 ? a : 0;
	w.n = 0;
	w.lost = false;
	add_scaled(&w, a, &one);
	add_scaled(&w, b, &minus_one);
	return intern(&w);
}

gg_dim gg_dim_mul(gg_dim a, gg_dim b)
{
	int64_t product;
	if (!is_expr(a) && !is_expr(b) && !__builtin_mul_overflow(a, b, &product) && !is_expr(product))
		return product;
	if (a == 1 || b == 1)
		return a == 1 ? b : a;
	work w;
	term number;
	int n;
	w.n = 0;
	w.lost = false;
	const term *t = terms(b, &number, &n);
	for (int i = 0; i < n && !w.lost; i++)
		add_scaled(&w, a, &t[i]);
	return intern(&w);
}

static gg_dim from_atom(const atom *a)
{
	work w;
	w.n = 1;
	w.lost = a->depth > MAX_DEPTH;
	w.term[0] = (term){.coef = 1, .n = 1, .atom = {a}};
	return intern(&w);
}

/* ---- division -------------------------------------------------------------------------------- */

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static int64_t gcd(int64_t a, int64_t b)
{
	a = a < 0 ? -a : a;
	b = b < 0 ? -b : b;
	while (b) {
		int64_t r = a % b;
		a = b;
		b = r;
	}
	return a;
}

/* t / by into *out, when it leaves nothing over. */
static bool divide_term(const term *t, const term *by, term *out)
{
	int j = 0;
	if (t->coef == INT64_MIN || t->coef % by->coef)
		return false;
	out->coef = t->coef / by->coef;
	out->n = 0;
	for (int i = 0; i < t->n; i++) {
		if (j < by->n && t->atom[i] == by->atom[j])
			j++;
		else
			out->atom[out->n++] = t->atom[i];
	}
	return j == by->n;
}

/* Long division by the leading term of b: what divides goes to *q, the rest stays. With a b of
 * several terms only a division without rest is of use. */
static gg_dim divide_out(gg_dim a, gg_dim b, gg_dim *q)
{
	*q = 0;
	for (int step = 0; step <= MAX_TERMS; step++) {
		term na, nb, k;
		int n, m, i = 0;
		const term *ta = terms(a, &na, &n), *tb = terms(b, &nb, &m);
		while (i < n && m > 0 && !divide_term(&ta[i], &tb[0], &k))
			i++;
		if (i == n || m == 0 || (m > 1 && i > 0))
			break;
		work one_term, rest;
		one_term.n = 1;
		one_term.lost = false;
		one_term.term[0] = k;
		*q = gg_dim_add(*q, intern(&one_term));
		rest.n = 0;
		rest.lost = false;
		add_scaled(&rest, a, &one);
		k.coef = -k.coef;
		add_scaled(&rest, b, &k);
		a = intern(&rest);
	}
	return a;
}

/* floor(a/b) for a number b > 1, where no coefficient of a but the constant is a multiple of b. */
static gg_dim divide_number(gg_dim a, int64_t b)
{
	const expr *e = get(a);
	const term *last = &e->term[e->n - 1];
	int64_t c = last->n ? 0 : last->coef, g = b, whole = floor_div(c, b);
	int n = e->n - (last->n == 0);
	if (whole) { /* the constant keeps 0..b-1 */
		int64_t part;
		if (__builtin_mul_overflow(whole, b, &part))
			return lost();
		return gg_dim_add(whole, gg_dim_div(gg_dim_sub(a, part), b));
	}
	for (int i = 0; i < n; i++)
		g = gcd(e->term[i].coef, g);
	if (g > 1) { /* floor((g*x + c) / (g*y)) = floor((x + floor(c/g)) / y) */
		gg_dim x;
		divide_out(gg_dim_sub(a, c), g, &x);
		return gg_dim_div(gg_dim_add(x, floor_div(c, g)), b / g);
	}
	const term *t = &e->term[0];
	const atom *in = t->n == 1 ? t->atom[0] : NULL;
	int64_t k, ck;
	if (n == 1 && in && t->coef == 1 && in->op == '/' && gg_dim_known(in->b) && in->b > 0 &&
	    !__builtin_mul_overflow(in->b, b, &k) && !__builtin_mul_overflow(c, in->b, &ck))
		return gg_dim_div(gg_dim_add(in->a, ck), k); /* floor((floor(x/y) + c) / b) */
	return from_atom(make_atom('/', NULL, a, b));
}

gg_dim gg_dim_div(gg_dim a, gg_dim b)
{
	gg_dim q, rest;
	if (b == 0)
		return lost();
	if (!is_expr(a) && !is_expr(b))
		return floor_div(a, b);
	if (b == 1 || a == b)
		return b == 1 ? a : 1;
	if (!is_expr(b) && b < 0) {
		a = gg_dim_mul(a, -1);
		b = -b;
		return gg_dim_div(a, b);
	}
	rest = divide_out(a, b, &q);
	if (rest == 0)
		return q;
	if (is_expr(b) && get(b)->n > 1)
		return from_atom(make_atom('/', NULL, a, b));
	if (!is_expr(b))
		rest = is_expr(rest) ? divide_number(rest, b) : floor_div(rest, b);
	else
		rest = from_atom(make_atom('/', NULL, rest, b));
	return gg_dim_add(q, rest);
}

gg_dim gg_dim_ceildiv(gg_dim a, gg_dim b)
{
	if (!is_expr(b) && b < 0)
		return gg_dim_ceildiv(gg_dim_mul(a, -1), -b);
	return gg_dim_div(gg_dim_add(a, gg_dim_sub(b, 1)), b);
}

/* ---- max and min ----------------------------------------------------------------------------- */

/* Sizes are not negative, so a sum of them is not either. */
bool gg_dim_natural(gg_dim d)
{
	if (!is_expr(d))
		return d >= 0;
	const expr *e = get(d);
	for (int i = 0; i < e->n; i++) {
		if (e->term[i].coef < 0)
			return false;
		for (int j = 0; j < e->term[i].n; j++) {
			const atom *a = e->term[i].atom[j];
			bool both = a->op == 's' || (gg_dim_natural(a->a) && gg_dim_natural(a->b));
			bool either = a->op == 'M' && (gg_dim_natural(a->a) || gg_dim_natural(a->b));
			if (!both && !either)
				return false;
		}
	}
	return true;
}

static bool holds(gg_dim d, char op, gg_dim x)
{
	if (!is_expr(d) || get(d)->n != 1 || get(d)->term[0].n != 1 || get(d)->term[0].coef != 1)
		return false;
	const atom *a = get(d)->term[0].atom[0];
	return a->op == op && (a->a == x || a->b == x || holds(a->a, op, x) || holds(a->b, op, x));
}

static gg_dim choose(char op, gg_dim a, gg_dim b)
{
	gg_dim more = op == 'M' ? a : b, less = op == 'M' ? b : a;
	if (holds(a, op, b))
		return a;
	if (holds(b, op, a))
		return b;
	if (!is_expr(a) && !is_expr(b))
		return (a > b) == (op == 'M') ? a : b;
	if (gg_dim_natural(gg_dim_sub(more, less)))
		return a;
	if (gg_dim_natural(gg_dim_sub(less, more)))
		return b;
	bool swap = strcmp(gg_dim_str(a), gg_dim_str(b)) > 0;
	return from_atom(make_atom(op, NULL, swap ? b : a, swap ? a : b));
}

gg_dim gg_dim_max(gg_dim a, gg_dim b) { return choose('M', a, b); }
gg_dim gg_dim_min(gg_dim a, gg_dim b) { return choose('m', a, b); }

/* ---- walking --------------------------------------------------------------------------------- */

const char *gg_dim_symbol(gg_dim d)
{
	if (!is_expr(d))
		return NULL;
	const expr *e = get(d);
	bool one = e->n == 1 && e->term[0].coef == 1 && e->term[0].n == 1;
	return one && e->term[0].atom[0]->op == 's' ? e->term[0].atom[0]->sym : NULL;
}

bool gg_dim_is_symbol(gg_dim d) { return gg_dim_symbol(d); }

static void note_from_data(const char *sym, void *arg) { *(bool *)arg |= *sym == '?'; }

bool gg_dim_from_data(gg_dim d)
{
	bool is = false;
	gg_dim_symbols(d, note_from_data, &is);
	return is;
}

/* A symbol remembers where it was bound last: where that is wrong, all of them are told anew. */
static const gg_binding *find_binding(const char *sym, const gg_binding *b, size_t n)
{
	const uint64_t *at = gg_intern_mark(sym);
	if (*at >= n || b[*at].sym != sym)
		for (size_t i = n; i-- > 0;)
			*gg_intern_mark(b[i].sym) = i;
	return *at < n && b[*at].sym == sym ? &b[*at] : 0;
}

static gg_dim bind_atom(const atom *a, const gg_binding *b, size_t n)
{
	if (a->op == 's') {
		const gg_binding *to = find_binding(a->sym, b, n);
		return !to ? from_atom(a) : is_expr(to->value) ? lost() : to->value;
	}
	gg_dim x = gg_dim_bind(a->a, b, n), y = gg_dim_bind(a->b, b, n);
	return a->op == '/' ? gg_dim_div(x, y) : choose(a->op, x, y);
}

gg_dim gg_dim_bind(gg_dim d, const gg_binding *b, size_t n)
{
	if (!is_expr(d))
		return d;
	gg_dim sum = 0;
	expr e = *get(d); /* the table may move while we make others */
	for (int i = 0; i < e.n; i++) {
		gg_dim p = e.term[i].coef;
		for (int j = 0; j < e.term[i].n; j++)
			p = gg_dim_mul(p, bind_atom(e.term[i].atom[j], b, n));
		sum = gg_dim_add(sum, p);
	}
	return sum;
}

void gg_dim_symbols(gg_dim d, void (*f)(const char *sym, void *arg), void *arg)
{
	if (!is_expr(d))
		return;
	expr e = *get(d);
	for (int i = 0; i < e.n; i++) {
		for (int j = 0; j < e.term[i].n; j++) {
			const atom *a = e.term[i].atom[j];
			if (a->op == 's') {
				f(a->sym, arg);
			} else {
				gg_dim_symbols(a->a, f, arg);
				gg_dim_symbols(a->b, f, arg);
			}
		}
	}
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct reader {
	const char *p;
	int depth;
	bool bad;
} reader;

static gg_dim read_sum(reader *r);

static void skip(reader *r)
{
	while (*r->p == ' ')
		r->p++;
}

static bool accept(reader *r, char c)
{
	skip(r);
	if (*r->p != c)
		return false;
	r->p++;
	return true;
}

static void expect(reader *r, char c) { r->bad |= !accept(r, c); }

static gg_dim read_number(reader *r)
{
	int64_t x = 0;
	for (; *r->p >= '0' && *r->p <= '9'; r->p++)
		r->bad |= __builtin_mul_overflow(x, 10, &x) || __builtin_add_overflow(x, *r->p - '0', &x);
	return r->bad ? 0 : x;
}

static gg_dim read_quoted(reader *r)
{
	gg_buf b = {0};
	for (; *r->p && *r->p != '\''; r->p++) {
		unsigned code;
		char c = *r->p;
		if (c == '\\' && r->p[1] == 'x' && sscanf(r->p + 2, "%2x", &code) == 1 && code && r->p[3]) {
			c = (char)code;
			r->p += 3;
		} else if (c == '\\' && r->p[1]) {
			c = *++r->p;
		}
		gg_buf_add(&b, &c, 1);
	}
	expect(r, '\'');
	r->bad |= b.len == 0;
	gg_dim d = r->bad ? 0 : gg_dim_sym(b.p);
	gg_buf_fini(&b);
	return d;
}

static gg_dim read_factor(reader *r)
{
	gg_dim x = 0;
	if (++r->depth > 2 * MAX_DEPTH)
		r->bad = true;
	skip(r);
	if (r->bad) {
		x = 0;
	} else if (*r->p >= '0' && *r->p <= '9') {
		x = read_number(r);
	} else if (accept(r, '-')) {
		x = gg_dim_mul(-1, read_factor(r));
	} else if (accept(r, '(')) {
		x = read_sum(r);
		expect(r, ')');
	} else if (accept(r, '\'')) {
		x = read_quoted(r);
	} else if (plain_start(*r->p)) {
		const char *s = r->p;
		while (plain_char(*r->p))
			r->p++;
		size_t n = (size_t)(r->p - s);
		if (*r->p == '(' && n == 3 && (!memcmp(s, "max", 3) || !memcmp(s, "min", 3))) {
			r->p++;
			x = read_sum(r);
			expect(r, ',');
			x = choose(s[1] == 'a' ? 'M' : 'm', x, read_sum(r));
			expect(r, ')');
		} else {
			x = gg_dim_sym(gg_intern_n(s, n));
		}
	} else {
		r->bad = true;
	}
	r->depth--;
	return x;
}

static gg_dim read_product(reader *r)
{
	gg_dim x = read_factor(r);
	while (!r->bad) {
		if (accept(r, '*')) {
			x = gg_dim_mul(x, read_factor(r));
		} else if (accept(r, '/')) {
			gg_dim y = read_factor(r);
			r->bad |= y == 0;
			x = r->bad ? 0 : gg_dim_div(x, y);
		} else {
			break;
		}
	}
	return x;
}

static gg_dim read_sum(reader *r)
{
	gg_dim x = read_product(r);
	while (!r->bad) {
		if (accept(r, '+'))
			x = gg_dim_add(x, read_product(r));
		else if (accept(r, '-'))
			x = gg_dim_sub(x, read_product(r));
		else
			break;
	}
	return x;
}

bool gg_dim_parse(const char *s, gg_dim *out)
{
	reader r = {.p = s};
	int before = nlost;
	if (strlen(s) > MAX_TEXT)
		return false;
	gg_dim d = read_sum(&r);
	skip(&r);
	if (r.bad || *r.p || nlost != before)
		return false;
	*out = d;
	return true;
}
