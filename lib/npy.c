#include "npy.h"
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[] = "\x93NUMPY";
#define MAGIC 6

/* The header is a Python dict of three keys: a cursor over its text. */
typedef struct npy {
	gg_diag *d;
	const char *name;
	const char *p, *end;
	bool bad;
	/* what it says */
	char order, kind;
	int64_t size; /* bytes of one element */
	bool fortran;
	gg_shape shape;
	unsigned seen;
} npy;

static bool fail(npy *h, const char *what)
{
	if (!h->bad)
		gg_error(h->d, GG_MALFORMED, "%s: not a valid .npy file: %s", h->name, what);
	h->bad = true;
	return false;
}

static char look(npy *h)
{
	while (h->p < h->end && strchr(" \t\n", *h->p) && *h->p)
		h->p++;
	return h->p < h->end ? *h->p : 0;
}

static bool accept(npy *h, char c)
{
	if (look(h) != c || !c)
		return false;
	h->p++;
	return true;
}

static bool quoted(npy *h, char *out, size_t size)
{
	char quote = look(h);
	size_t n = 0;

	if (quote != '\'' && quote != '"')
		return fail(h, "a quoted word is missing in its header");
	for (h->p++; h->p < h->end && *h->p != quote; h->p++)
		if (n + 1 < size)
			out[n++] = *h->p;
	out[n] = 0;
	return accept(h, quote) || fail(h, "its header ends inside a word");
}

static bool number(npy *h, int64_t *out)
{
	int64_t x = 0;

	if (look(h) < '0' || look(h) > '9')
		return fail(h, "its shape holds something that is no size");
	for (; h->p < h->end && *h->p >= '0' && *h->p <= '9'; h->p++)
		if (__builtin_mul_overflow(x, 10, &x) || __builtin_add_overflow(x, *h->p - '0', &x))
			return fail(h, "its shape overflows");
	if (h->p < h->end && *h->p == 'L') /* Python 2 */
		h->p++;
	*out = x;
	return true;
}

static bool shape(npy *h)
{
	h->shape.rank = 0;
	if (!accept(h, '('))
		return fail(h, "its shape is no tuple");
	while (!accept(h, ')')) {
		if (h->shape.rank == GG_MAX_RANK) {
			h->bad = true;
			return gg_error(h->d, GG_UNSUPPORTED, "%s: more than %d dimensions", h->name,
			                GG_MAX_RANK);
		}
		if (!number(h, &h->shape.dim[h->shape.rank++]))
			return false;
		if (!accept(h, ',') && look(h) != ')')
			return fail(h, "its shape is no tuple");
	}
	return true;
}

static bool descr(npy *h)
{
	char word[32], *tail;

	if (look(h) == '[') {
		h->bad = true;
		return gg_error(h->d, GG_UNSUPPORTED, "%s: structured arrays are not supported", h->name);
	}
	if (!quoted(h, word, sizeof word))
		return false;
	h->order = strchr("<>|=", word[0]) ? word[0] : '|';
	h->kind = strchr("<>|=", word[0]) && word[0] ? word[1] : word[0];
	if (!h->kind)
		return fail(h, "it has no element type");
	errno = 0;
	h->size = strtol(word + 1 + (h->kind != word[0]), &tail, 10);
	if (*tail || errno || h->size < 0 || h->size > INT_MAX / 4 || strchr("mMO", h->kind)) {
		h->bad = true;
		return gg_error(h->d, GG_UNSUPPORTED, "%s: element type '%s' is not supported", h->name,
		                word);
	}
	if (h->kind == 'U')
		h->size *= 4;
	return true;
}

static bool boolean(npy *h, bool *out)
{
	look(h);
	*out = h->end - h->p >= 4 && !memcmp(h->p, "True", 4);
	if (!*out && (h->end - h->p < 5 || memcmp(h->p, "False", 5)))
		return fail(h, "fortran_order is neither True nor False");
	h->p += *out ? 4 : 5;
	return true;
}

static bool header(npy *h)
{
	if (!accept(h, '{'))
		return fail(h, "its header is no dict");
	while (!accept(h, '}')) {
		char key[32];
		if (!quoted(h, key, sizeof key))
			return false;
		if (!accept(h, ':'))
			return fail(h, "its header is no dict");
		if (!strcmp(key, "descr")           ? !descr(h)
		    : !strcmp(key, "fortran_order") ? !boolean(h, &h->fortran)
		    : !strcmp(key, "shape")         ? !shape(h)
		                                    : !fail(h, "its header has an unknown key"))
			return false;
		h->seen |= 1u << (key[0] == 'd' ? 0 : key[0] == 'f' ? 1 : 2);
		if (!accept(h, ',') && look(h) != '}')
			return fail(h, "its header is no dict");
	}
	return h->seen == 7 || fail(h, "its header lacks descr, fortran_order or shape");
}

/* What an element of a kind and size is; what is wanted settles bit patterns. */
static gg_dtype find_dtype(char kind, int64_t size, gg_dtype want)
{
	static const struct {
		char kind;
		int size;
		gg_dtype is, or [3];
	} row[] = {
	    {'f', 8, GG_F64},
	    {'f', 4, GG_F32},
	    {'f', 2, GG_F16},
	    {'i', 8, GG_I64},
	    {'i', 4, GG_I32},
	    {'i', 2, GG_I16},
	    {'i', 1, GG_I8, {GG_I4}},
	    {'u', 8, GG_U64},
	    {'u', 4, GG_U32},
	    {'u', 2, GG_U16, {GG_BF16}},
	    {'u', 1, GG_U8, {GG_F8E4M3, GG_F8E5M2, GG_U4}},
	    {'b', 1, GG_BOOL},
	    {'c', 8, GG_C64},
	    {'V', 2, GG_BF16},
	    {'V', 1, GG_F8E4M3, {GG_F8E5M2}},
	};

	if (kind == 'U' || kind == 'S')
		return GG_STRING;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		if (row[i].kind != kind || row[i].size != size)
			continue;
		for (int k = 0; k < 3; k++)
			if (row[i].or [k] && row[i].or [k] == want)
				return want;
		return row[i].is;
	}
	return GG_NONE;
}

static void swap_bytes(char *p, int64_t count, int64_t size)
{
	for (int64_t i = 0; i < count; i++, p += size)
		for (int64_t a = 0, b = size - 1; a < b; a++, b--) {
			char c = p[a];
			p[a] = p[b];
			p[b] = c;
		}
}

/* Column-major to row-major. */
static void from_fortran(const gg_shape *s, int64_t size, const char *src, char *dst, int64_t count)
{
	int64_t idx[GG_MAX_RANK] = {0}, stride[GG_MAX_RANK], at = 0;

	for (int i = 0; i < s->rank; i++)
		stride[i] = i ? stride[i - 1] * s->dim[i - 1] : 1;
	for (int64_t k = 0; k < count; k++, dst += size) {
		memcpy(dst, src + at * size, (size_t)size);
		for (int i = s->rank - 1; i >= 0; i--) {
			at += stride[i];
			if (++idx[i] < s->dim[i])
				break;
			at -= stride[i] * s->dim[i];
			idx[i] = 0;
		}
	}
}

static void put_utf8(gg_buf *b, uint32_t c)
{
	char s[4];
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		s[i] = (char)(0x80 | (c & 0x3f));
	s[0] = n == 1 ? (char)c : (char)((0xf00 >> n) | c);
	gg_buf_add(b, s, n);
}

static const char *cell(const char *p, int64_t size, bool wide)
{
	gg_buf b = {0};
	const char *s;

	if (!wide)
		return gg_intern_n(p, strnlen(p, (size_t)size));
	for (int64_t i = 0; i < size; i += 4) {
		uint32_t c;
		memcpy(&c, p + i, 4);
		if (!c)
			break;
		put_utf8(&b, c > 0x10ffff ? 0xfffd : c);
	}
	s = gg_intern_n(b.p ? b.p : "", b.len);
	gg_buf_fini(&b);
	return s;
}

static void to_strings(gg_tensor *t, int64_t count, const npy *h)
{
	const char **s = gg_xaligned((size_t)count * sizeof *s + 1);

	for (int64_t i = 0; i < count; i++)
		s[i] = cell((char *)t->data + i * h->size, h->size, h->kind == 'U');
	free(t->data);
	t->data = s;
}

static bool in_range(npy *h, const gg_tensor *t, int64_t count)
{
	const int8_t *p = t->data;

	if (t->dtype == GG_BOOL)
		for (int64_t i = 0; i < count; i++)
			((uint8_t *)t->data)[i] = p[i] != 0;
	if (t->dtype == GG_I4 || t->dtype == GG_U4)
		for (int64_t i = 0; i < count; i++)
			if (t->dtype == GG_I4 ? p[i] < -8 || p[i] > 7 : p[i] < 0 || p[i] > 15)
				return gg_error(h->d, GG_MALFORMED, "%s: %d does not fit in %s", h->name,
				                p[i] < 0 && t->dtype == GG_U4 ? p[i] + 256 : p[i],
				                gg_dtype_name(t->dtype));
	return true;
}

/* Dtype, shape and bytes of what follows the header. */
static bool measure(npy *h, gg_dtype want, gg_tensor *t, int64_t *count, int64_t *bytes)
{
	bool empty = false;

	*count = 1;
	for (int i = 0; i < h->shape.rank; i++)
		empty |= h->shape.dim[i] == 0;
	for (int i = 0; i < h->shape.rank && !empty; i++)
		if (__builtin_mul_overflow(*count, h->shape.dim[i], count))
			return fail(h, "its size overflows");
	*count = empty ? 0 : *count;
	t->dtype = find_dtype(h->kind, h->size, want);
	t->shape = h->shape;
	if (!t->dtype)
		return gg_error(h->d, GG_UNSUPPORTED, "%s: element type '%c%d' is not supported", h->name,
		                h->kind, (int)h->size);
	if (__builtin_mul_overflow(*count, h->size, bytes) || *count > INT64_MAX / 16)
		return fail(h, "its size overflows");
	if (*bytes > h->end - h->p || *count > (h->size ? *bytes : h->end - h->p))
		return gg_error(h->d, GG_MALFORMED,
		                "%s: the file is cut short: %lld bytes of data, its header says %lld",
		                h->name, (long long)(h->end - h->p), (long long)*bytes);
	return true;
}

static bool load(npy *h, gg_dtype want, gg_tensor *t)
{
	int64_t count, bytes, step = h->kind == 'U' || h->kind == 'c' ? 4 : h->size;

	if (!measure(h, want, t, &count, &bytes))
		return false;
	t->data = gg_xaligned((size_t)bytes);
	if (h->fortran && h->shape.rank > 1)
		from_fortran(&h->shape, h->size, h->p, t->data, count);
	else if (bytes)
		memcpy(t->data, h->p, (size_t)bytes);
	if (h->order == '>' && step > 1)
		swap_bytes(t->data, bytes / step, step);
	if (t->dtype == GG_STRING)
		to_strings(t, count, h);
	if (in_range(h, t, count))
		return true;
	free(t->data);
	t->data = NULL;
	return false;
}

/* Reads the header; h->p is then where the data start. */
static bool open_npy(npy *h, const void *p, size_t len)
{
	size_t start, size;
	const uint8_t *b = p;
	const char *data;

	if (len < 10 || memcmp(p, magic, MAGIC))
		return fail(h, "it does not start as one");
	if (b[6] < 1 || b[6] > 3)
		return gg_error(h->d, GG_UNSUPPORTED, "%s: .npy version %d is not supported", h->name, b[6]);
	start = b[6] == 1 ? 10 : 12;
	if (len < start)
		return fail(h, "it ends inside its header");
	size = b[8] | (size_t)b[9] << 8;
	if (b[6] > 1)
		size |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
	if (size > len - start)
		return fail(h, "it ends inside its header");
	h->p = (const char *)p + start;
	data = h->p + size;
	h->end = data;
	if (!header(h))
		return false;
	h->p = data;
	h->end = (const char *)p + len;
	return true;
}

bool gg_npy_parse(gg_diag *d, const char *name, const void *p, size_t len, gg_dtype want, gg_tensor *out)
{
	npy h = {.d = d, .name = name};

	memset(out, 0, sizeof *out);
	return open_npy(&h, p, len) && load(&h, want, out);
}

/* As they lie there: in our byte order, row by row, and nothing to check. */
static bool as_they_are(const npy *h, gg_dtype t)
{
	return !(h->order == '>' && h->size > 1) && !(h->fortran && h->shape.rank > 1) && t != GG_STRING &&
	       t != GG_BOOL && gg_dtype_bits(t) != 4;
}

bool gg_npy_view(gg_diag *d, const char *name, const void *p, size_t len, gg_dtype want, gg_tensor *out,
                 bool *owned)
{
	npy h = {.d = d, .name = name};
	int64_t count, bytes;

	memset(out, 0, sizeof *out);
	*owned = false;
	if (!open_npy(&h, p, len) || !measure(&h, want, out, &count, &bytes))
		return false;
	if (as_they_are(&h, out->dtype)) {
		out->data = (void *)(uintptr_t)h.p;
		return true;
	}
	*owned = true;
	return load(&h, want, out);
}

bool gg_tensor_read(gg_diag *d, const char *path, gg_dtype want, gg_tensor *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *p = NULL;
	bool good;

	memset(out, 0, sizeof *out);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		gg_error(d, GG_MALFORMED, "%s: cannot read it: %s", path,
		         fd < 0 ? strerror(errno) : "not a regular file");
		if (fd >= 0)
			close(fd);
		return false;
	}
	if (st.st_size > 0)
		p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return gg_error(d, GG_MACHINE, "%s: cannot map it: %s", path, strerror(errno));
	if (st.st_size >= MAGIC && !memcmp(p, magic, MAGIC))
		good = gg_npy_parse(d, path, p, (size_t)st.st_size, want, out);
	else if (strlen(path) > 4 && !strcmp(path + strlen(path) - 4, ".npy"))
		good = gg_error(d, GG_MALFORMED, "%s: not a valid .npy file: it does not start as one", path);
	else
		good = gg_pb_parse(d, path, p ? p : "", (size_t)st.st_size, out);
	if (p)
		munmap(p, (size_t)st.st_size);
	return good;
}

/* ---- writing --------------------------------------------------------------------------------- */

static size_t code_points(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

static const char *next_point(const char *s, uint32_t *out)
{
	const unsigned char *p = (const unsigned char *)s;
	int more = *p >= 0xf0 ? 3 : *p >= 0xe0 ? 2 : *p >= 0xc0 ? 1 : 0;
	uint32_t c = more ? *p & (0x3fu >> more) : *p;

	for (p++; more > 0 && (*p & 0xc0) == 0x80; more--, p++)
		c = c << 6 | (*p & 0x3f);
	*out = c;
	return (const char *)p;
}

static void print_strings(gg_buf *b, const gg_tensor *t, size_t width)
{
	const char *const *s = t->data;

	for (int64_t i = 0; i < gg_count(t); i++) {
		const char *p = s[i];
		for (size_t k = 0; k < width; k++) {
			uint32_t c = 0;
			if (*p)
				p = next_point(p, &c);
			gg_buf_add(b, &c, 4);
		}
	}
}

void gg_npy_print(gg_buf *b, const gg_tensor *t)
{
	gg_buf h = {0};
	size_t width = 1, pad;
	int64_t count = gg_count(t);
	unsigned char start[10] = "\x93NUMPY\x01";

	if (t->dtype == GG_STRING)
		for (int64_t i = 0; i < count; i++) {
			size_t n = code_points(((const char *const *)t->data)[i]);
			width = n > width ? n : width;
		}
	gg_buf_str(&h, "{'descr': '");
	if (t->dtype == GG_STRING)
		gg_buf_printf(&h, "<U%zu", width);
	else
		gg_buf_str(&h, gg_dtype_npy(t->dtype));
	gg_buf_str(&h, "', 'fortran_order': False, 'shape': (");
	for (int i = 0; i < t->shape.rank; i++)
		gg_buf_printf(&h, "%s%lld", i ? ", " : "", (long long)t->shape.dim[i]);
	gg_buf_str(&h, t->shape.rank == 1 ? ",), }" : "), }");
	pad = 63 - (sizeof start + h.len) % 64;
	gg_buf_printf(&h, "%*s\n", (int)pad, "");
	start[8] = (unsigned char)h.len;
	start[9] = (unsigned char)(h.len >> 8);
	gg_buf_add(b, start, sizeof start);
	gg_buf_add(b, h.p, h.len);
	gg_buf_fini(&h);
	if (t->dtype == GG_STRING)
		print_strings(b, t, width);
	else if (count)
		gg_buf_add(b, t->data, gg_nbytes(t));
}

bool gg_npy_write(gg_diag *d, const char *path, const gg_tensor *t)
{
	gg_buf b = {0};
	bool good;

	gg_npy_print(&b, t);
	good = gg_write_file(d, path, b.p, b.len);
	gg_buf_fini(&b);
	return good;
}
