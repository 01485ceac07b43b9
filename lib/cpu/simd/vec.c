/* Vector loops; see vec.h. Compiled with -DISA=base, avx2, avx512 and the flags for it. */
#include "../vec.h"
#include <math.h>

#pragma GCC diagnostic ignored "-Wunused-function"
#define CAT2(a, b) a##b
#define CAT(a, b) CAT2(a, b)
#define SIMD _Pragma("omp simd")

static inline float from_bits(uint32_t u)
{
	union {
		uint32_t u;
		float f;
	} b = {u};
	return b.f;
}

static inline uint32_t to_bits(float f)
{
	union {
		float f;
		uint32_t u;
	} b = {f};
	return b.u;
}

static inline float v_clamp(float x, float lo, float hi)
{
	x = x < lo ? lo : x;
	return x > hi ? hi : x;
}

/* x = n ln 2 + r, |r| <= ln 2 / 2. 2^n is applied in two halves, so that it may leave the range of
 * normal numbers. */
static inline float v_exp(float x)
{
	float c = v_clamp(x, -104.f, 89.f);
	float k = c * 1.44269504f + 12582912.f;
	int32_t n = (int32_t)(to_bits(k) - 0x4b400000u);
	float f = k - 12582912.f;
	float r = c - f * 0.693145752f;
	r = r - f * 1.42860677e-6f;
	float p = 0.00139411178f;
	p = p * r + 0.00836317986f;
	p = p * r + 0.0416663736f;
	p = p * r + 0.166665763f;
	p = p * r + 0.5f;
	p = p * r * r + r + 1;
	int32_t h = n >> 1;
	p = p * from_bits((uint32_t)(h + 127) << 23) * from_bits((uint32_t)(n - h + 127) << 23);
	return x != x ? x : p;
}

static inline float v_expm1(float x)
{
	float small = x * (1 + x * (0.5f + x * (0.16666667f + x * (0.041666667f + x * 0.0083333333f))));
	return __builtin_fabsf(x) < 0.2f ? small : v_exp(x) - 1;
}

static inline float v_log(float x)
{
	float big = x < 1.17549435e-38f ? x * 8388608.f : x;
	uint32_t u = to_bits(big) - 0x3f3504f3u; /* sqrt(1/2): mantissas from there */
	float e = (float)((int32_t)u >> 23) - (x < 1.17549435e-38f ? 23 : 0);
	float r = from_bits((u & 0x007fffffu) + 0x3f3504f3u) - 1;
	float p = 0.0691536814f;
	p = p * r - 0.117898077f;
	p = p * r + 0.11872977f;
	p = p * r - 0.123843484f;
	p = p * r + 0.142186582f;
	p = p * r - 0.16669251f;
	p = p * r + 0.200022265f;
	p = p * r - 0.249999866f;
	p = p * r + 0.333333105f;
	float y = r * r * (p * r - 0.5f) + e * 1.42860677e-6f + r + e * 0.693145752f;
	y = x == 0 ? -INFINITY : y;
	y = x < 0 ? NAN : y;
	return x == INFINITY || x != x ? x : y;
}

static inline float v_sigmoid(float x) { return 1 / (1 + v_exp(-x)); }

static inline float v_tanh(float x)
{
	float t = __builtin_fabsf(x), s = x * x;
	float p = -0.00567242177f;
	p = p * s + 0.0206031464f;
	p = p * s - 0.0537252314f;
	p = p * s + 0.133311853f;
	p = p * s - 0.333332628f;
	float small = p * s * x + x;
	float large = 1 - 2 / (v_exp(2 * t) + 1);
	return t < 0.625f ? small : __builtin_copysignf(large, x);
}

/* Below 1 an odd polynomial; above, 1 - exp of a polynomial fitted to log(1 - erf). */
static inline float v_erf(float x)
{
	float t = __builtin_fabsf(x), s = x * x;
	float p = -9.64151422e-06f;
	p = p * s + 0.000112569476f;
	p = p * s - 0.000848282885f;
	p = p * s + 0.00522094546f;
	p = p * s - 0.0268654004f;
	p = p * s + 0.112837821f;
	p = p * s - 0.376126379f;
	p = p * s + 0.12837923f; /* 2/sqrt(pi) - 1 */
	float small = p * x + x;
	float c = t > 4 ? 4 : t;
	float q = 2.14455922e-05f;
	q = q * c - 0.000438530231f;
	q = q * c + 0.00419085706f;
	q = q * c - 0.0251718126f;
	q = q * c + 0.108361557f;
	q = q * c + 0.633272409f;
	q = q * c + 1.12955201f;
	q = q * c - 0.000182460499f;
	float large = __builtin_copysignf(1 - v_exp(-q), x);
	large = t >= 4 ? __builtin_copysignf(1, x) : large;
	large = x != x ? x : large;
	return t < 1 ? small : large;
}

static inline float v_log1p(float u) /* 0 <= u <= 1 */
{
	float w = 1 + u;
	return v_log(w) - ((w - 1) - u) / w;
}

static inline float v_softplus(float x)
{
	return (x > 0 ? x : 0) + v_log1p(v_exp(-__builtin_fabsf(x))) + (x != x ? x : 0);
}

static inline float v_mish(float x)
{
	float e = v_exp(x > 20 ? 20 : x), n = e * (e + 2);
	return x > 20 ? x : x * (n / (n + 2));
}

#define X(name, expr) \
	static void p_##name(int64_t n, float *d, const float *px, const float *py, const float *a) \
	{ \
		SIMD for (int64_t i = 0; i < n; i++) \
		{ \
			const float x = px[i], y = py[i]; \
			(void)y; \
			d[i] = expr; \
		} \
	}
VEC_POINTWISE(X)
#undef X

static void fill(int64_t n, float *d, float x) { SIMD for (int64_t i = 0; i < n; i++) d[i] = x; }

static void affine(int64_t n, float *d, const float *x, const float *m, const float *s, const float *b,
                   int relu)
{
	float floor = relu ? 0 : -INFINITY;
	SIMD for (int64_t i = 0; i < n; i++)
	{
		float y = (x[i] - m[i]) * s[i] + b[i];
		d[i] = y < floor ? floor : y;
	}
}

static void affine1(int64_t n, float *d, const float *x, float m, float s, float b, int relu)
{
	float floor = relu ? 0 : -INFINITY;
	SIMD for (int64_t i = 0; i < n; i++)
	{
		float y = (x[i] - m) * s + b;
		d[i] = y < floor ? floor : y;
	}
}

static void norm(int64_t n, float *d, const float *x, float mean, float inv, const float *s, const float *b)
{
	if (b)
		SIMD for (int64_t i = 0; i < n; i++) d[i] = (x[i] - mean) * inv * s[i] + b[i];
	else
		SIMD for (int64_t i = 0; i < n; i++) d[i] = (x[i] - mean) * inv * s[i];
}

static void norm1(int64_t n, float *d, const float *x, float mean, float s, float b)
{
	SIMD for (int64_t i = 0; i < n; i++) d[i] = (x[i] - mean) * s + b;
}

/* Sums in many lanes, and the lanes' sums in double: rounding grows with n / 64. */
enum { LANES = 64, BLOCK = 4096 };

#define SUM(name, expr) \
	static float name(int64_t n, const float *px, float mean) \
	{ \
		double total = 0; \
		for (int64_t at = 0; at < n; at += BLOCK) { \
			const float *p = px + at; \
			int64_t m = n - at < BLOCK ? n - at : BLOCK, i = 0; \
			float lane[LANES] = {0}; \
			for (; i + LANES <= m; i += LANES) \
				SIMD for (int k = 0; k < LANES; k++) \
				{ \
					float x = p[i + k]; \
					lane[k] += expr; \
				} \
			for (; i < m; i++) { \
				float x = p[i]; \
				lane[i % LANES] += expr; \
			} \
			for (int k = 0; k < LANES; k++) \
				total += lane[k]; \
		} \
		return (float)total; \
	}
SUM(sum_, x + 0 * mean)
SUM(sum_abs_, __builtin_fabsf(x) + 0 * mean)
SUM(sum_square, (x - mean) * (x - mean))
static float sum(int64_t n, const float *x) { return sum_(n, x, 0); }
static float sum_abs(int64_t n, const float *x) { return sum_abs_(n, x, 0); }

#define EXTREME(name, start, test) \
	static float name(int64_t n, const float *p) \
	{ \
		float lane[LANES]; \
		int64_t i = 0; \
		for (int k = 0; k < LANES; k++) \
			lane[k] = start; \
		for (; i + LANES <= n; i += LANES) \
			SIMD for (int k = 0; k < LANES; k++) \
			{ \
				float x = p[i + k], y = lane[k]; \
				lane[k] = (test) || x != x ? x : y; \
			} \
		for (; i < n; i++) { \
			float x = p[i], y = lane[0]; \
			lane[0] = (test) || x != x ? x : y; \
		} \
		for (int k = 1; k < LANES; k++) { \
			float x = lane[k], y = lane[0]; \
			lane[0] = (test) || x != x ? x : y; \
		} \
		return lane[0]; \
	}
EXTREME(row_max, -INFINITY, x > y)
EXTREME(row_min, INFINITY, x < y)

static float exp_sum(int64_t n, float *d, const float *x, float max)
{
	SIMD for (int64_t i = 0; i < n; i++) d[i] = v_exp(x[i] - max);
	return sum(n, d);
}

static void acc_sum(int64_t n, float *d, const float *x)
{
	SIMD for (int64_t i = 0; i < n; i++) d[i] += x[i];
}

static void acc_abs(int64_t n, float *d, const float *x)
{
	SIMD for (int64_t i = 0; i < n; i++) d[i] += __builtin_fabsf(x[i]);
}

static void acc_square(int64_t n, float *d, const float *x)
{
	SIMD for (int64_t i = 0; i < n; i++) d[i] += x[i] * x[i];
}

static void acc_exp(int64_t n, float *d, float *total, const float *x, const float *max)
{
	SIMD for (int64_t i = 0; i < n; i++)
	{
		float e = v_exp(x[i] - max[i]);
		d[i] = e;
		total[i] += e;
	}
}

static void acc_moments(int64_t n, float *sum, const float *x, const float *from, const float *dy,
                        const float *y)
{
	float *squares = sum + n, *g = sum + 2 * n, *dot = sum + 3 * n;
	if (!dy)
		SIMD for (int64_t i = 0; i < n; i++)
		{
			float d = x[i] - from[i];
			sum[i] += d;
			squares[i] += d * d;
		}
	else
		SIMD for (int64_t i = 0; i < n; i++)
		{
			float d = x[i] - from[i], v = y && !(y[i] > 0) ? 0 : dy[i];
			sum[i] += d;
			squares[i] += d * d;
			g[i] += v;
			dot[i] += v * d;
		}
}

static void norm_grad(int64_t n, float *dx, float *dz, const float *x, const float *dy, const float *y,
                      const float *p)
{
	const float *mean = p, *a = p + n, *b = p + 2 * n, *c = p + 3 * n;
	if (dz)
		SIMD for (int64_t i = 0; i < n; i++) dz[i] = y && !(y[i] > 0) ? 0 : dy[i];
	if (dx)
		SIMD for (int64_t i = 0; i < n; i++)
		{
			float v = y && !(y[i] > 0) ? 0 : dy[i];
			dx[i] = a[i] * v + b[i] * (x[i] - mean[i]) + c[i];
		}
}

static void max_grad(int64_t n, float *d, const float *x, const float *m, float *g)
{
	SIMD for (int64_t i = 0; i < n; i++)
	{
		int hit = x[i] == m[i] || x[i] != x[i];
		d[i] += hit ? g[i] : 0;
		g[i] = hit ? 0 : g[i];
	}
}

static void acc_scaled(int64_t n, float *d, const float *x, float a)
{
	SIMD for (int64_t i = 0; i < n; i++) d[i] += a * x[i];
}

static void lstm(int64_t n, const float *g, float *c, float *h)
{
	SIMD for (int64_t i = 0; i < n; i++)
	{
		float in = v_sigmoid(g[i]), out = v_sigmoid(g[n + i]), keep = v_sigmoid(g[2 * n + i]);
		float cell = keep * c[i] + in * v_tanh(g[3 * n + i]);
		c[i] = cell;
		h[i] = out * v_tanh(cell);
	}
}

static void gru(int64_t n, const float *z, const float *g, const float *h, float *out)
{
	SIMD for (int64_t i = 0; i < n; i++)
	{
		float u = v_sigmoid(z[i]);
		out[i] = (1 - u) * v_tanh(g[i]) + u * h[i];
	}
}

static void momentum(int64_t n, float *w, float *m, const float *w0, const float *m0, const float *g,
                     const float *p)
{
	const float decay = p[0], scale = p[1], lr = p[2], mom = p[3], own = p[4] != 0 ? lr : 0;
	const float kept = p[4] != 0 ? lr * mom : lr; /* what of the new momentum goes into w */
	SIMD for (int64_t i = 0; i < n; i++)
	{
		float x = w0[i], d = (decay * x + g[i]) * scale, a = mom * m0[i] + d;
		m[i] = a;
		w[i] = x - (own * d + kept * a);
	}
}

static void adam(int64_t n, float *w, float *m, float *v, const float *w0, const float *m0, const float *v0,
                 const float *g, const float *p)
{
	const float b1 = p[0], c1 = p[1], b2 = p[2], c2 = p[3], eps = p[4], lr = p[5], factor = p[6];
	const float decay = p[7], correction = p[8];
	SIMD for (int64_t i = 0; i < n; i++)
	{
		float x = w0[i], d = g[i], a = b1 * m0[i] + c1 * d, b = b2 * v0[i] + c2 * (d * d);
		float u = a / (__builtin_sqrtf(b) / correction + eps);
		m[i] = a;
		v[i] = b;
		w[i] = factor * x - lr * (decay * x + u);
	}
}

#define X(name, expr) .name = p_##name,
const vec_table CAT(vec_, ISA) = {VEC_POINTWISE(X).fill = fill,
                                  .affine = affine,
                                  .affine1 = affine1,
                                  .norm = norm,
                                  .norm1 = norm1,
                                  .sum = sum,
                                  .sum_abs = sum_abs,
                                  .sum_square = sum_square,
                                  .row_max = row_max,
                                  .row_min = row_min,
                                  .exp_sum = exp_sum,
                                  .acc_sum = acc_sum,
                                  .acc_abs = acc_abs,
                                  .acc_square = acc_square,
                                  .acc_exp = acc_exp,
                                  .acc_moments = acc_moments,
                                  .norm_grad = norm_grad,
                                  .max_grad = max_grad,
                                  .acc_scaled = acc_scaled,
                                  .lstm = lstm,
                                  .gru = gru,
                                  .momentum = momentum,
                                  .adam = adam};
