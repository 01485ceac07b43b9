#include "pack.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- sources ---------------------------------------------------------------------------- */
/* /dev/zero has no end; /dev/null and a terminal have. */
static bool is_endless(int fd, const struct stat *st) { return S_ISCHR(st->st_mode) && !isatty(fd); }

static bool read_pipe(gg_diag *d, gg_source *s, int fd, bool endless)
{
	gg_buf b = {0};
	size_t cap = 0;
	fcntl(fd, F_SETPIPE_SZ, 1 << 20); /* fewer switches; no matter if it may not */
	for (;;) {
		if (b.len == cap) {
			cap = cap ? cap * 2 : 1 << 16;
			b.p = gg_xrealloc(b.p, cap);
		}
		ssize_t n = read(fd, b.p + b.len, cap - b.len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			gg_buf_fini(&b);
			return gg_error(d, errno == EISDIR ? GG_MALFORMED : GG_MACHINE,
			                "cannot read '%s': %s", s->name, strerror(errno));
		}
		if (!n)
			break;
		if (endless) {
			gg_buf_fini(&b);
			return gg_error(d, GG_MALFORMED, "cannot read '%s': it is a device without an end",
			                s->name);
		}
		b.len += (size_t)n;
	}
	s->p = b.p;
	s->len = b.len;
	return true;
}

static bool map_file(gg_source *s, int fd, const struct stat *st)
{
	off_t at = lseek(fd, 0, SEEK_CUR);
	if (!S_ISREG(st->st_mode) || at || !st->st_size)
		return false;
	void *p = mmap(0, (size_t)st->st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return false;
	s->p = p;
	s->len = (size_t)st->st_size;
	return s->mapped = true;
}

bool gg_source_open(gg_diag *d, gg_source *s, const char *path)
{
	bool in = !path || !strcmp(path, "-");
	*s = (gg_source){.name = in ? "<stdin>" : path};
	int fd = in ? 0 : open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st))
		return gg_error(d, GG_MALFORMED, "cannot read '%s': %s", s->name, strerror(errno));
	bool good = map_file(s, fd, &st) || read_pipe(d, s, fd, is_endless(fd, &st));
	if (!in)
		close(fd);
	return good;
}

void gg_source_close(gg_source *s)
{
	if (s->mapped)
		munmap((void *)s->p, s->len);
	else
		free((void *)s->p);
	*s = (gg_source){0};
}

/* ---- errors ----------------------------------------------------------------------------- */
static size_t line_of(const gg_reader *r, const char *at)
{
	size_t i = 0;
	while (i + 1 < r->nlines && r->line[i + 1].at <= (size_t)(at - r->start))
		i++;
	return r->nlines ? r->line[i].line : 1;
}

bool gg_reader_fail(gg_reader *r, gg_status s, const char *at, const char *fmt, ...)
{
	if (r->failed)
		return false;
	if (!at)
		at = r->p;
	va_list ap;
	gg_buf b = {0};
	if (r->line)
		gg_buf_printf(&b, "line %zu: ", line_of(r, at));
	else
		gg_buf_printf(&b, "byte %zu: ", (size_t)(at - r->start));
	va_start(ap, fmt);
	gg_buf_vprintf(&b, fmt, ap);
	va_end(ap);
	gg_error(r->d, s, "%s", b.p);
	gg_buf_fini(&b);
	r->failed = true;
	r->p = r->end;
	return false;
}

static gg_token too_short(gg_reader *r, const char *at)
{
	gg_reader_fail(r, GG_MALFORMED, at, "stream ends after %zu records: the tool before this one failed",
	               r->records);
	return (gg_token){0};
}

/* ---- msgpack ---------------------------------------------------------------------------- */
static uint64_t big_endian(const char *p, int n)
{
	uint64_t x = 0;
	for (int i = 0; i < n; i++)
		x = x << 8 | (unsigned char)p[i];
	return x;
}

/* Bytes from 0xc0 on: what follows the byte (size field or the number itself), and what it is. */
static const struct {
	uint8_t type, bytes, flag; /* flag: signed int; size of a fixext; value of a bool */
} heads[32] = {
    {GG_PACK_NIL},        {GG_PACK_NONE},      {GG_PACK_BOOL, 0, 0}, {GG_PACK_BOOL, 0, 1},
    {GG_PACK_BIN, 1},     {GG_PACK_BIN, 2},    {GG_PACK_BIN, 4},     {GG_PACK_EXT, 1},
    {GG_PACK_EXT, 2},     {GG_PACK_EXT, 4},    {GG_PACK_F32, 4},     {GG_PACK_F64, 8},
    {GG_PACK_INT, 1},     {GG_PACK_INT, 2},    {GG_PACK_INT, 4},     {GG_PACK_INT, 8},
    {GG_PACK_INT, 1, 1},  {GG_PACK_INT, 2, 1}, {GG_PACK_INT, 4, 1},  {GG_PACK_INT, 8, 1},
    {GG_PACK_EXT, 0, 1},  {GG_PACK_EXT, 0, 2}, {GG_PACK_EXT, 0, 4},  {GG_PACK_EXT, 0, 8},
    {GG_PACK_EXT, 0, 16}, {GG_PACK_STR, 1},    {GG_PACK_STR, 2},     {GG_PACK_STR, 4},
    {GG_PACK_ARRAY, 2},   {GG_PACK_ARRAY, 4},  {GG_PACK_MAP, 2},     {GG_PACK_MAP, 4},
};

static void set_int(gg_token *t, int bytes)
{
	int shift = 64 - 8 * bytes;
	int64_t x = (int64_t)(t->n << shift) >> shift;
	t->negative = x < 0;
	t->n = (uint64_t)x;
}

static gg_token long_head(gg_reader *r, const char *at)
{
	unsigned k = (unsigned char)*at - 0xc0u;
	int bytes = heads[k].bytes;
	gg_token t = {.type = heads[k].type};
	if (r->end - r->p < bytes)
		return too_short(r, at);
	if (t.type == GG_PACK_NONE) {
		gg_reader_fail(r, GG_MALFORMED, at, "byte 0xc1 is not msgpack");
		return t;
	}
	t.n = bytes ? big_endian(r->p, bytes) : heads[k].flag;
	r->p += bytes;
	switch (t.type) {
	case GG_PACK_INT:
		if (heads[k].flag)
			set_int(&t, bytes);
		break;
	case GG_PACK_F32: {
		uint32_t bits = (uint32_t)t.n;
		memcpy(&t.f32, &bits, 4);
		t.f = (double)t.f32;
		break;
	}
	case GG_PACK_F64:
		memcpy(&t.f, &t.n, 8);
		t.f32 = (float)t.f;
		break;
	case GG_PACK_EXT:
		if (r->p == r->end)
			return too_short(r, at);
		t.ext = (signed char)*r->p++;
		break;
	default:
		break;
	}
	return t;
}

gg_token gg_take(gg_reader *r)
{
	if (r->p >= r->end)
		return too_short(r, r->p);
	const char *at = r->p++;
	unsigned c = (unsigned char)*at;
	gg_token t;
	if (c < 0x80)
		return (gg_token){.type = GG_PACK_INT, .n = c};
	if (c >= 0xe0)
		return (gg_token){.type = GG_PACK_INT, .n = (uint64_t)((int64_t)c - 256), .negative = true};
	if (c < 0x90)
		t = (gg_token){.type = GG_PACK_MAP, .n = c & 15};
	else if (c < 0xa0)
		t = (gg_token){.type = GG_PACK_ARRAY, .n = c & 15};
	else if (c < 0xc0)
		t = (gg_token){.type = GG_PACK_STR, .n = c & 31};
	else
		t = long_head(r, at);
	uint64_t left = (uint64_t)(r->end - r->p);
	switch (t.type) {
	case GG_PACK_STR:
	case GG_PACK_BIN:
	case GG_PACK_EXT:
		if (t.n > left)
			return too_short(r, at);
		t.s = r->p;
		r->p += t.n;
		break;
	case GG_PACK_ARRAY:
	case GG_PACK_MAP:
		if (t.n > (t.type == GG_PACK_MAP ? left / 2 : left))
			return too_short(r, at);
		break;
	default:
		break;
	}
	return t;
}

gg_pack_type gg_peek(gg_reader *r)
{
	if (r->p >= r->end)
		return GG_PACK_NONE;
	unsigned c = (unsigned char)*r->p;
	if (c < 0x80 || c >= 0xe0)
		return GG_PACK_INT;
	return c < 0x90   ? GG_PACK_MAP
	       : c < 0xa0 ? GG_PACK_ARRAY
	       : c < 0xc0 ? GG_PACK_STR
	                  : (gg_pack_type)heads[c - 0xc0].type;
}

/* Steps over the values that are one byte, short strings or ids: most of a stream. */
static const char *skip_short(const char *p, const char *end, uint64_t *left)
{
	while (*left && p < end) {
		unsigned c = (unsigned char)*p;
		if (c < 0x80 || c >= 0xe0 || c == 0xc0 || c == 0xc2 || c == 0xc3)
			p++;
		else if (c >= 0xa0 && c < 0xc0 && end - p > (int)(c & 31))
			p += 1 + (c & 31);
		else if (c >= 0xcc && c <= 0xce && end - p > 1 << (c - 0xcc))
			p += 1 + (1 << (c - 0xcc));
		else
			break;
		--*left;
	}
	return p;
}

void gg_skip(gg_reader *r, int depth)
{
	uint64_t left[GG_PACK_DEPTH + 1];
	int top = 0;
	left[0] = 1;
	while (top >= 0 && !r->failed) {
		r->p = skip_short(r->p, r->end, &left[top]);
		if (!left[top]) {
			top--;
			continue;
		}
		left[top]--;
		const char *at = r->p;
		gg_token t = gg_take(r);
		if (t.type != GG_PACK_ARRAY && t.type != GG_PACK_MAP)
			continue;
		if (top == depth) {
			gg_reader_fail(r, GG_MALFORMED, at, "nested more than %d deep", depth);
			return;
		}
		left[++top] = t.type == GG_PACK_MAP ? t.n * 2 : t.n;
	}
}

/* ---- values of a type ---------------------------------------------------------------------- */
static const char *const type_name[] = {"nothing",  "nil",   "bool",     "an int", "a float", "a float",
                                        "a string", "bytes", "an array", "a map",  "an ext"};

static gg_token expect(gg_reader *r, gg_pack_type type, const char *what)
{
	const char *at = r->p;
	gg_token t = gg_take(r);
	if (t.type != type) {
		gg_reader_fail(r, GG_MALFORMED, at, "%s: expected %s, found %s", what, type_name[type],
		               type_name[t.type]);
		t = (gg_token){0};
	}
	return t;
}

/* The count of a short array (0x90) or map (0x80) without the general head; -1: it is none. */
static int short_count(gg_reader *r, unsigned kind, int least)
{
	unsigned c = r->p < r->end ? (unsigned char)*r->p : 0;
	int n = (int)(c & 15);
	if ((c & 0xf0) != kind || r->end - r->p <= n * least)
		return -1;
	r->p++;
	return n;
}

uint32_t gg_take_array(gg_reader *r, const char *what)
{
	int n = short_count(r, 0x90, 1);
	return n >= 0 ? (uint32_t)n : (uint32_t)expect(r, GG_PACK_ARRAY, what).n;
}

uint32_t gg_take_map(gg_reader *r, const char *what)
{
	int n = short_count(r, 0x80, 2);
	return n >= 0 ? (uint32_t)n : (uint32_t)expect(r, GG_PACK_MAP, what).n;
}

int64_t gg_take_int(gg_reader *r, const char *what, int64_t min, int64_t max)
{
	const char *at = r->p;
	unsigned c = at < r->end ? (unsigned char)*at : 0xc0;
	int short_n = c < 0x80 ? 0 : c >= 0xcc && c <= 0xce ? 1 << (c - 0xcc) : -1;
	if (short_n >= 0 && r->end - at > short_n) { /* the ids of a stream */
		int64_t x = short_n ? (int64_t)big_endian(at + 1, short_n) : (int64_t)c;
		if (x >= min && x <= max) {
			r->p = at + 1 + short_n;
			return x;
		}
	}
	gg_token t = expect(r, GG_PACK_INT, what);
	int64_t x = (int64_t)t.n;
	bool fits = t.negative || t.n <= INT64_MAX;
	if (r->failed || (fits && x >= min && x <= max))
		return r->failed ? 0 : x;
	if (t.negative)
		gg_reader_fail(r, GG_MALFORMED, at, "%s: %lld is out of range", what, (long long)x);
	else
		gg_reader_fail(r, GG_MALFORMED, at, "%s: %llu is out of range", what,
		               (unsigned long long)t.n);
	return 0;
}

uint64_t gg_take_u64(gg_reader *r, const char *what)
{
	const char *at = r->p;
	gg_token t = expect(r, GG_PACK_INT, what);
	if (t.negative)
		gg_reader_fail(r, GG_MALFORMED, at, "%s: %lld is out of range", what, (long long)t.n);
	return r->failed ? 0 : t.n;
}

static gg_token number(gg_reader *r, const char *what)
{
	const char *at = r->p;
	gg_token t = gg_take(r);
	if (t.type == GG_PACK_INT) {
		t.f = t.negative ? (double)(int64_t)t.n : (double)t.n;
		t.f32 = (float)t.f;
	} else if (t.type != GG_PACK_F32 && t.type != GG_PACK_F64) {
		gg_reader_fail(r, GG_MALFORMED, at, "%s: expected a number, found %s", what,
		               type_name[t.type]);
		return (gg_token){0};
	}
	return t;
}

double gg_take_number(gg_reader *r, const char *what) { return number(r, what).f; }

float gg_take_f32(gg_reader *r, const char *what) { return number(r, what).f32; }

const char *gg_take_str(gg_reader *r, const char *what, size_t *len)
{
	unsigned c = r->p < r->end ? (unsigned char)*r->p : 0;
	if (c >= 0xa0 && c < 0xc0 && r->end - r->p > (int)(c & 31)) {
		const char *s = r->p + 1;
		*len = c & 31;
		r->p = s + *len;
		return s;
	}
	gg_token t = expect(r, GG_PACK_STR, what);
	*len = t.n;
	return t.s;
}

const char *gg_take_name(gg_reader *r, const char *what)
{
	const char *at = r->p;
	size_t len;
	const char *s = gg_take_str(r, what, &len);
	if (s && len >= GG_LIMIT_NAME)
		gg_reader_fail(r, GG_MALFORMED, at, "%s: a name of %zu bytes, at most %d", what, len,
		               GG_LIMIT_NAME - 1);
	else if (s && len && memchr(s, 0, len))
		gg_reader_fail(r, GG_MALFORMED, at, "%s: a name with a zero byte in it", what);
	return r->failed ? 0 : gg_intern_n(s, len);
}

/* ---- the next model ------------------------------------------------------------------------ */
static bool is_text(unsigned char c) { return c >= ' ' && c < 127; }

static int read_stream(gg_diag *d, gg_source *s, gg_model **out)
{
	gg_reader r = {.d = d, .start = s->p, .p = s->p + s->at, .end = s->p + s->len};
	int got = gg_load(&r, false, out);
	s->at = (size_t)(r.p - s->p);
	return got;
}

int gg_no_input(gg_diag *d)
{
	gg_error(d, GG_MALFORMED, "the input is empty: the tool before this one failed");
	return -1;
}

static int sniff(gg_diag *d, gg_source *s, gg_model **out)
{
	while (s->at < s->len && strchr(" \t\r\n", s->p[s->at]) && s->p[s->at])
		s->at++;
	if (s->at == s->len)
		return s->count ? 0 : gg_no_input(d);
	unsigned char c = (unsigned char)s->p[s->at];
	if (c == 0x92)
		return read_stream(d, s, out);
	if (c == '[')
		return gg_read_json(d, s, out);
	if (is_text(c))
		return gg_read_text(d, s, out);
	gg_error(d, GG_MALFORMED, "byte %zu: 0x%02x does not begin a graph stream%s", s->at, c,
	         c == 8 && !s->at ? "; an ONNX model is read by gg-parse" : "");
	return -1;
}

int gg_read(gg_diag *d, gg_source *s, gg_model **out)
{
	const char *where = d->where;
	if (!where)
		d->where = s->name;
	*out = 0;
	int before = s->count, got = sniff(d, s, out);
	if (got > 0) {
		s->count = before + 1;
		(*out)->weights = s->weights;
		(*out)->allow_outside = s->allow_outside;
	}
	d->where = where;
	return got;
}
