/* The text form, read: a recursive descent over the bytes, mirror of text_print.c.
 *
 * Blanks and newlines only separate; a statement starts on a line of its own. The first error is
 * reported with its line and column, counted when it happens, and everything returns from there. */
#include "npy.h"
#include "op.h"
#include "stream.h"
#include "text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const double gg_text_pow10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* The notes of a value or node that is not made yet. */
typedef struct notes {
	int64_t id; /* -1: the next */
	int layout;
	int64_t mem_off, mem_len;
	const char *alias, *alias_at;
	const char *kernel;
	int stream;
	size_t after; /* from here in parser.after */
	gg_extra *extra, **extra_tail;
} notes;

typedef struct result {   /* an output on the left of '=' */
	const char *name; /* NULL: '_' */
	bool typed;
	gg_dtype dtype;
	gg_shape shape;
	notes note;
} result;

typedef struct alias {
	gg_value *v;
	gg_graph *g;
	const char *name, *at;
} alias;

typedef struct parser {
	gg_diag *d;
	const char *start, *p, *end;
	bool failed;
	bool fresh; /* nothing was taken from this line yet */
	gg_model *m;
	gg_graph *g;
	int depth;
	const char *loc;         /* behind the last "#@" that no node has taken */
	const char *folder;      /* of the text, for npy() and file() */
	const gg_source *source; /* of a model; NULL for an attribute */
	int64_t next_id, max_id;
	bool ids_given, untyped;
	gg_arena *arena; /* of the strings and lists of attributes */
	gg_map by_id;    /* nodes that only their id can name */
	gg_map dims;     /* interned text -> dim, of expressions */
	gg_map last_of;  /* list of extras -> its last */
	gg_buf word;     /* the last name or string */
	/* Stacks, so that a body can be read in the middle of its node. */
	gg_value **in;
	size_t nin, cap_in;
	result *out;
	size_t nout, cap_out;
	gg_attr *attr;
	size_t nattr, cap_attr;
	gg_node **after;
	size_t nafter, cap_after;
	alias *alias;
	size_t nalias, cap_alias;
} parser;

/* ---- errors and blanks --------------------------------------------------------------------------- */
__attribute__((format(printf, 4, 5))) static bool fail_as(parser *p, gg_status s, const char *at,
                                                          const char *fmt, ...)
{
	int line = 1, column = 1;
	va_list ap;
	gg_buf b = {0};
	if (p->failed)
		return false;
	p->failed = true;
	for (const char *c = p->start; c < at; c++) {
		column = *c == '\n' ? 1 : column + 1;
		line += *c == '\n';
	}
	va_start(ap, fmt);
	gg_buf_vprintf(&b, fmt, ap);
	va_end(ap);
	gg_error(p->d, s, "line %d, column %d: %s", line, column, b.p);
	gg_buf_fini(&b);
	return false;
}
#define fail(p, at, ...) fail_as(p, GG_MALFORMED, at, __VA_ARGS__)

static int peek(const parser *p) { return p->p < p->end ? (unsigned char)*p->p : -1; }

static void skip_blanks(parser *p)
{
	for (; p->p < p->end; p->p++) {
		if (*p->p == '\n') {
			p->fresh = true;
		} else if (*p->p == '#') {
			if (p->end - p->p > 1 && p->p[1] == '@')
				p->loc = p->p + 2;
			const char *e = memchr(p->p, '\n', (size_t)(p->end - p->p));
			p->p = (e ? e : p->end) - 1;
		} else if (*p->p != ' ' && *p->p != '\t' && *p->p != '\r') {
			break;
		}
	}
}

/* Nearly always at something: all that is skipped, and nothing that is not, sorts up to '#'. */
static inline void skip(parser *p)
{
	if (p->p >= p->end || *p->p <= '#')
		skip_blanks(p);
}

static bool is_next(parser *p, char c)
{
	skip(p);
	return peek(p) == (unsigned char)c;
}

static bool accept(parser *p, char c)
{
	if (!is_next(p, c))
		return false;
	p->p++;
	p->fresh = false;
	return true;
}

/* What stands at `at`, for messages. */
static const char *found(parser *p, const char *at)
{
	size_t n = 0;
	while (at + n < p->end && n < 24 && at[n] != ' ' && at[n] != '\n' &&
	       (n == 0 || gg_text_name_char(at[n])))
		n++;
	if (at >= p->end)
		return "the end";
	return *at == '\n' ? "the end of the line" : gg_printf(p->arena, "'%.*s'", (int)n, at);
}

static bool expect(parser *p, char c)
{
	return accept(p, c) || fail(p, p->p, "expected '%c', found %s", c, found(p, p->p));
}

/* ---- words and strings ------------------------------------------------------------------------------ */

/* A bare word into p->word; false, and nothing taken, when there is none. */
static bool accept_word(parser *p)
{
	skip(p);
	const char *s = p->p;
	while (p->p < p->end && gg_text_name_char(*p->p))
		p->p++;
	if (p->p == s)
		return false;
	p->fresh = false;
	p->word.len = 0;
	gg_buf_add(&p->word, s, (size_t)(p->p - s));
	return true;
}

/* At a word that is exactly this one: takes it. */
static bool accept_keyword(parser *p, const char *word)
{
	skip(p);
	if (peek(p) != (unsigned char)*word)
		return false;
	size_t n = strlen(word);
	if ((size_t)(p->end - p->p) < n || memcmp(p->p, word, n) ||
	    (p->p + n < p->end && gg_text_name_char(p->p[n])))
		return false;
	p->p += n;
	p->fresh = false;
	return true;
}

static int hex_digit(int c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
	                              : -1;
}

static bool read_escape(parser *p)
{
	const char *at = p->p - 1;
	char c = p->p < p->end ? *p->p++ : 0;
	if (c == 'x' && p->end - p->p >= 2) {
		int hi = hex_digit(p->p[0]), lo = hex_digit(p->p[1]);
		c = (char)(hi * 16 + lo);
		if (hi < 0 || lo < 0 || !c)
			return fail(p, at, "bad escape in a string");
		p->p += 2;
	} else if (c == 'n' || c == 't' || c == 'r') {
		c = c == 'n' ? '\n' : c == 't' ? '\t' : '\r';
	} else if (c != '"' && c != '\\') {
		return fail(p, at, "bad escape in a string");
	}
	gg_buf_add(&p->word, &c, 1);
	return true;
}

/* "..." into p->word. */
static bool read_string(parser *p)
{
	skip(p);
	const char *at = p->p;
	if (!accept(p, '"'))
		return fail(p, at, "expected a string, found %s", found(p, at));
	p->word.len = 0;
	gg_buf_add(&p->word, "", 0);
	for (;;) {
		const char *s = p->p;
		while (p->p < p->end && *p->p != '"' && *p->p != '\\' && *p->p != '\n' && *p->p)
			p->p++;
		gg_buf_add(&p->word, s, (size_t)(p->p - s));
		if (p->p == p->end || *p->p == '\n' || !*p->p)
			return fail(p, at, "a string that does not end on its line");
		if (*p->p++ == '"')
			return true;
		if (!read_escape(p))
			return false;
	}
}

static const char *word(parser *p) { return gg_intern_n(p->word.p, p->word.len); }

static const char *read_interned(parser *p) { return read_string(p) ? word(p) : NULL; }

/* %name; NULL: reported. */
static const char *read_name(parser *p)
{
	skip(p);
	const char *at = p->p;
	if (!accept(p, '%')) {
		fail(p, at, "expected a value such as %%x, found %s", found(p, at));
		return NULL;
	}
	if (peek(p) == '"') {
		if (!read_string(p))
			return NULL;
	} else if (peek(p) < 0 || !gg_text_name_char((char)peek(p)) || !accept_word(p)) {
		fail(p, at, "expected a name behind '%%'");
		return NULL;
	}
	if (p->word.len == 0 || p->word.len >= GG_LIMIT_NAME) {
		fail(p, at, "a name is empty or too long");
		return NULL;
	}
	return word(p);
}

/* A bare word or a string. */
static const char *read_word(parser *p)
{
	if (is_next(p, '"'))
		return read_interned(p);
	if (accept_word(p))
		return word(p);
	fail(p, p->p, "expected a word, found %s", found(p, p->p));
	return NULL;
}

/* ---- numbers ------------------------------------------------------------------------------------------ */
typedef struct number {
	const char *at;
	bool minus, whole, bits, fits; /* fits: the magnitude fits in u */
	uint64_t u;
	double x;
} number;

static bool read_bits(parser *p, number *n)
{
	int digits = 0;
	n->bits = n->fits = true;
	for (p->p += 2; p->p < p->end && hex_digit(*p->p) >= 0; p->p++, digits++)
		n->u = n->u << 4 | (unsigned)hex_digit(*p->p);
	return (digits > 0 && digits <= 16) || fail(p, n->at, "bad number");
}

static bool read_special(parser *p, number *n)
{
	if (accept_keyword(p, "inf"))
		n->x = n->minus ? -INFINITY : INFINITY;
	else if (!n->minus && accept_keyword(p, "nan"))
		n->x = NAN;
	else
		return fail(p, n->at, "expected a number, found %s", found(p, n->at));
	return true;
}

/* Digits below 2^53 and a small power of ten are exact as they are; strtod does the rest. */
static void finish_number(parser *p, number *n, int exponent)
{
	char s[800];
	size_t len = (size_t)(p->p - n->at);
	if (n->fits && n->u < 1ull << 53 && exponent >= -GG_TEXT_POW10 && exponent <= GG_TEXT_POW10) {
		n->x = (double)n->u;
		n->x = exponent < 0 ? n->x / gg_text_pow10[-exponent] : n->x * gg_text_pow10[exponent];
		n->x = n->minus ? -n->x : n->x;
		return;
	}
	len = len < sizeof s ? len : sizeof s - 1;
	memcpy(s, n->at, len);
	s[len] = 0;
	n->x = strtod(s, NULL);
}

static bool read_number(parser *p, number *n)
{
	int digits = 0, exponent = 0, e = 0;
	skip(p);
	*n = (number){.at = p->p, .whole = true, .fits = true};
	n->minus = accept(p, '-');
	p->fresh = false;
	if (p->end - p->p > 2 && p->p[0] == '0' && p->p[1] == 'x' && !n->minus)
		return read_bits(p, n);
	if (peek(p) == 'i' || peek(p) == 'n')
		return read_special(p, n);
	for (; p->p < p->end; p->p++) {
		if (*p->p == '.' && n->whole) {
			n->whole = false;
			continue;
		}
		if (*p->p < '0' || *p->p > '9')
			break;
		n->fits = n->fits && !__builtin_mul_overflow(n->u, 10u, &n->u) &&
		          !__builtin_add_overflow(n->u, (uint64_t)(*p->p - '0'), &n->u);
		exponent -= !n->whole;
		digits++;
	}
	if (digits == 0)
		return fail(p, n->at, "expected a number, found %s", found(p, n->at));
	if (digits > 700)
		return fail(p, n->at, "a number of too many digits");
	if (peek(p) == 'e' || peek(p) == 'E') {
		n->whole = false;
		p->p++;
		bool minus = peek(p) == '-';
		if (peek(p) == '-' || peek(p) == '+')
			p->p++;
		if (peek(p) < '0' || peek(p) > '9')
			return fail(p, n->at, "bad number");
		for (; peek(p) >= '0' && peek(p) <= '9'; p->p++)
			e = e < 100000 ? e * 10 + (*p->p - '0') : e;
		exponent += minus ? -e : e;
	}
	if (p->p < p->end && gg_text_name_char(*p->p))
		return fail(p, n->at, "bad number");
	finish_number(p, n, exponent);
	return true;
}

static bool read_int(parser *p, int64_t *out)
{
	number n;
	if (!read_number(p, &n))
		return false;
	uint64_t most = (uint64_t)INT64_MAX + n.minus;
	if (n.bits || !n.whole || !n.fits || n.u > most)
		return fail(p, n.at, "expected an integer of 64 bits");
	*out = n.minus ? (int64_t)(0 - n.u) : (int64_t)n.u;
	return true;
}

static bool read_u64(parser *p, uint64_t *out)
{
	number n;
	if (!read_number(p, &n))
		return false;
	if (n.bits || !n.whole || !n.fits || n.minus)
		return fail(p, n.at, "expected an integer from 0 on");
	*out = n.u;
	return true;
}

/* A float's bits from 0x..., else its value rounded to the dtype; here f8 does not saturate. */
static bool read_float(parser *p, gg_dtype t, void *out)
{
	number n;
	size_t size = gg_dtype_size(t);
	if (!read_number(p, &n))
		return false;
	if (n.bits && size < 8 && n.u >> (8 * size))
		return fail(p, n.at, "more bits than '%s' has", gg_dtype_name(t));
	if (n.bits)
		memcpy(out, &n.u, size);
	else if (t == GG_F8E5M2)
		*(uint8_t *)out = gg_f8e5m2_from(n.x, false);
	else if (t == GG_F8E4M3)
		*(uint8_t *)out = gg_f8e4m3_from(n.x, false);
	else
		gg_store_f64(t, out, 0, 1, &n.x);
	if (t == GG_F8E4M3 && !n.bits && !isnan(n.x) && isnan(gg_f8e4m3_to(*(uint8_t *)out)))
		return fail(p, n.at, "not a value of 'f8e4m3'");
	return true;
}

/* ---- types ------------------------------------------------------------------------------------------- */

/* The end of a dim: a comma or bracket outside parentheses and quotes. */
static const char *dim_end(const parser *p)
{
	int depth = 0;
	const char *c = p->p;
	for (; c < p->end && *c != '\n'; c++) {
		if (*c == '\'') {
			for (c++; c < p->end && *c != '\'' && *c != '\n'; c++)
				c += *c == '\\' && c + 1 < p->end;
			if (c >= p->end || *c == '\n')
				break;
		} else if (*c == '(') {
			depth++;
		} else if (*c == ')') {
			depth--;
		} else if (depth == 0 && (*c == ',' || *c == ']')) {
			break;
		}
	}
	return c;
}

static bool read_dim(parser *p, gg_dim *out)
{
	skip(p);
	const char *at = p->p, *e = dim_end(p);
	int64_t x = 0;
	while (p->p < e && *p->p >= '0' && *p->p <= '9' && x < 1ll << 50)
		x = x * 10 + (*p->p++ - '0');
	if (p->p == e && e > at) {
		*out = x;
		return true;
	}
	const char *text = gg_intern_n(at, (size_t)(e - at));
	*out = (gg_dim)(intptr_t)gg_map_get(&p->dims, (uint64_t)(uintptr_t)text);
	if (!*out) {
		if (strlen(text) != (size_t)(e - at) || !gg_dim_parse(text, out) ||
		    (*out < 0 && gg_dim_number(*out)))
			return fail(p, at, "'%.40s' is no dim", text);
		gg_map_put(&p->dims, (uint64_t)(uintptr_t)text, (void *)(intptr_t)*out);
	}
	p->p = e;
	return true;
}

static bool read_shape(parser *p, gg_shape *s)
{
	*s = (gg_shape){.rank = 0};
	if (!expect(p, '['))
		return false;
	if (accept(p, '*')) {
		s->rank = -1;
		return expect(p, ']');
	}
	if (accept(p, ']'))
		return true;
	do {
		if (s->rank == GG_MAX_RANK)
			return fail(p, p->p, "more than %d dims", GG_MAX_RANK);
		if (!read_dim(p, &s->dim[s->rank]))
			return false;
		s->rank++;
	} while (accept(p, ','));
	return expect(p, ']');
}

static bool read_dtype(parser *p, gg_dtype *t)
{
	skip(p);
	const char *at = p->p;
	if (!accept_word(p))
		return fail(p, at, "expected a type such as f32[N,3], found %s", found(p, at));
	*t = gg_dtype_find(p->word.p);
	return *t != GG_NONE || fail_as(p, GG_UNSUPPORTED, at, "'%.40s' is no dtype", p->word.p);
}

static bool read_type(parser *p, gg_dtype *t, gg_shape *s)
{
	if (accept(p, '?'))
		*t = GG_NONE;
	else if (!read_dtype(p, t))
		return false;
	return read_shape(p, s);
}

/* ---- elements ------------------------------------------------------------------------------------------ */

/* Elements being read: packed as in a file, or flat as in memory. */
typedef struct elements {
	gg_dtype t;
	bool flat;
	gg_buf b;
	int64_t n;
} elements;

static void add_bits(elements *e, uint64_t u)
{
	uint8_t nibble = u & 15, *last;
	if (gg_dtype_bits(e->t) != 4 || e->flat) {
		u = e->t == GG_I4 && nibble & 8 ? nibble | 0xf0 : u;
		gg_buf_add(&e->b, &u, gg_dtype_size(e->t)); /* little endian */
	} else if (e->n % 2 == 0) {
		gg_buf_add(&e->b, &nibble, 1);
	} else {
		last = (uint8_t *)e->b.p + e->b.len - 1;
		*last |= (uint8_t)(nibble << 4);
	}
}

static bool read_integer_element(parser *p, elements *e)
{
	number n;
	int bits = gg_dtype_bits(e->t);
	bool is_signed = gg_dtype_class(e->t) == 'I';
	if (!read_number(p, &n))
		return false;
	uint64_t most = bits == 64 ? UINT64_MAX : (1ull << bits) - 1;
	if (is_signed && !n.bits)
		most = (most >> 1) + n.minus;
	if (!n.whole || !n.fits || n.u > most || (n.minus && !is_signed && n.u))
		return fail(p, n.at, "not a value of '%s'", gg_dtype_name(e->t));
	add_bits(e, n.minus ? 0 - n.u : n.u);
	return true;
}

static bool read_bool_element(parser *p, elements *e)
{
	uint64_t u = 0;
	number n;
	if (accept_keyword(p, "true"))
		u = 1;
	else if (accept_keyword(p, "false"))
		u = 0;
	else if (!read_number(p, &n))
		return false;
	else if (!n.whole || n.minus || n.u > (n.bits ? 255 : 1))
		return fail(p, n.at, "expected true or false");
	else
		u = n.u;
	add_bits(e, u);
	return true;
}

static bool read_element(parser *p, elements *e)
{
	uint64_t u = 0;
	float c[2];
	const char *s;
	bool good = false;
	switch (gg_dtype_class(e->t)) {
	case 'F':
		good = read_float(p, e->t, &u);
		add_bits(e, u);
		break;
	case 'B':
		good = read_bool_element(p, e);
		break;
	case 'C':
		good = expect(p, '(') && read_float(p, GG_F32, &c[0]) && expect(p, ',') &&
		       read_float(p, GG_F32, &c[1]) && expect(p, ')');
		if (good)
			gg_buf_add(&e->b, c, sizeof c);
		break;
	case 'S':
		s = read_interned(p);
		gg_buf_add(&e->b, &s, sizeof s);
		good = s != NULL;
		break;
	default:
		good = read_integer_element(p, e);
	}
	e->n++;
	return good;
}

/* One element, or lists as deep as one likes: only the number of elements counts. */
static bool read_elements(parser *p, elements *e, int64_t most)
{
	int depth = 0;
	skip(p);
	const char *at = p->p;
	do {
		while (accept(p, '['))
			depth++;
		if (depth > 2 * GG_MAX_RANK)
			return fail(p, p->p, "lists are nested too deep");
		if (!is_next(p, ']')) {
			if (e->n == most)
				return fail(p, p->p, "more elements than the %lld of the shape",
				            (long long)most);
			if (!read_element(p, e))
				return false;
		}
		while (depth > 0 && accept(p, ']'))
			depth--;
	} while (depth > 0 && expect(p, ','));
	if (!p->failed && e->n != most)
		fail(p, at, "%lld elements, but the shape has %lld", (long long)e->n, (long long)most);
	return !p->failed;
}

/* Memory form of 4-bit types takes a byte an element; files take half. */
static gg_data *pack(gg_model *m, const gg_tensor *t)
{
	int64_t n = gg_count(t);
	if (gg_dtype_bits(t->dtype) != 4)
		return gg_data_inline(m, n ? t->data : "", (int64_t)gg_nbytes(t));
	elements e = {.t = t->dtype};
	for (; e.n < n; e.n++)
		add_bits(&e, ((const uint8_t *)t->data)[e.n]);
	gg_data *data = gg_data_inline(m, n ? e.b.p : "", (int64_t)e.b.len);
	gg_buf_fini(&e.b);
	return data;
}

static gg_data *read_literal(parser *p, gg_dtype t, const gg_shape *s)
{
	elements e = {.t = t};
	gg_data *data = NULL;
	if (read_elements(p, &e, gg_shape_count(s)))
		data = gg_data_inline(p->m, e.b.p ? e.b.p : "", (int64_t)e.b.len);
	gg_buf_fini(&e.b);
	return data;
}

/* ---- data ------------------------------------------------------------------------------------------------
 */
static gg_data *read_random(parser *p, gg_fill f)
{
	uint64_t seed = 0;
	double a = 0, b = 0;
	if (!expect(p, '(') || !read_u64(p, &seed) || !expect(p, ',') || !read_float(p, GG_F64, &a) ||
	    !expect(p, ',') || !read_float(p, GG_F64, &b) || !expect(p, ')'))
		return NULL;
	return gg_data_fill(p->m, f, seed, a, b);
}

/* Paths are relative to `base`; where the text names none, to the folder it lies in. */
static void need_base(parser *p)
{
	if (!p->m->base)
		p->m->base = p->folder;
}

/* file("w.bin", off, len, size, mtime, "hash"): what is left out is found out. */
static gg_data *read_file_data(parser *p, const char *what, gg_dtype t, const gg_shape *s)
{
	int64_t x[4] = {0, (int64_t)gg_packed_bytes(t, gg_shape_count(s)), 0, 0};
	int n = 0;
	const char *file, *hash = NULL;
	need_base(p);
	if (!expect(p, '(') || !(file = read_interned(p)))
		return NULL;
	while (n < 4 && accept(p, ','))
		if (!read_int(p, &x[n++]))
			return NULL;
	if (n == 4 && accept(p, ',') && !(hash = read_interned(p)))
		return NULL;
	if (!expect(p, ')'))
		return NULL;
	if (n < 4) {
		gg_data *data = gg_data_file(p->d, p->m, what, file, x[0], x[1]);
		p->failed = p->failed || !data;
		return data;
	}
	gg_data *data = gg_alloc(&p->m->arena, sizeof *data);
	*data = (gg_data){.kind = GG_DATA_FILE,
	                  .file = file,
	                  .off = x[0],
	                  .len = x[1],
	                  .size = x[2],
	                  .mtime = x[3],
	                  .hash = hash};
	return data;
}

static gg_data *read_data(parser *p, const char *what, gg_dtype t, const gg_shape *s)
{
	const char *at = p->p;
	if (accept_keyword(p, "zeros"))
		return gg_data_fill(p->m, GG_FILL_ZEROS, 0, 0, 0);
	if (accept_keyword(p, "ones"))
		return gg_data_fill(p->m, GG_FILL_ONES, 0, 0, 0);
	if (accept_keyword(p, "normal"))
		return read_random(p, GG_FILL_NORMAL);
	if (accept_keyword(p, "uniform"))
		return read_random(p, GG_FILL_UNIFORM);
	if (accept_keyword(p, "file"))
		return read_file_data(p, what, t, s);
	if (accept_keyword(p, "elided")) {
		fail(p, at, "'%s' was left out when this text was written; it cannot be read back", what);
		return NULL;
	}
	return read_literal(p, t, s);
}

/* npy("w.npy"): its bytes become part of the graph. */
static gg_data *read_npy(parser *p, const char *what, gg_dtype *t, gg_shape *s, bool typed)
{
	gg_tensor x;
	const char *file, *at = p->p;
	need_base(p);
	if (!expect(p, '(') || !(file = read_interned(p)) || !expect(p, ')'))
		return NULL;
	/* A reference of no bytes: refuses what lies outside the base. */
	p->failed = !gg_data_file(p->d, p->m, what, file, 0, 0) ||
	            !gg_tensor_read(
	                p->d, gg_printf(p->arena, "%s/%s", p->m->weights ? p->m->weights : p->m->base, file),
	                *t, &x);
	if (p->failed)
		return NULL;
	gg_data *data = NULL;
	if (typed && (x.dtype != *t || !gg_shape_eq(&x.shape, s)))
		fail(p, at, "'%s' holds %s%s", file, gg_dtype_name(x.dtype),
		     gg_shape_str(p->arena, &x.shape));
	else
		data = pack(p->m, &x);
	*t = x.dtype;
	*s = x.shape;
	free(x.data);
	return data;
}

/* ---- notes: what stands in <...> behind a type or an op --------------------------------------------- */

/* The end of a JSON value: where brackets and strings are closed. */
static const char *json_end(parser *p, const char *c)
{
	int depth = 0;
	for (; c < p->end && *c != '\n'; c++) {
		if (*c == '"') {
			for (c++; c < p->end && *c != '"' && *c != '\n'; c++)
				c += *c == '\\' && c + 1 < p->end;
			if (c >= p->end || *c == '\n')
				break;
		} else if (*c == '[' || *c == '{') {
			depth++;
		} else if (*c == ']' || *c == '}') {
			depth--;
		} else if (depth == 0 && (*c == ',' || *c == '>' || *c == ' ' || *c == '#')) {
			break;
		}
		if (depth < 0)
			break;
	}
	return c;
}

/* key and JSON value, kept as msgpack. */
static gg_extra *read_extra(parser *p, bool equals)
{
	gg_buf b = {0};
	const char *key = read_interned(p);
	if (!key || (equals && !expect(p, '=')))
		return NULL;
	skip(p);
	const char *at = p->p, *e = json_end(p, at);
	gg_extra *x = gg_alloc(&p->m->arena, sizeof *x);
	gg_diag quiet = {.silent = true};
	if (gg_json_to_msgpack(&quiet, &b, at, (size_t)(e - at))) {
		void *bytes = gg_alloc(&p->m->arena, b.len);
		*x = (gg_extra){.key = key, .bytes = memcpy(bytes, b.p, b.len), .len = b.len};
	} else {
		x = NULL;
		fail(p, at, "expected a JSON value");
	}
	gg_buf_fini(&b);
	p->p = e;
	p->fresh = false;
	return x;
}

static bool note_id(parser *p, notes *n)
{
	const char *at = p->p;
	if (!read_int(p, &n->id))
		return false;
	p->ids_given = true;
	return (n->id > 0 && n->id < UINT32_MAX) ||
	       fail(p, at, "an id is a number from 1 to %u", UINT32_MAX - 1);
}

static bool note_layout(parser *p, notes *n)
{
	const char *at = p->p, *w = read_word(p);
	if (!w)
		return false;
	n->layout = gg_layout_find(w);
	return n->layout < GG_LAYOUTS || fail_as(p, GG_UNSUPPORTED, at, "'%.40s' is no layout", w);
}

static bool note_mem(parser *p, notes *n)
{
	return read_int(p, &n->mem_off) && expect(p, '+') && read_int(p, &n->mem_len);
}

static bool note_alias(parser *p, notes *n)
{
	n->alias_at = p->p;
	return (n->alias = read_name(p)) != NULL;
}

static bool note_kernel(parser *p, notes *n) { return (n->kernel = read_word(p)) != NULL; }

static bool note_stream(parser *p, notes *n)
{
	int64_t x;
	const char *at = p->p;
	if (!read_int(p, &x))
		return false;
	n->stream = (int)x;
	return x == (int)x || fail(p, at, "a stream is a number of 32 bits");
}

static gg_value *find_value(parser *p, const char *at, const char *name)
{
	gg_value *v = name ? gg_find_interned(p->g, name) : NULL;
	if (name && !v)
		fail(p, at, "value '%.80s' is not defined before this line", name);
	return v;
}

static bool read_after(parser *p)
{
	skip(p);
	const char *at = p->p;
	gg_node *n = NULL;
	int64_t id;
	if (accept(p, '@')) {
		if (!read_int(p, &id))
			return false;
		n = gg_map_get(&p->by_id, (uint64_t)id);
		if (!n || n->graph != p->g)
			return fail(p, at, "no node without outputs has the id %lld", (long long)id);
	} else {
		const char *name = read_name(p);
		gg_value *v = find_value(p, at, name);
		if (!v)
			return false;
		if (!(n = v->producer))
			return fail(p, at, "'%.80s' is not made by a node", v->name);
	}
	GG_PUSH(p->after, p->nafter, p->cap_after, n);
	return true;
}

static bool note_after(parser *p, notes *n)
{
	if (!expect(p, '['))
		return false;
	do {
		if (!read_after(p))
			return false;
	} while (accept(p, ','));
	return expect(p, ']');
}

static const struct note_row {
	const char *key;
	bool of_node, of_value;
	bool (*read)(parser *p, notes *n);
} note_rows[] = {
    {"id", true, true, note_id},          {"layout", false, true, note_layout},
    {"mem", false, true, note_mem},       {"alias", false, true, note_alias},
    {"kernel", true, false, note_kernel}, {"stream", true, false, note_stream},
    {"after", true, false, note_after},
};

static bool read_note(parser *p, notes *n, bool of_node)
{
	skip(p);
	const char *at = p->p;
	if (peek(p) == '"') {
		gg_extra *x = read_extra(p, true);
		if (!x)
			return false;
		*n->extra_tail = x;
		n->extra_tail = &x->next;
		return true;
	}
	for (size_t i = 0; i < sizeof note_rows / sizeof *note_rows; i++) {
		const struct note_row *r = &note_rows[i];
		if ((of_node ? r->of_node : r->of_value) && accept_keyword(p, r->key)) {
			if (!expect(p, '='))
				return false;
			skip(p);
			return r->read(p, n);
		}
	}
	return fail(p, at, "%s is no note of a %s", found(p, at), of_node ? "node" : "value");
}

/* n must not move while it is read: extra_tail may point into it. */
static bool read_notes(parser *p, notes *n, bool of_node)
{
	*n = (notes){.id = -1, .mem_off = -1, .mem_len = -1, .after = p->nafter, .extra_tail = &n->extra};
	if (!accept(p, '<'))
		return true;
	do {
		if (!read_note(p, n, of_node))
			return false;
	} while (accept(p, ','));
	return expect(p, '>');
}

static bool take_id(parser *p, const notes *n, uint32_t *id)
{
	int64_t x = n->id >= 0 ? n->id : p->next_id;
	if (x >= UINT32_MAX)
		return fail(p, p->p, "the ids have run out");
	*id = (uint32_t)x;
	p->next_id = x + 1;
	p->max_id = x > p->max_id ? x : p->max_id;
	return true;
}

static bool apply_value_notes(parser *p, gg_value *v, const notes *n)
{
	v->layout = (uint8_t)n->layout;
	v->mem_off = n->mem_off;
	v->mem_len = n->mem_len;
	v->extra = n->extra;
	if (n->alias) {
		alias a = {v, p->g, n->alias, n->alias_at};
		GG_PUSH(p->alias, p->nalias, p->cap_alias, a);
	}
	return take_id(p, n, &v->id);
}

/* ---- attributes -------------------------------------------------------------------------------------- */
static gg_graph *read_body(parser *p);

static bool read_attr_tensor(parser *p, gg_attr *a)
{
	gg_tensor *t = gg_alloc(p->arena, sizeof *t);
	int64_t bytes;
	skip(p);
	const char *at = p->p;
	if (!read_type(p, &t->dtype, &t->shape) || !expect(p, '='))
		return false;
	if (!t->dtype || !gg_size_of(t->dtype, &t->shape, &bytes))
		return fail(p, at, "a tensor needs a dtype and a size in numbers");
	elements e = {.t = t->dtype, .flat = true};
	bool good = read_elements(p, &e, gg_shape_count(&t->shape));
	t->data = gg_alloc(p->arena, e.b.len);
	if (e.b.len)
		memcpy(t->data, e.b.p, e.b.len);
	gg_buf_fini(&e.b);
	a->tensor = t;
	return good;
}

static bool read_attr_list(parser *p, gg_attr *a)
{
	gg_buf b = {0};
	int64_t i;
	float f;
	const char *s;
	bool good = expect(p, '[');
	if (good && accept(p, ']'))
		return true;
	while (good) {
		if (a->type == GG_ATTR_INTS && (good = read_int(p, &i)))
			gg_buf_add(&b, &i, sizeof i);
		else if (a->type == GG_ATTR_FLOATS && (good = read_float(p, GG_F32, &f)))
			gg_buf_add(&b, &f, sizeof f);
		else if (a->type == GG_ATTR_STRINGS && (good = (s = read_interned(p)) != NULL))
			gg_buf_add(&b, &s, sizeof s);
		good = good && ++a->n < INT32_MAX;
		if (good && !accept(p, ',')) {
			good = expect(p, ']');
			break;
		}
	}
	void *copy = gg_alloc(p->arena, b.len);
	if (b.len)
		memcpy(copy, b.p, b.len);
	gg_buf_fini(&b);
	if (a->type == GG_ATTR_INTS)
		a->ints = copy;
	else if (a->type == GG_ATTR_FLOATS)
		a->floats = copy;
	else
		a->strings = copy;
	return good;
}

static bool read_attr_value(parser *p, gg_attr *a)
{
	switch (a->type) {
	case GG_ATTR_INT:
		return read_int(p, &a->i);
	case GG_ATTR_FLOAT:
		return read_float(p, GG_F32, &a->f);
	case GG_ATTR_STRING:
		return (a->s = read_interned(p)) != NULL;
	case GG_ATTR_DTYPE:
		return read_dtype(p, &a->dtype);
	case GG_ATTR_TENSOR:
		return read_attr_tensor(p, a);
	case GG_ATTR_GRAPH:
		return (a->graph = read_body(p)) != NULL;
	default:
		return read_attr_list(p, a);
	}
}

static bool read_attr(parser *p, const gg_op *op, size_t first)
{
	skip(p);
	const char *at = p->p, *name = read_word(p);
	if (!name)
		return false;
	const gg_attr_spec *spec = gg_op_attr(op, name);
	if (!spec)
		return fail_as(p, GG_UNSUPPORTED, at, "op '%s' has no attribute '%.40s'", op->name, name);
	for (size_t i = first; i < p->nattr; i++)
		if (p->attr[i].name == name)
			return fail(p, at, "attribute '%s' is given twice", name);
	gg_attr a = {.name = name, .type = spec->type};
	if (!expect(p, '=') || !read_attr_value(p, &a))
		return false;
	GG_PUSH(p->attr, p->nattr, p->cap_attr, a);
	return true;
}

static bool read_attrs(parser *p, const gg_op *op)
{
	size_t first = p->nattr;
	if (!accept(p, '{') || accept(p, '}'))
		return true;
	do {
		if (!read_attr(p, op, first))
			return false;
	} while (accept(p, ','));
	return expect(p, '}');
}

/* ---- nodes --------------------------------------------------------------------------------------------- */
static bool is_absent(parser *p)
{
	skip(p);
	return peek(p) == '_' && (p->end - p->p == 1 || !gg_text_name_char(p->p[1]));
}

static bool is_new_name(parser *p, const char *at, const char *name)
{
	return name &&
	       (!gg_find_interned(p->g, name) || fail(p, at, "value '%.80s' is already defined", name));
}

static bool read_results(parser *p)
{
	do {
		result r = {.name = NULL, .shape = gg_shape_unknown};
		skip(p);
		const char *at = p->p;
		if (is_absent(p))
			accept(p, '_');
		else if (!(r.name = read_name(p)) || !is_new_name(p, at, r.name))
			return false;
		GG_PUSH(p->out, p->nout, p->cap_out, r);
	} while (accept(p, ','));
	return expect(p, '=');
}

static const gg_op *read_op(parser *p)
{
	skip(p);
	const char *at = p->p;
	if (!accept_word(p)) {
		fail(p, at, "expected an op, found %s", found(p, at));
		return NULL;
	}
	const gg_op *op = gg_op_find(p->word.p);
	if (op)
		return op;
	const char *near = gg_op_nearest(p->word.p);
	fail_as(p, GG_UNSUPPORTED, at,
	        near ? "op '%.60s' is not known; the nearest is '%s'" : "op '%.60s' is not known", p->word.p,
	        near);
	return NULL;
}

static bool read_inputs(parser *p, char end)
{
	if (is_next(p, ';') || is_next(p, ')'))
		return end == ';' || expect(p, end);
	do {
		gg_value *v = NULL;
		skip(p);
		const char *at = p->p, *name;
		if (is_absent(p))
			accept(p, '_');
		else if (!(name = read_name(p)) || !(v = find_value(p, at, name)))
			return false;
		GG_PUSH(p->in, p->nin, p->cap_in, v);
	} while (accept(p, ','));
	return end == ';' || expect(p, end);
}

/* Arguments, and the captures behind a semicolon. */
static bool read_arguments(parser *p, size_t *ncap)
{
	if (!expect(p, '(') || !read_inputs(p, ';'))
		return false;
	size_t args = p->nin;
	bool good = accept(p, ';') ? read_inputs(p, ')') : expect(p, ')');
	*ncap = p->nin - args;
	return good;
}

static bool read_types(parser *p, size_t first)
{
	for (size_t i = first; i < p->nout; i++) {
		result *r = &p->out[i];
		if (i > first && !expect(p, ','))
			return false;
		if (!r->name) {
			if (!expect(p, '_'))
				return false;
			continue;
		}
		r->typed = true;
		if (!read_type(p, &r->dtype, &r->shape) || !read_notes(p, &r->note, false))
			return false;
	}
	return true;
}

/* The strings on this line. */
static bool read_strings(parser *p, const char ***word, size_t *n)
{
	size_t cap = 0;
	*word = NULL;
	*n = 0;
	p->fresh = false;
	while (is_next(p, '"') && !p->fresh) {
		if (!read_string(p))
			return false;
		GG_PUSH(*word, *n, cap, gg_intern_n(p->word.p, p->word.len));
	}
	return true;
}

/* The location behind the last "#@", which skip() has passed. */
static bool read_loc(parser *p, gg_node *n)
{
	const char **word;
	size_t nword;
	skip(p);
	const char *back = p->p;
	bool fresh = p->fresh;
	if (!p->loc)
		return true;
	p->p = p->loc;
	if (read_strings(p, &word, &nword))
		gg_set_loc(n, (int)nword, word);
	free(word);
	p->loc = NULL;
	p->p = back;
	p->fresh = fresh;
	return !p->failed;
}

/* Puts together what was read since the marks; the stacks go back to them. */
static bool make_node(parser *p, const gg_op *op, size_t in, size_t ncap, size_t out, size_t attr,
                      const notes *note)
{
	const char **names = gg_alloc_n(p->arena, p->nout - out, sizeof *names);
	for (size_t i = out; i < p->nout; i++)
		names[i - out] = p->out[i].name;
	gg_node *n = gg_add_named(p->g, NULL, op, (int)(p->nin - in), p->nin ? p->in + in : NULL,
	                          (int)(p->nout - out), names);
	n->ncap = (int)ncap;
	n->kernel = note->kernel;
	n->stream = note->stream;
	n->extra = note->extra;
	bool named = false;
	for (size_t i = out; i < p->nout; i++) {
		const result *r = &p->out[i];
		gg_value *v = n->out[i - out];
		if (!v)
			continue;
		named = true;
		v->dtype = (uint8_t)r->dtype;
		v->shape = r->shape;
		p->untyped |= !r->typed;
		if (!apply_value_notes(p, v, &r->note))
			return false;
	}
	for (size_t i = attr; i < p->nattr; i++)
		gg_set_attr(n, &p->attr[i]);
	for (size_t i = note->after; i < p->nafter; i++)
		gg_add_after(n, p->after[i]);
	if (!take_id(p, note, &n->id))
		return false;
	if (!named)
		gg_map_put(&p->by_id, n->id, n);
	return read_loc(p, n);
}

static bool read_node(parser *p)
{
	size_t in = p->nin, out = p->nout, attr = p->nattr, after = p->nafter, ncap = 0;
	const gg_op *op;
	notes note;
	p->loc = NULL;
	if ((is_next(p, '%') || is_absent(p)) && !read_results(p))
		return false;
	if (!(op = read_op(p)) || !read_notes(p, &note, true) || !read_arguments(p, &ncap) ||
	    !read_attrs(p, op))
		return false;
	for (size_t i = out; i < p->nout; i++)
		p->out[i].note = (notes){.id = -1, .mem_off = -1, .mem_len = -1};
	if (accept(p, ':') && !read_types(p, out))
		return false;
	if (!make_node(p, op, in, ncap, out, attr, &note))
		return false;
	p->nin = in;
	p->nout = out;
	p->nattr = attr;
	p->nafter = after;
	return true;
}

/* ---- statements ------------------------------------------------------------------------------------------
 */
static bool read_input(parser *p)
{
	gg_dtype t;
	gg_shape s;
	notes note;
	skip(p);
	const char *at = p->p, *name = read_name(p);
	if (!is_new_name(p, at, name) || !expect(p, ':') || !read_type(p, &t, &s) ||
	    !read_notes(p, &note, false))
		return false;
	return apply_value_notes(p, gg_add_input(p->g, name, t, &s), &note);
}

static bool read_data_notes(parser *p, gg_data *x)
{
	notes n;
	if (!is_next(p, '<'))
		return true;
	if (!read_notes(p, &n, false))
		return false;
	x->extra = n.extra;
	return true;
}

static bool read_const(parser *p, gg_kind kind)
{
	gg_dtype t = GG_NONE;
	gg_shape s = gg_shape_unknown;
	notes note = {.id = -1, .mem_off = -1, .mem_len = -1};
	int64_t bytes;
	skip(p);
	const char *at = p->p, *name = read_name(p);
	if (!is_new_name(p, at, name))
		return false;
	bool typed = accept(p, ':');
	if (typed && (!read_type(p, &t, &s) || !read_notes(p, &note, false)))
		return false;
	if (!expect(p, '='))
		return false;
	skip(p);
	gg_data *x;
	if (typed && (!t || !gg_size_of(t, &s, &bytes)))
		return fail(p, at, "constant '%.80s' needs a dtype and a size in numbers", name);
	if (accept_keyword(p, "npy"))
		x = read_npy(p, name, &t, &s, typed);
	else if (!typed)
		return fail(p, at, "constant '%.80s' needs a type", name);
	else
		x = read_data(p, name, t, &s);
	if (!x || !read_data_notes(p, x))
		return false;
	return apply_value_notes(p, gg_add_const(p->g, kind, name, t, &s, x), &note);
}

static bool read_param(parser *p) { return read_const(p, GG_PARAM); }
static bool read_constant(parser *p) { return read_const(p, GG_CONST); }

static bool read_output(parser *p)
{
	skip(p);
	const char *at = p->p, *name = read_name(p);
	gg_value *v = find_value(p, at, name);
	if (v)
		gg_add_output(p->g, v);
	return v != NULL;
}

static bool read_state(parser *p)
{
	skip(p);
	const char *at = p->p, *name = read_name(p);
	gg_value *param = find_value(p, at, name);
	if (!param || !expect(p, '<') || !expect(p, '-'))
		return false;
	skip(p);
	at = p->p;
	name = read_name(p);
	gg_value *final = find_value(p, at, name);
	if (final)
		gg_add_state(p->g, param, final);
	return final != NULL;
}

static bool read_stage(parser *p) { return (p->m->stage = read_interned(p)) != NULL; }
static bool read_target(parser *p) { return (p->m->target = read_interned(p)) != NULL; }
static bool read_base(parser *p) { return (p->m->base = read_interned(p)) != NULL; }

static bool read_history(parser *p)
{
	gg_model *m = p->m;
	const char **word;
	size_t n;
	if (read_strings(p, &word, &n)) {
		gg_step s = {gg_alloc_n(&m->arena, n, sizeof *word), (int)n};
		for (size_t i = 0; i < n; i++)
			s.word[i] = word[i];
		m->history = gg_grow_in(&m->arena, m->history, m->nhistory, &m->cap_history, sizeof s);
		m->history[m->nhistory++] = s;
	}
	free(word);
	return !p->failed;
}

static bool add_extra(parser *p, gg_extra **list)
{
	uint64_t key = (uint64_t)(uintptr_t)list;
	gg_extra *last = gg_map_get(&p->last_of, key), *x = read_extra(p, false);
	if (!x)
		return false;
	*(last ? &last->next : list) = x;
	gg_map_put(&p->last_of, key, x);
	return true;
}

static bool read_meta(parser *p) { return add_extra(p, &p->m->extra); }
static bool read_also(parser *p) { return add_extra(p, &p->g->extra); }
static bool read_record(parser *p) { return add_extra(p, p->depth ? &p->g->records : &p->m->records); }
static bool read_blob(parser *p) { return add_extra(p, &p->m->blobs); }

static const struct statement {
	const char *word;
	bool in_body;
	bool (*read)(parser *p);
} statements[] = {
    {"input", true, read_input},    {"param", true, read_param},  {"const", true, read_constant},
    {"output", true, read_output},  {"state", false, read_state}, {"stage", false, read_stage},
    {"target", false, read_target}, {"base", false, read_base},   {"history", false, read_history},
    {"meta", false, read_meta},     {"also", true, read_also},    {"record", true, read_record},
    {"blob", false, read_blob},
};

static bool read_statement(parser *p)
{
	for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
		const char *at = p->p;
		if (!accept_keyword(p, statements[i].word))
			continue;
		if (p->depth && !statements[i].in_body)
			return fail(p, at, "'%s' cannot stand in a body", statements[i].word);
		return statements[i].read(p);
	}
	return read_node(p);
}

static bool at_graph(parser *p)
{
	const char *at = p->p;
	bool fresh = p->fresh, yes = accept_keyword(p, "graph");
	p->p = at;
	p->fresh = fresh;
	return yes;
}

/* Aliases may name a value that comes later. */
static bool resolve_aliases(parser *p, size_t first)
{
	for (size_t i = first; i < p->nalias; i++)
		if (!(p->alias[i].v->alias = find_value(p, p->alias[i].at, p->alias[i].name)))
			return false;
	p->nalias = first;
	return true;
}

/* To the end of the text, the next graph, or the brace that closes the body. */
static bool read_statements(parser *p)
{
	size_t first = p->nalias;
	for (skip(p); p->p < p->end; skip(p)) {
		if (p->depth && peek(p) == '}')
			break;
		if (!p->fresh)
			return fail(p, p->p, "expected the end of the line, found %s", found(p, p->p));
		if (!p->depth && at_graph(p))
			break;
		if (!read_statement(p))
			return false;
	}
	return resolve_aliases(p, first);
}

static gg_graph *read_body(parser *p)
{
	const char *name = NULL, *at = p->p;
	gg_graph *outer = p->g;
	bool good = p->m ? accept_keyword(p, "graph") : fail(p, at, "a body cannot stand here");
	if (!good || ++p->depth > GG_LIMIT_DEPTH) {
		fail(p, at, good ? "bodies are nested too deep" : "expected a body: graph (...) {...}");
		return NULL;
	}
	if (is_next(p, '"') && !(name = read_interned(p)))
		return NULL;
	gg_graph *g = p->g = gg_graph_new(p->m, name);
	good = expect(p, '(');
	if (good && !accept(p, ')')) {
		do
			good = read_input(p);
		while (good && accept(p, ','));
		good = good && expect(p, ')');
	}
	if (!good || !expect(p, '{'))
		return NULL;
	p->fresh = true;
	good = read_statements(p) && expect(p, '}');
	p->g = outer;
	p->depth--;
	return good ? g : NULL;
}

/* ---- whole texts
 * ------------------------------------------------------------------------------------------- */
static bool is_unique(gg_map *seen, gg_diag *d, uint32_t id, void *what)
{
	if (gg_map_get(seen, id))
		return gg_error(d, GG_MALFORMED, "the id %u is given twice", id);
	gg_map_put(seen, id, what);
	return true;
}

static bool check_ids(parser *p)
{
	gg_map seen = {0};
	bool good = true;
	for (gg_graph *g = p->m->graphs; g && good; g = g->next_graph) {
		for (size_t i = 0; i < g->nin && good; i++)
			good = is_unique(&seen, p->d, g->in[i]->id, g->in[i]);
		for (gg_value *v = g->consts; v && good; v = v->next_const)
			good = is_unique(&seen, p->d, v->id, v);
		for (gg_node *n = g->first; n && good; n = n->next) {
			good = is_unique(&seen, p->d, n->id, n);
			for (int i = 0; i < n->nout && good; i++)
				good = !n->out[i] || is_unique(&seen, p->d, n->out[i]->id, n->out[i]);
		}
	}
	gg_map_fini(&seen);
	return good;
}

static bool read_model(parser *p)
{
	const char *name = NULL;
	if (accept_keyword(p, "graph") && is_next(p, '"') && !p->fresh && !(name = read_interned(p)))
		return false;
	p->m = gg_model_new(name);
	p->m->weights = p->source->weights;
	p->m->allow_outside = p->source->allow_outside;
	p->g = p->m->main;
	if (!read_statements(p) || p->failed)
		return false;
	p->m->next_id = (uint32_t)p->max_id + 1;
	if (p->ids_given && !check_ids(p))
		return false;
	return gg_check(p->d, p->m) &&
	       (!p->untyped || (gg_infer_graph(p->d, p->m->main) && gg_check(p->d, p->m)));
}

static void fini(parser *p)
{
	gg_buf_fini(&p->word);
	gg_map_fini(&p->by_id);
	gg_map_fini(&p->dims);
	gg_map_fini(&p->last_of);
	free(p->in);
	free(p->out);
	free(p->attr);
	free(p->after);
	free(p->alias);
}

static const char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash)
		return gg_intern(".");
	return gg_intern_n(path, slash == path ? 1 : (size_t)(slash - path));
}

int gg_read_text(gg_diag *d, gg_source *s, gg_model **out)
{
	gg_arena arena = {0};
	parser p = {.d = d,
	            .start = s->p,
	            .p = s->p + s->at,
	            .end = s->p + s->len,
	            .fresh = true,
	            .arena = &arena,
	            .folder = folder_of(s->name),
	            .source = s,
	            .next_id = 1};
	int got = 0;
	skip(&p);
	if (p.p < p.end) {
		got = read_model(&p) ? 1 : -1;
		if (got < 0)
			gg_model_free(p.m);
		else
			*out = p.m, s->count++;
	} else if (!s->count) {
		gg_error(d, GG_MALFORMED, "the text holds no graph");
		got = -1;
	}
	s->at = (size_t)(p.p - s->p);
	fini(&p);
	gg_arena_fini(&arena);
	return got;
}

bool gg_parse_attr(gg_diag *d, gg_arena *a, const char *text, gg_attr_type type, gg_attr *out)
{
	parser p = {.d = d, .start = text, .p = text, .end = text + strlen(text), .arena = a};
	*out = (gg_attr){.type = type};
	bool good = read_attr_value(&p, out);
	skip(&p);
	if (good && p.p < p.end)
		good = fail(&p, p.p, "expected the end, found %s", found(&p, p.p));
	fini(&p);
	return good;
}
