#include "pack.h"
#include <string.h>

static int append(void *data, const char *p, size_t n)
{
	gg_buf *b = data;
	if (b->cap - b->len <= n || n > 64) {
		gg_buf_add(b, p, n);
		return 0;
	}
	memcpy(b->p + b->len, p, n);
	b->len += n;
	b->p[b->len] = 0;
	return 0;
}

void gg_writer_init(gg_writer *w, gg_buf *b)
{
	w->b = b;
	msgpack_packer_init(&w->pk, b, append);
}

void gg_put_nil(gg_writer *w) { msgpack_pack_nil(&w->pk); }

void gg_put_bool(gg_writer *w, bool x)
{
	if (x)
		msgpack_pack_true(&w->pk);
	else
		msgpack_pack_false(&w->pk);
}

/* The ids of a stream here, all else in msgpack-c. */
void gg_put_long_int(gg_writer *w, int64_t x)
{
	gg_buf *b = w->b;
	if (x < 128 || x > UINT32_MAX || b->cap - b->len < 6) {
		msgpack_pack_int64(&w->pk, x);
		return;
	}
	int bytes = x < 1 << 8 ? 1 : x < 1 << 16 ? 2 : 4;
	uint32_t big = __builtin_bswap32((uint32_t)x << (32 - 8 * bytes));
	char *p = b->p + b->len;
	*p = (char)(0xcc + bytes / 2);
	memcpy(p + 1, &big, 4);
	p[1 + bytes] = 0;
	b->len += (size_t)bytes + 1;
}

void gg_put_u64(gg_writer *w, uint64_t x) { msgpack_pack_uint64(&w->pk, x); }

void gg_put_f32(gg_writer *w, float x) { msgpack_pack_float(&w->pk, x); }

void gg_put_f64(gg_writer *w, double x) { msgpack_pack_double(&w->pk, x); }

void gg_put_long_str(gg_writer *w, const char *s, size_t n)
{
	msgpack_pack_str(&w->pk, n);
	if (n)
		msgpack_pack_str_body(&w->pk, s, n);
}

void gg_put_bin(gg_writer *w, const void *p, size_t n)
{
	msgpack_pack_bin(&w->pk, n);
	if (n)
		msgpack_pack_bin_body(&w->pk, p, n);
}

void gg_put_ext(gg_writer *w, int type, const void *p, size_t n)
{
	msgpack_pack_ext(&w->pk, n, (int8_t)type);
	if (n)
		msgpack_pack_ext_body(&w->pk, p, n);
}

void gg_put_long_array(gg_writer *w, size_t n) { msgpack_pack_array(&w->pk, n); }

void gg_put_long_map(gg_writer *w, size_t n) { msgpack_pack_map(&w->pk, n); }

void gg_put_raw(gg_writer *w, const void *p, size_t n) { gg_buf_add(w->b, p, n); }

/* Eight bytes a step, over eight tables. */
static uint32_t table[8][256];

static void make_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;
		for (int k = 0; k < 8; k++)
			c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
		table[0][i] = c;
	}
	for (int t = 1; t < 8; t++)
		for (int i = 0; i < 256; i++)
			table[t][i] = table[t - 1][i] >> 8 ^ table[0][table[t - 1][i] & 255];
}

static uint32_t by_table(uint32_t c, const unsigned char *p, size_t n)
{
	if (!table[0][1])
		make_table();
	for (; n >= 8; p += 8, n -= 8) {
		c ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
		c = table[7][c & 255] ^ table[6][c >> 8 & 255] ^ table[5][c >> 16 & 255] ^ table[4][c >> 24] ^
		    table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
	}
	while (n--)
		c = c >> 8 ^ table[0][(c ^ *p++) & 255];
	return c;
}

#ifdef __x86_64__
#include <immintrin.h>

static inline __m128i load(const unsigned char *p) { return _mm_loadu_si128((const void *)p); }

/* Sixteen bytes moved on by the distance that k stands for: products without carries, by x^(distance +- 32)
 * modulo the polynomial, bits reversed. */
__attribute__((target("pclmul"))) static inline __m128i fold(__m128i x, __m128i k, __m128i next)
{
	__m128i low = _mm_clmulepi64_si128(x, k, 0x00), high = _mm_clmulepi64_si128(x, k, 0x11);
	return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* All but less than 64 bytes, four sums at a time; what is left of them goes through the tables. */
__attribute__((target("pclmul"))) static uint32_t by_fold(uint32_t c, const unsigned char *p, size_t n)
{
	const __m128i by64 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
	const __m128i by16 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
	unsigned char rest[16];
	__m128i x[4];
	for (int i = 0; i < 4; i++)
		x[i] = load(p + 16 * i);
	x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)c));
	for (p += 64; n >= 128; p += 64, n -= 64)
		for (int i = 0; i < 4; i++)
			x[i] = fold(x[i], by64, load(p + 16 * i));
	for (int i = 1; i < 4; i++)
		x[0] = fold(x[0], by16, x[i]);
	_mm_storeu_si128((void *)rest, x[0]);
	return by_table(by_table(0, rest, sizeof rest), p, n - 64);
}
#endif

uint32_t gg_crc32(const void *p, size_t n)
{
	uint32_t c = 0xffffffffu;
#ifdef __x86_64__
	if (n >= 64 && __builtin_cpu_supports("pclmul"))
		return ~by_fold(c, p, n);
#endif
	return ~by_table(c, p, n);
}
