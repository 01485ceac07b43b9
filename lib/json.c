/* Records as JSON, one a line, and back. The mapping is one to one (docs/stream.md): what JSON has
 * no form for is an object whose first key begins with '$'. */
#include "pack.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- msgpack to JSON ---------------------------------------------------------------------- */
static void base64(gg_buf *b, const void *bytes, size_t n)
{
	static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *p = bytes;
	char out[1024];
	size_t k = 0;
	for (size_t i = 0; i < n; i += 3) {
		unsigned x = (unsigned)p[i] << 16 | (i + 1 < n ? (unsigned)p[i + 1] << 8 : 0) |
		             (i + 2 < n ? p[i + 2] : 0u);
		out[k++] = digit[x >> 18];
		out[k++] = digit[x >> 12 & 63];
		out[k++] = i + 1 < n ? digit[x >> 6 & 63] : '=';
		out[k++] = i + 2 < n ? digit[x & 63] : '=';
		if (k == sizeof out) {
			gg_buf_add(b, out, k);
			k = 0;
		}
	}
	gg_buf_add(b, out, k);
}

/* Bytes of the UTF-8 character at p, 0 when it is none. */
static size_t utf8(const unsigned char *p, size_t left)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = *p < 0x80 ? 1 : *p >> 5 == 6 ? 2 : *p >> 4 == 14 ? 3 : *p >> 3 == 30 ? 4 : 0;
	uint32_t c = n == 1 ? *p : *p & (0x7fu >> n);
	if (!n || n > left)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if (p[i] >> 6 != 2)
			return 0;
		c = c << 6 | (p[i] & 63);
	}
	return (n > 1 && c < least[n]) || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

static bool is_utf8(const char *s, size_t n)
{
	for (size_t i = 0, k; i < n; i += k)
		if (!(k = utf8((const unsigned char *)s + i, n - i)))
			return false;
	return true;
}

static void quote(gg_buf *b, const char *s, size_t n)
{
	gg_buf_str(b, "\"");
	size_t from = 0;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];
		if (c >= ' ' && c != '"' && c != '\\' && c != 127)
			continue;
		gg_buf_add(b, s + from, i - from);
		from = i + 1;
		if (c == '"' || c == '\\')
			gg_buf_printf(b, "\\%c", c);
		else if (c == '\n')
			gg_buf_str(b, "\\n");
		else if (c == '\t')
			gg_buf_str(b, "\\t");
		else
			gg_buf_printf(b, "\\u%04x", c);
	}
	gg_buf_add(b, s + from, n - from);
	gg_buf_str(b, "\"");
}

static void print_bytes(gg_buf *b, const char *key, const char *s, size_t n)
{
	gg_buf_printf(b, "{\"%s\":\"", key);
	base64(b, s, n);
	gg_buf_str(b, "\"}");
}

static void print_str(gg_buf *b, const char *s, size_t n)
{
	if (is_utf8(s, n))
		quote(b, s, n);
	else
		print_bytes(b, "$str", s, n);
}

/* Shortest digits that read back to the same float; with a point, so that it stays one. */
static void print_f32(gg_buf *b, float f)
{
	char text[64];
	uint32_t bits;
	memcpy(&bits, &f, 4);
	if (isnan(f)) {
		gg_buf_printf(b, "{\"$f32\":\"0x%08x\"}", bits);
	} else if (isinf(f)) {
		gg_buf_printf(b, "{\"$f32\":\"%sinf\"}", f < 0 ? "-" : "");
	} else {
		int digits = 1;
		do
			snprintf(text, sizeof text, "%.*g", digits, (double)f);
		while (strtof(text, 0) != f && ++digits < 10);
		gg_buf_printf(b, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
	}
}

static void print_f64(gg_buf *b, double f)
{
	char text[64];
	uint64_t bits;
	memcpy(&bits, &f, 8);
	if (isnan(f)) {
		gg_buf_printf(b, "{\"$f64\":\"0x%016llx\"}", (unsigned long long)bits);
		return;
	}
	int digits = 1;
	do
		snprintf(text, sizeof text, "%.*g", digits, f);
	while (strtod(text, 0) != f && ++digits < 18);
	gg_buf_printf(b, "{\"$f64\":\"%s\"}", text);
}

/* Beyond 2^53 many JSON readers round: such ints are strings. */
static void print_int(gg_buf *b, const gg_token *t)
{
	bool exact = t->negative ? (int64_t)t->n >= -(1ll << 53) : t->n <= 1ull << 53;
	gg_buf_printf(b, exact ? "" : "{\"$int\":\"");
	if (t->negative)
		gg_buf_printf(b, "%lld", (long long)t->n);
	else
		gg_buf_printf(b, "%llu", (unsigned long long)t->n);
	gg_buf_printf(b, exact ? "" : "\"}");
}

static void print(gg_reader *r, gg_buf *b, int depth);

/* Whether every key is a string that JSON can hold, and the first is not ours. */
static bool is_plain_map(gg_reader *r, uint64_t n)
{
	const char *at = r->p;
	bool plain = true;
	for (uint64_t i = 0; i < n && plain && !r->failed; i++) {
		gg_token key = gg_take(r);
		plain = key.type == GG_PACK_STR && is_utf8(key.s, key.n) && (i || !key.n || *key.s != '$');
		if (plain)
			gg_skip(r, GG_PACK_DEPTH);
	}
	r->p = r->failed ? r->p : at;
	return plain;
}

static void print_map(gg_reader *r, gg_buf *b, uint64_t n, int depth)
{
	bool plain = is_plain_map(r, n);
	gg_buf_str(b, plain ? "{" : "{\"$map\":[");
	for (uint64_t i = 0; i < n && !r->failed; i++) {
		gg_buf_str(b, i ? "," : "");
		gg_buf_str(b, plain ? "" : "[");
		print(r, b, depth);
		gg_buf_str(b, plain ? ":" : ",");
		print(r, b, depth);
		gg_buf_str(b, plain ? "" : "]");
	}
	gg_buf_str(b, plain ? "}" : "]}");
}

static void print(gg_reader *r, gg_buf *b, int depth)
{
	const char *at = r->p;
	if (!depth) {
		gg_reader_fail(r, GG_MALFORMED, at, "nested too deep");
		return;
	}
	gg_token t = gg_take(r);
	switch (t.type) {
	case GG_PACK_NONE:
		break;
	case GG_PACK_NIL:
		gg_buf_str(b, "null");
		break;
	case GG_PACK_BOOL:
		gg_buf_str(b, t.n ? "true" : "false");
		break;
	case GG_PACK_INT:
		print_int(b, &t);
		break;
	case GG_PACK_F32:
		print_f32(b, t.f32);
		break;
	case GG_PACK_F64:
		print_f64(b, t.f);
		break;
	case GG_PACK_STR:
		print_str(b, t.s, t.n);
		break;
	case GG_PACK_BIN:
		print_bytes(b, "$bin", t.s, t.n);
		break;
	case GG_PACK_EXT:
		gg_buf_printf(b, "{\"$ext\":[%d,\"", t.ext);
		base64(b, t.s, t.n);
		gg_buf_str(b, "\"]}");
		break;
	case GG_PACK_ARRAY:
		gg_buf_str(b, "[");
		for (uint64_t i = 0; i < t.n && !r->failed; i++) {
			gg_buf_str(b, i ? "," : "");
			print(r, b, depth - 1);
		}
		gg_buf_str(b, "]");
		break;
	case GG_PACK_MAP:
		print_map(r, b, t.n, depth - 1);
		break;
	}
}

bool gg_msgpack_to_json(gg_diag *d, gg_buf *b, const void *p, size_t n)
{
	gg_reader r = {.d = d, .start = p, .p = p, .end = (const char *)p + n};
	print(&r, b, GG_PACK_DEPTH);
	return !r.failed && (r.p == r.end || gg_error(d, GG_MALFORMED, "bytes after a msgpack value"));
}

/* The end record loses its count and sum: they are those of the stream's bytes. */
bool gg_write_json(gg_diag *d, gg_buf *b, gg_model *m)
{
	static const char end[] = "\x92\xa3"
	                          "end";
	gg_buf s = {0};
	bool good = gg_write(d, &s, m);
	gg_reader r = {.d = d, .start = s.p, .p = s.p, .end = s.p + s.len};
	while (good && r.p < r.end && !r.failed) {
		if ((size_t)(r.end - r.p) > sizeof end && !memcmp(r.p, end, sizeof end - 1)) {
			gg_buf_str(b, "[\"end\",{}]\n");
			break;
		}
		print(&r, b, GG_PACK_DEPTH);
		gg_buf_str(b, "\n");
	}
	gg_buf_fini(&s);
	return good && !r.failed;
}

/* ---- JSON to msgpack ---------------------------------------------------------------------- */
typedef struct json {
	gg_diag *d;
	const char *start, *p, *end;
	bool failed;
	size_t line; /* of p */
	const char *line_start;
	gg_writer w;
	gg_buf text; /* the string read last, unescaped */
} json;

static bool bad(json *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool bad(json *j, const char *fmt, ...)
{
	if (j->failed)
		return false;
	va_list ap;
	gg_buf b = {0};
	va_start(ap, fmt);
	gg_buf_vprintf(&b, fmt, ap);
	va_end(ap);
	gg_error(j->d, GG_MALFORMED, "line %zu column %zu: %s", j->line, (size_t)(j->p - j->line_start) + 1,
	         b.p);
	gg_buf_fini(&b);
	j->failed = true;
	return false;
}

static int peek(json *j)
{
	for (; j->p < j->end; j->p++) {
		if (*j->p == '\n') {
			j->line++;
			j->line_start = j->p + 1;
		} else if (*j->p != ' ' && *j->p != '\t' && *j->p != '\r') {
			return (unsigned char)*j->p;
		}
	}
	return -1;
}

static bool take(json *j, char c)
{
	if (j->failed || peek(j) != c)
		return false;
	j->p++;
	return true;
}

static bool want(json *j, char c)
{
	return take(j, c) ||
	       (peek(j) < 0 ? bad(j, "the input ends here, '%c' expected", c) : bad(j, "'%c' expected", c));
}

static int hex(json *j)
{
	int x = 0;
	for (int i = 0; i < 4; i++, j->p++) {
		static const char digits[] = "0123456789abcdef";
		const char *at = j->p < j->end && *j->p ? strchr(digits, *j->p | ('A' <= *j->p ? 32 : 0)) : 0;
		if (!at) {
			bad(j, "four hex digits expected after \\u");
			return 0;
		}
		x = x << 4 | (int)(at - digits);
	}
	return x;
}

static void add_utf8(gg_buf *b, unsigned c)
{
	char s[4];
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	for (size_t i = n; i-- > 1; c >>= 6)
		s[i] = (char)(0x80 | (c & 63));
	s[0] = (char)(n == 1 ? c : ((0xf00u >> n) & 0xff) | c);
	gg_buf_add(b, s, n);
}

static void escape(json *j)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	char c = j->p < j->end ? *j->p : 0;
	const char *at = c ? strchr(from, c) : 0;
	if (at) {
		j->p++;
		gg_buf_add(&j->text, to + (at - from), 1);
		return;
	}
	if (c != 'u') {
		bad(j, "unknown escape in a string");
		return;
	}
	j->p++;
	int x = hex(j);
	if (x >= 0xd800 && x < 0xe000) {
		bool pair = x < 0xdc00 && j->end - j->p >= 6 && j->p[0] == '\\' && j->p[1] == 'u';
		j->p += pair ? 2 : 0;
		int y = pair ? hex(j) : 0;
		if (y < 0xdc00 || y >= 0xe000) {
			bad(j, "half a surrogate pair in a string");
			return;
		}
		x = 0x10000 + ((x - 0xd800) << 10) + (y - 0xdc00);
	}
	if (!j->failed)
		add_utf8(&j->text, (unsigned)x);
}

/* Into j->text. */
static bool string(json *j)
{
	if (!want(j, '"'))
		return false;
	j->text.len = 0;
	gg_buf_str(&j->text, "");
	while (!j->failed) {
		const char *from = j->p;
		while (j->p < j->end && *j->p != '"' && *j->p != '\\' && (unsigned char)*j->p >= ' ')
			j->p++;
		gg_buf_add(&j->text, from, (size_t)(j->p - from));
		if (j->p == j->end || (unsigned char)*j->p < ' ')
			return bad(j, "a string is not closed");
		if (*j->p++ == '"')
			return true;
		escape(j);
	}
	return false;
}

static int digit64(char c)
{
	return c >= 'A' && c <= 'Z'   ? c - 'A'
	       : c >= 'a' && c <= 'z' ? c - 'a' + 26
	       : c >= '0' && c <= '9' ? c - '0' + 52
	       : c == '+'             ? 62
	       : c == '/'             ? 63
	                              : -1;
}

/* j->text, in place. */
static bool unbase64(json *j)
{
	size_t n = j->text.len, k = 0;
	char *p = j->text.p;
	if (n % 4)
		return bad(j, "base64 of %zu characters", n);
	size_t pad = n && p[n - 1] == '=' ? p[n - 2] == '=' ? 2 : 1 : 0;
	for (size_t i = 0; i < n; i += 4) {
		unsigned x = 0;
		for (size_t q = 0; q < 4; q++) {
			int v = i + q >= n - pad ? 0 : digit64(p[i + q]);
			if (v < 0)
				return bad(j, "'%c' is not base64", p[i + q]);
			x = x << 6 | (unsigned)v;
		}
		p[k++] = (char)(x >> 16);
		p[k++] = (char)(x >> 8);
		p[k++] = (char)x;
	}
	j->text.len = k - pad;
	return true;
}

static bool put_int(json *j, const char *s)
{
	char *end;
	errno = 0;
	long long x = strtoll(s, &end, 10);
	if (*s && !*end && !errno) {
		gg_put_int(&j->w, x);
		return true;
	}
	errno = 0;
	unsigned long long u = strtoull(s, &end, 10);
	if (!*s || *s == '-' || *end || errno)
		return bad(j, "'%.40s' is no int of 64 bits", s);
	gg_put_u64(&j->w, u);
	return true;
}

/* A literal number: an int, or an f32 when it has a point or an exponent. */
static bool number(json *j)
{
	char s[128];
	size_t n = 0;
	bool is_float = false;
	while (j->p < j->end && n < sizeof s - 1 && *j->p && strchr("+-.0123456789eE", *j->p)) {
		is_float |= strchr(".eE", *j->p) != 0;
		s[n++] = *j->p++;
	}
	s[n] = 0;
	if (!is_float)
		return put_int(j, s);
	char *end;
	float f = strtof(s, &end);
	if (*end || !n || !isfinite(f))
		return bad(j, "'%.40s' is no f32", s);
	gg_put_f32(&j->w, f);
	return true;
}

static bool value(json *j, int depth);

/* The head goes before what was written since `from`, now that its count is known. */
static void put_head(json *j, size_t from, size_t n, bool map)
{
	gg_buf head = {0}, *b = j->w.b;
	gg_writer w;
	gg_writer_init(&w, &head);
	(map ? gg_put_map : gg_put_array)(&w, n);
	size_t len = b->len - from;
	gg_buf_add(b, head.p, head.len);
	memmove(b->p + from + head.len, b->p + from, len);
	memcpy(b->p + from, head.p, head.len);
	gg_buf_fini(&head);
}

static bool special_float(json *j, bool wide)
{
	if (!string(j))
		return false;
	const char *s = j->text.p;
	char *end;
	bool bits = !strncmp(s, "0x", 2);
	unsigned long long x = bits ? strtoull(s + 2, &end, 16) : 0;
	double f = bits ? 0 : strtod(s, &end);
	float f32 = bits ? 0 : strtof(s, 0);
	uint32_t low = (uint32_t)x;
	if (!*s || *end || (bits && strlen(s) != (wide ? 18 : 10)))
		return bad(j, "'%.40s' is no float", s);
	if (bits) {
		memcpy(&f, &x, 8);
		memcpy(&f32, &low, 4);
	}
	if (wide)
		gg_put_f64(&j->w, f);
	else
		gg_put_f32(&j->w, f32);
	return true;
}

static bool special_ext(json *j)
{
	char s[8];
	size_t n = 0;
	if (!want(j, '['))
		return false;
	peek(j);
	while (j->p < j->end && n < 5 && *j->p && strchr("-0123456789", *j->p))
		s[n++] = *j->p++;
	s[n] = 0;
	int type = atoi(s);
	if (!n || type < -128 || type > 127)
		return bad(j, "an ext type from -128 to 127 expected");
	if (!want(j, ',') || !string(j) || !unbase64(j))
		return false;
	gg_put_ext(&j->w, type, j->text.p, j->text.len);
	return want(j, ']');
}

static bool special_map(json *j, int depth)
{
	size_t from = j->w.b->len, n = 0;
	if (!want(j, '['))
		return false;
	if (!take(j, ']')) {
		do {
			if (!want(j, '[') || !value(j, depth) || !want(j, ',') || !value(j, depth) ||
			    !want(j, ']'))
				return false;
			n++;
		} while (take(j, ','));
		if (!want(j, ']'))
			return false;
	}
	put_head(j, from, n, true);
	return true;
}

/* An object whose first key (in j->text) begins with '$'. */
static bool special(json *j, int depth)
{
	char key[8];
	snprintf(key, sizeof key, "%.7s", j->text.p);
	if (!want(j, ':'))
		return false;
	bool good;
	if (!strcmp(key, "$bin")) {
		good = string(j) && unbase64(j);
		if (good)
			gg_put_bin(&j->w, j->text.p, j->text.len);
	} else if (!strcmp(key, "$str")) {
		good = string(j) && unbase64(j);
		if (good)
			gg_put_strn(&j->w, j->text.p, j->text.len);
	} else if (!strcmp(key, "$int")) {
		good = string(j) && put_int(j, j->text.p);
	} else if (!strcmp(key, "$f32") || !strcmp(key, "$f64")) {
		good = special_float(j, key[2] == '6');
	} else if (!strcmp(key, "$ext")) {
		good = special_ext(j);
	} else if (!strcmp(key, "$map")) {
		good = special_map(j, depth);
	} else {
		return bad(j, "unknown key '%s'", key);
	}
	return good && want(j, '}');
}

static bool object(json *j, int depth)
{
	size_t from = j->w.b->len, n = 0;
	if (!want(j, '{'))
		return false;
	if (!take(j, '}')) {
		do {
			if (!string(j))
				return false;
			if (!n && j->text.len && *j->text.p == '$')
				return special(j, depth);
			gg_put_strn(&j->w, j->text.p, j->text.len);
			n++;
			if (!want(j, ':') || !value(j, depth))
				return false;
		} while (take(j, ','));
		if (!want(j, '}'))
			return false;
	}
	put_head(j, from, n, true);
	return true;
}

static bool array(json *j, int depth)
{
	size_t from = j->w.b->len, n = 0;
	if (!want(j, '['))
		return false;
	if (!take(j, ']')) {
		do {
			if (!value(j, depth))
				return false;
			n++;
		} while (take(j, ','));
		if (!want(j, ']'))
			return false;
	}
	put_head(j, from, n, false);
	return true;
}

static bool word(json *j, const char *s)
{
	size_t n = strlen(s);
	if ((size_t)(j->end - j->p) < n || memcmp(j->p, s, n))
		return bad(j, "a JSON value expected");
	j->p += n;
	return true;
}

static bool value(json *j, int depth)
{
	int c = peek(j);
	if (j->failed)
		return false;
	if (!depth)
		return bad(j, "nested too deep");
	switch (c) {
	case -1:
		return bad(j, "the input ends here, a value expected");
	case '{':
		return object(j, depth - 1);
	case '[':
		return array(j, depth - 1);
	case '"':
		if (!string(j))
			return false;
		gg_put_strn(&j->w, j->text.p, j->text.len);
		return true;
	case 't':
	case 'f':
		if (!word(j, c == 't' ? "true" : "false"))
			return false;
		gg_put_bool(&j->w, c == 't');
		return true;
	case 'n':
		if (!word(j, "null"))
			return false;
		gg_put_nil(&j->w);
		return true;
	default:
		return c == '-' || (c >= '0' && c <= '9') ? number(j) : bad(j, "a JSON value expected");
	}
}

bool gg_json_to_msgpack(gg_diag *d, gg_buf *b, const char *p, size_t n)
{
	json j = {.d = d, .start = p, .p = p, .end = p + n, .line = 1, .line_start = p};
	gg_writer_init(&j.w, b);
	bool good = value(&j, GG_PACK_DEPTH);
	if (good && peek(&j) >= 0)
		good = bad(&j, "something after the value");
	gg_buf_fini(&j.text);
	return good;
}

/* ---- models ------------------------------------------------------------------------------- */
static size_t count_lines(const gg_source *s, const char **line_start)
{
	size_t n = 1;
	*line_start = s->p;
	for (const char *p = s->p, *end = s->p + s->at; p < end; p++) {
		if (*p == '\n') {
			n++;
			*line_start = p + 1;
		}
	}
	return n;
}

static bool is_end(const char *p, size_t n)
{
	return n > 5 && !memcmp(p,
	                        "\x92\xa3"
	                        "end",
	                        5);
}

int gg_read_json(gg_diag *d, gg_source *s, gg_model **out)
{
	gg_buf b = {0};
	gg_line *line = 0;
	size_t nlines = 0, cap = 0, from = 0;
	json j = {.d = d, .start = s->p, .p = s->p + s->at, .end = s->p + s->len};
	j.line = count_lines(s, &j.line_start);
	gg_writer_init(&j.w, &b);
	if (peek(&j) < 0) {
		s->at = s->len;
		return s->count ? 0 : gg_no_input(d);
	}
	while (!j.failed && peek(&j) >= 0 && !(b.len && is_end(b.p + from, b.len - from))) {
		gg_line here = {from = b.len, j.line};
		GG_PUSH(line, nlines, cap, here);
		value(&j, GG_PACK_DEPTH);
	}
	s->at = (size_t)(j.p - s->p);
	int got = -1;
	if (!j.failed) {
		gg_reader r = {
		    .d = d, .start = b.p, .p = b.p, .end = b.p + b.len, .line = line, .nlines = nlines};
		got = gg_load(&r, true, out);
	}
	s->count += got > 0;
	gg_buf_fini(&j.text);
	gg_buf_fini(&b);
	free(line);
	return got;
}
