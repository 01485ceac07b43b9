/* What an engine of cuDNN is for, as text and back:
 *
 *     conv f16 batch 1 cin 64 cout 64 group 1 in 56x56 kernel 3x3 ... nhwc scale bias relu
 *     product f16 batch 1 m 128 n 768 k 768 sx 0x768x1 sw 0x768x1 bias gelu
 *
 * Two that read alike are for the same. */
#include "cuda.h"
#include <stdlib.h>
#include <string.h>

typedef struct field {
	const char *name;
	size_t at;
	enum { FLAG, NUMBER, NUMBERS } kind;
} field;

#define CONV(f, kind) \
	{ \
#f, offsetof(dnn_spec, conv.f), kind \
	}
static const field conv_fields[] = {
    CONV(batch, NUMBER),
    CONV(cin, NUMBER),
    CONV(cout, NUMBER),
    CONV(group, NUMBER),
    CONV(in, NUMBERS),
    CONV(kernel, NUMBERS),
    CONV(out, NUMBERS),
    CONV(stride, NUMBERS),
    CONV(dilation, NUMBERS),
    CONV(before, NUMBERS),
    CONV(after, NUMBERS),
    CONV(nhwc, FLAG),
    CONV(back, FLAG),
    CONV(tf32, FLAG),
    CONV(scale, FLAG),
    CONV(bias, FLAG),
    CONV(add, FLAG),
    CONV(relu, FLAG),
    {0},
};
#define PRODUCT(f, kind) \
	{ \
#f, offsetof(dnn_spec, product.f), kind \
	}
static const field product_fields[] = {
    PRODUCT(batch, NUMBER),
    PRODUCT(m, NUMBER),
    PRODUCT(n, NUMBER),
    PRODUCT(k, NUMBER),
    PRODUCT(sx, NUMBERS),
    PRODUCT(sw, NUMBERS),
    PRODUCT(bias, FLAG),
    PRODUCT(add, FLAG),
    PRODUCT(relu, FLAG),
    PRODUCT(gelu, FLAG),
    {0},
};

static const field *fields(const dnn_spec *s) { return s->kind == DNN_CONV ? conv_fields : product_fields; }

void dnn_write(gg_buf *b, const dnn_spec *s)
{
	int many = s->kind == DNN_CONV ? s->conv.nd : 3;

	gg_buf_printf(b, "%s %s", s->kind == DNN_CONV ? "conv" : "product",
	              gg_dtype_name(s->kind == DNN_CONV ? s->conv.dtype : s->product.dtype));
	for (const field *f = fields(s); f->name; f++) {
		const void *at = (const char *)s + f->at;
		if (f->kind == FLAG) {
			gg_buf_printf(b, "%s%s", *(const bool *)at ? " " : "",
			              *(const bool *)at ? f->name : "");
			continue;
		}
		gg_buf_printf(b, " %s ", f->name);
		for (int i = 0; i < (f->kind == NUMBERS ? many : 1); i++)
			gg_buf_printf(b, "%s%lld", i ? "x" : "", (long long)((const int64_t *)at)[i]);
	}
}

/* How many numbers follow, 0: that is no list of up to 3. */
static int read_numbers(const char **at, int64_t *out)
{
	int n = 0;

	for (char *end; n < 3; *at = end + 1) {
		out[n] = strtoll(*at, &end, 10);
		if (end == *at)
			return 0;
		n++;
		if (*end != 'x') {
			*at = end;
			return n;
		}
	}
	return 0;
}

static const field *find(const dnn_spec *s, const char *name, size_t n)
{
	for (const field *f = fields(s); f->name; f++)
		if (strlen(f->name) == n && !strncmp(f->name, name, n))
			return f;
	return NULL;
}

static bool read_field(const char **at, dnn_spec *s)
{
	size_t n = strcspn(*at, " ");
	const field *f = find(s, *at, n);
	void *to = (char *)s + (f ? f->at : 0);
	int64_t x[3] = {0};
	int got;

	*at += n;
	if (!f || f->kind == FLAG)
		return f && (*(bool *)to = true);
	*at += **at == ' ';
	got = read_numbers(at, x);
	if (f->kind == NUMBER && got != 1)
		return false;
	if (f->kind == NUMBERS && s->kind == DNN_CONV)
		s->conv.nd = got;
	memcpy(to, x, f->kind == NUMBER ? sizeof *x : sizeof x);
	return got > 0;
}

bool dnn_read(const char *key, dnn_spec *s)
{
	char kind[16], type[16];
	int n = 0;
	gg_dtype t;

	memset(s, 0, sizeof *s);
	if (sscanf(key, "%15s %15s%n", kind, type, &n) != 2 || !(t = gg_dtype_find(type)))
		return false;
	s->kind = !strcmp(kind, "conv") ? DNN_CONV : DNN_PRODUCT;
	if (s->kind == DNN_CONV)
		s->conv.dtype = t;
	else
		s->product.dtype = t;
	if (s->kind == DNN_PRODUCT && strcmp(kind, "product"))
		return false;
	for (key += n; *key;) {
		key += *key == ' ';
		if (!read_field(&key, s) || (*key && *key != ' '))
			return false;
	}
	return true;
}
