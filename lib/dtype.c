/* Dtypes: the table, exact conversions, and random numbers.
 *
 * Small floats go through double, which holds every value of each of them. Widening moves the
 * bits and scales, so that subnormals need no case of their own; narrowing rounds once, to
 * nearest even. Both keep the payload of a NaN. */
#include "tensor.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct row {
	const char *name, *npy;
	int bits, onnx;
	char cls;
} rows[GG_DTYPES] = {
    [GG_NONE] = {"none", "", 0, 0, 0},
#define X(id, name, bits, cls, onnx, npy) [GG_##id] = {#name, npy, bits, onnx, cls},
#include "dtype.inc"
#undef X
};

static const struct row *row(gg_dtype t) { return &rows[(unsigned)t < GG_DTYPES ? t : GG_NONE]; }

const char *gg_dtype_name(gg_dtype t) { return row(t)->name; }
int gg_dtype_onnx(gg_dtype t) { return row(t)->onnx; }
const char *gg_dtype_npy(gg_dtype t) { return row(t)->npy; }
int gg_dtype_bits(gg_dtype t) { return row(t)->bits; }
char gg_dtype_class(gg_dtype t) { return row(t)->cls; }
size_t gg_dtype_size(gg_dtype t) { return ((size_t)row(t)->bits + 7) / 8; }

gg_dtype gg_dtype_find(const char *name)
{
	for (int t = 1; t < GG_DTYPES; t++)
		if (!strcmp(rows[t].name, name))
			return (gg_dtype)t;
	return GG_NONE;
}

gg_dtype gg_dtype_from_onnx(int64_t code)
{
	for (int t = 1; t < GG_DTYPES; t++)
		if (rows[t].onnx == code)
			return (gg_dtype)t;
	return GG_NONE;
}

size_t gg_packed_bytes(gg_dtype t, int64_t count)
{
	if (row(t)->bits == 4)
		return ((size_t)count + 1) / 2;
	return (size_t)count * gg_dtype_size(t);
}

/* ---- small floats -------------------------------------------------------------------------- */

static inline uint64_t bits_of(double x)
{
	uint64_t u;
	memcpy(&u, &x, 8);
	return u;
}

static inline double of_bits(uint64_t u)
{
	double x;
	memcpy(&x, &u, 8);
	return x;
}

/* A float of 1 sign bit, e exponent bits and m mantissa bits; `special` is the first magnitude
 * that is not a finite number (inf, or the NaN of f8e4m3, which has no inf). */
static inline double widen(uint32_t h, int e, int m, uint32_t special)
{
	uint32_t mag = h & ((1u << (e + m)) - 1);
	uint64_t sign = (uint64_t)(h >> (e + m) & 1) << 63, u = (uint64_t)mag << (52 - m);
	double scale = of_bits((uint64_t)(1023 + 1023 - ((1 << (e - 1)) - 1)) << 52);
	if (mag >= special)
		u |= 0x7ffull << 52;
	else
		u = bits_of(of_bits(u) * scale);
	return of_bits(u | sign);
}

/* The magnitude of x rounded to nearest even; `over` when it is too large or x is infinite. */
static inline uint32_t narrow(double x, int e, int m, uint32_t special, uint32_t over)
{
	const int bias = (1 << (e - 1)) - 1;
	uint64_t u = bits_of(x), frac = u & ((1ull << 52) - 1);
	uint32_t sign = (uint32_t)(u >> 63) << (e + m);
	int exp = (int)(u >> 52 & 0x7ff), shift = 52 - m;
	if (exp == 0x7ff && frac) { /* NaN: the top of the payload, and never an infinity */
		uint32_t top = (uint32_t)(frac >> shift), all = (1u << (e + m)) - (1u << m);
		return sign | all | (special > all ? special : top ? top : 1u << (m - 1));
	}
	if (exp == 0x7ff)
		return sign | over;
	int below = 1024 - bias - exp; /* above 0: the result is subnormal, and loses so many more bits */
	uint64_t offset = (uint64_t)(1023 - bias) << m;
	if (below > 0) {
		frac |= 1ull << 52;
		shift += below;
		offset = 0;
		if (shift > 53)
			return sign;
	} else {
		frac = u & ~(1ull << 63);
	}
	/* A carry out of the mantissa moves the exponent up, as it should. */
	uint64_t half = (1ull << (shift - 1)) - 1,
	         mag = ((frac + half + (frac >> shift & 1)) >> shift) - offset;
	return sign | (mag >= special ? over : (uint32_t)mag);
}

#define F16 5, 10, 0x7c00
#define BF16 8, 7, 0x7f80
#define E4M3 4, 3, 0x7f
#define E5M2 5, 2, 0x7c

uint16_t gg_f16_from(double x) { return (uint16_t)narrow(x, F16, 0x7c00); }
double gg_f16_to(uint16_t h) { return widen(h, F16); }
uint16_t gg_bf16_from(double x) { return (uint16_t)narrow(x, BF16, 0x7f80); }
double gg_bf16_to(uint16_t h) { return widen(h, BF16); }
uint8_t gg_f8e4m3_from(double x, bool saturate) { return (uint8_t)narrow(x, E4M3, saturate ? 0x7e : 0x7f); }
double gg_f8e4m3_to(uint8_t h) { return widen(h, E4M3); }
uint8_t gg_f8e5m2_from(double x, bool saturate) { return (uint8_t)narrow(x, E5M2, saturate ? 0x7b : 0x7c); }
double gg_f8e5m2_to(uint8_t h) { return widen(h, E5M2); }

/* ---- one element ------------------------------------------------------------------------------ */

/* Toward zero; NaN gives 0, what lies outside is clamped to the 64-bit range. Narrower types then
 * take the low bits, as a store of an integer does. */
static inline int64_t trunc_i64(double x)
{
	if (x >= -0x1p63 && x < 0x1p63)
		return (int64_t)x;
	return x >= 0x1p63 ? INT64_MAX : x < 0 ? INT64_MIN : 0;
}

static inline uint64_t trunc_u64(double x)
{
	if (x >= 0x1p63)
		return x < 0x1p64 ? (uint64_t)x : UINT64_MAX;
	return (uint64_t)trunc_i64(x);
}

/* To double by way of an odd last bit where it does not fit, so that rounding it again to a
 * smaller float is as if rounded once. */
static inline double odd_f64(int64_t x)
{
	uint64_t u = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
	if (u >> 53)
		u = (u & ~2047ull) | ((u & 2047) ? 2048 : 0);
	return x < 0 ? -(double)u : (double)u;
}

static inline int8_t low4(int64_t x) { return (int8_t)(((x & 15) ^ 8) - 8); }

/* Per dtype: C type; to and from double; to and from int64_t. The id picks the case. */
#define EACH(X) \
	X(GG_F64, double, v, x, trunc_i64(v), (double)x) \
	X(GG_F32, float, v, (float)x, trunc_i64(v), (float)x) \
	X(GG_F16, uint16_t, widen(v, F16), gg_f16_from(x), trunc_i64(widen(v, F16)), gg_f16_from((double)x)) \
	X(GG_BF16, uint16_t, widen(v, BF16), gg_bf16_from(x), trunc_i64(widen(v, BF16)), \
	  gg_bf16_from(odd_f64(x))) \
	X(GG_F8E4M3, uint8_t, widen(v, E4M3), gg_f8e4m3_from(x, true), trunc_i64(widen(v, E4M3)), \
	  gg_f8e4m3_from((double)x, true)) \
	X(GG_F8E5M2, uint8_t, widen(v, E5M2), gg_f8e5m2_from(x, true), trunc_i64(widen(v, E5M2)), \
	  gg_f8e5m2_from((double)x, true)) \
	X(GG_I64, int64_t, (double)v, trunc_i64(x), v, x) \
	X(GG_I32, int32_t, v, (int32_t)trunc_i64(x), v, (int32_t)x) \
	X(GG_I16, int16_t, v, (int16_t)trunc_i64(x), v, (int16_t)x) \
	X(GG_I8, int8_t, v, (int8_t)trunc_i64(x), v, (int8_t)x) \
	X(GG_U64, uint64_t, (double)v, trunc_u64(x), (int64_t)v, (uint64_t)x) \
	X(GG_U32, uint32_t, v, (uint32_t)trunc_i64(x), v, (uint32_t)x) \
	X(GG_U16, uint16_t, v, (uint16_t)trunc_i64(x), v, (uint16_t)x) \
	X(GG_U8, uint8_t, v, (uint8_t)trunc_i64(x), v, (uint8_t)x) \
	X(GG_I4, int8_t, v, low4(trunc_i64(x)), v, low4(x)) \
	X(GG_U4, uint8_t, v, trunc_i64(x) & 15, v, x & 15) \
	X(GG_BOOL, uint8_t, v != 0, x != 0, v != 0, x != 0)

/* A complex number counts as its real part. */
static void no_numbers(gg_dtype t) { gg_bug("dtype '%s' holds no numbers", gg_dtype_name(t)); }

void gg_load_f64(gg_dtype t, const void *src, int64_t off, int64_t n, double *restrict dst)
{
	switch (t) {
#define X(id, T, tof, fromf, toi, fromi) \
	case id: \
		for (int64_t i = 0; i < n; i++) { \
			T v = ((const T *)src)[off + i]; \
			dst[i] = tof; \
		} \
		return;
		EACH (X)
#undef X
		case GG_C64:
			for (int64_t i = 0; i < n; i++)
				dst[i] = ((const float *)src)[2 * (off + i)];
		return;
	default:
		no_numbers(t);
	}
}

void gg_store_f64(gg_dtype t, void *dst, int64_t off, int64_t n, const double *restrict src)
{
	switch (t) {
#define X(id, T, tof, fromf, toi, fromi) \
	case id: \
		for (int64_t i = 0; i < n; i++) { \
			double x = src[i]; \
			((T *)dst)[off + i] = (T)(fromf); \
		} \
		return;
		EACH (X)
#undef X
		case GG_C64:
			for (int64_t i = 0; i < n; i++) {
				((float *)dst)[2 * (off + i)] = (float)src[i];
				((float *)dst)[2 * (off + i) + 1] = 0;
			}
		return;
	default:
		no_numbers(t);
	}
}

void gg_load_i64(gg_dtype t, const void *src, int64_t off, int64_t n, int64_t *restrict dst)
{
	switch (t) {
#define X(id, T, tof, fromf, toi, fromi) \
	case id: \
		for (int64_t i = 0; i < n; i++) { \
			T v = ((const T *)src)[off + i]; \
			dst[i] = toi; \
		} \
		return;
		EACH (X)
#undef X
		case GG_C64:
			for (int64_t i = 0; i < n; i++)
				dst[i] = trunc_i64(((const float *)src)[2 * (off + i)]);
		return;
	default:
		no_numbers(t);
	}
}

void gg_store_i64(gg_dtype t, void *dst, int64_t off, int64_t n, const int64_t *restrict src)
{
	switch (t) {
#define X(id, T, tof, fromf, toi, fromi) \
	case id: \
		for (int64_t i = 0; i < n; i++) { \
			int64_t x = src[i]; \
			((T *)dst)[off + i] = (T)(fromi); \
		} \
		return;
		EACH (X)
#undef X
		case GG_C64:
			for (int64_t i = 0; i < n; i++) {
				((float *)dst)[2 * (off + i)] = (float)src[i];
				((float *)dst)[2 * (off + i) + 1] = 0;
			}
		return;
	default:
		no_numbers(t);
	}
}

double gg_get_f64(const gg_tensor *t, int64_t i)
{
	double x = 0;
	gg_load_f64(t->dtype, t->data, i, 1, &x);
	return x;
}

void gg_set_f64(gg_tensor *t, int64_t i, double x) { gg_store_f64(t->dtype, t->data, i, 1, &x); }

int64_t gg_get_i64(const gg_tensor *t, int64_t i)
{
	int64_t x = 0;
	gg_load_i64(t->dtype, t->data, i, 1, &x);
	return x;
}

void gg_set_i64(gg_tensor *t, int64_t i, int64_t x) { gg_store_i64(t->dtype, t->data, i, 1, &x); }

/* As few digits as read back to the same number. */
static void put_double(gg_buf *b, double x)
{
	char text[32];
	for (int digits = 9; digits <= 17; digits += 4) {
		snprintf(text, sizeof text, "%.*g", digits, x);
		if (strtod(text, NULL) == x)
			break;
	}
	gg_buf_str(b, text);
}

void gg_put_element(gg_buf *b, const gg_tensor *t, int64_t i)
{
	switch (gg_dtype_class(t->dtype)) {
	case 'S':
		gg_buf_str(b, ((const char *const *)t->data)[i]);
		break;
	case 'C':
		gg_buf_printf(b, "%.9g%+.9gi", (double)((const float *)t->data)[i * 2],
		              (double)((const float *)t->data)[i * 2 + 1]);
		break;
	case 'F':
		if (t->dtype == GG_F64)
			put_double(b, gg_get_f64(t, i));
		else
			gg_buf_printf(b, "%.9g", gg_get_f64(t, i));
		break;
	case 'U':
		gg_buf_printf(b, "%llu", (unsigned long long)gg_get_i64(t, i));
		break;
	default:
		gg_buf_printf(b, "%lld", (long long)gg_get_i64(t, i));
	}
}

/* ---- random numbers ------------------------------------------------------------------------ */

static inline uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static inline uint64_t random_bits(uint64_t seed, uint64_t i)
{
	const uint64_t golden = 0x9e3779b97f4a7c15u;
	return mix(mix(seed + golden) + (i + 1) * golden);
}

/* Natural logarithm of 0 < x < 1 in plain arithmetic: libm's may differ from machine to machine. */
static double plain_log(double x)
{
	int e;
	double m = frexp(x, &e);
	if (m < 0.70710678118654752) {
		m *= 2;
		e--;
	}
	double s = (m - 1) / (m + 1), z = s * s, sum = 0;
	for (int k = 21; k > 0; k -= 2)
		sum = sum * z + 1.0 / k;
	return 2 * s * sum + e * 0.69314718055994531;
}

/* num(x) / den(x), of degree 7 */
static inline double ratio(double x, const double *num, const double *den)
{
	double p = num[7], q = den[7];
	for (int k = 6; k >= 0; k--) {
		p = p * x + num[k];
		q = q * x + den[k];
	}
	return p / q;
}

static double tail(double p)
{
	static const double c[] = {1.42343711074968357734e0,  4.63033784615654529590e0,
	                           5.76949722146069140550e0,  3.64784832476320460504e0,
	                           1.27045825245236838258e0,  2.41780725177450611770e-1,
	                           2.27238449892691845833e-2, 7.74545014278341407640e-4};
	static const double d[] = {1,
	                           2.05319162663775882187e0,
	                           1.67638483018380384940e0,
	                           6.89767334985100004550e-1,
	                           1.48103976427480074590e-1,
	                           1.51986665636164571966e-2,
	                           5.47593808499534494600e-4,
	                           1.05075007164441684324e-9};
	double x = ratio(sqrt(-plain_log(p < 0.5 ? p : 1 - p)) - 1.6, c, d);
	return p < 0.5 ? -x : x;
}

#define BLOCK 512

static void uniforms(uint64_t seed, uint64_t i, int64_t n, double *x)
{
	for (int64_t j = 0; j < n; j++)
		x[j] = (double)(random_bits(seed, i + (uint64_t)j) >> 11) * 0x1p-53;
}

/* Inverse of the normal distribution function by Wichura's rational approximations (AS 241), which
 * are good to 1e-16. 35 random bits keep p away from the far tails, where a third one would be due.
 * The middle, 85 of 100, is computed for all: without a branch it runs in vectors. */
static void normals(uint64_t seed, uint64_t i, int64_t n, double *x)
{
	static const double a[] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
	                           1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
	                           3.3430575583588128105e4, 2.5090809287301226727e3};
	static const double b[] = {1,
	                           4.2313330701600911252e1,
	                           6.8718700749205790830e2,
	                           5.3941960214247511077e3,
	                           2.1213794301586595867e4,
	                           3.9307895800092710610e4,
	                           2.8729085735721942674e4,
	                           5.2264952788528545610e3};
	double p[BLOCK];
	for (int64_t j = 0; j < n; j++)
		p[j] = ((double)(int64_t)(random_bits(seed, i + (uint64_t)j) >> 29) + 0.5) * 0x1p-35;
	for (int64_t j = 0; j < n; j++) {
		double q = p[j] - 0.5;
		x[j] = q * ratio(0.180625 - q * q, a, b);
	}
	for (int64_t j = 0; j < n; j++)
		if (p[j] < 0.075 || p[j] > 0.925)
			x[j] = tail(p[j]);
}

double gg_uniform(uint64_t seed, uint64_t i)
{
	double x;
	uniforms(seed, i, 1, &x);
	return x;
}

double gg_normal(uint64_t seed, uint64_t i)
{
	double x;
	normals(seed, i, 1, &x);
	return x;
}

typedef void generator(uint64_t seed, uint64_t i, int64_t n, double *x);

static void fill(gg_tensor *t, generator *f, uint64_t seed, double add, double mul)
{
	double x[BLOCK] = {0};
	int64_t n = gg_count(t);
	for (int64_t i = 0; i < n; i += BLOCK) {
		int64_t k = n - i < BLOCK ? n - i : BLOCK;
		if (f)
			f(seed, (uint64_t)i, k, x);
		for (int64_t j = 0; j < k; j++)
			x[j] = f ? add + mul * x[j] : add;
		gg_store_f64(t->dtype, t->data, i, k, x);
	}
}

void gg_fill_normal(gg_tensor *t, uint64_t seed, double mean, double std)
{
	fill(t, normals, seed, mean, std);
}
void gg_fill_uniform(gg_tensor *t, uint64_t seed, double lo, double hi)
{
	fill(t, uniforms, seed, lo, hi - lo);
}
void gg_fill_value(gg_tensor *t, double x) { fill(t, NULL, 0, x, 0); }
