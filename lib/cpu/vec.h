/* The loops over contiguous floats, compiled once per instruction set (simd/vec.c) and picked
 * when the backend is opened. Everything else in this folder is shapes, layouts and threads.
 *
 * exp, log, erf and tanh are polynomials of our own, fitted to relative errors of about 1e-8
 * before rounding; results are within a few units in the last place. NaN stays NaN. */
#ifndef CPU_VEC_H
#define CPU_VEC_H

#include <stdint.h>

/* d[i] = f(x[i], y[i]); d may be x or y. `a` are attributes. */
typedef void vec_fn(int64_t n, float *d, const float *x, const float *y, const float *a);

/* name, expression over x, y and a[] */
#define VEC_POINTWISE(X) \
	X(abs, __builtin_fabsf(x)) \
	X(ceil, __builtin_ceilf(x)) \
	X(floor, __builtin_floorf(x)) \
	X(neg, -x) \
	X(exp, v_exp(x)) \
	X(log, v_log(x)) \
	X(sqrt, __builtin_sqrtf(x)) \
	X(recip, 1 / x) \
	X(relu, x < 0 ? 0 : x) \
	X(sigmoid, v_sigmoid(x)) \
	X(tanh, v_tanh(x)) \
	X(erf, v_erf(x)) \
	X(gelu, 0.5f * x * (1 + v_erf(x * 0.70710678f))) \
	X(gelu_tanh, 0.5f * x * (1 + v_tanh(0.79788456f * (x + 0.044715f * x * x * x)))) \
	X(swish, x / (1 + v_exp(-a[0] * x))) \
	X(softplus, v_softplus(x)) \
	X(softsign, x / (1 + __builtin_fabsf(x))) \
	X(mish, v_mish(x)) \
	X(hardswish, x *v_clamp(x *(1 / 6.f) + 0.5f, 0, 1)) \
	X(hardsigmoid, v_clamp(a[0] * x + a[1], 0, 1)) \
	X(elu, x < 0 ? a[0] * v_expm1(x) : x) \
	X(selu, x > 0 ? a[1] * x : a[1] * (a[0] * v_expm1(x))) \
	X(leaky, x < 0 ? a[0] * x : x) \
	X(scale, a[0] * x) \
	X(clip, v_clamp(x, a[0], a[1])) \
	X(copy, x) \
	X(add, x + y) \
	X(sub, x - y) \
	X(mul, x *y) \
	X(div, x / y) \
	X(max, x > y || x != x ? x : y) \
	X(min, x < y || x != x ? x : y) \
	X(atleast, x < y ? y : x) \
	X(atmost, x > y ? y : x) \
	X(prelu, x < 0 ? y * x : x) \
	X(relugrad, y > 0 ? x : 0) \
	X(pow, __builtin_powf(x, y))

typedef struct vec_table {
#define X(name, expr) vec_fn *name;
	VEC_POINTWISE(X)
#undef X
	void (*fill)(int64_t n, float *d, float x);
	/* d = (x - m) * s + b, element by element, then max(0); and with one m, s and b */
	void (*affine)(int64_t n, float *d, const float *x, const float *m, const float *s, const float *b,
	               int relu);
	void (*affine1)(int64_t n, float *d, const float *x, float m, float s, float b, int relu);
	/* d = (x - mean) * inv * s + b, element by element (b may be NULL); and with one s and b */
	void (*norm)(int64_t n, float *d, const float *x, float mean, float inv, const float *s,
	             const float *b);
	void (*norm1)(int64_t n, float *d, const float *x, float mean, float s, float b);
	/* Whole rows */
	float (*sum)(int64_t n, const float *x);
	float (*sum_abs)(int64_t n, const float *x);
	float (*sum_square)(int64_t n, const float *x, float mean); /* of x - mean */
	float (*row_max)(int64_t n, const float *x);
	float (*row_min)(int64_t n, const float *x);
	float (*exp_sum)(int64_t n, float *d, const float *x, float max); /* d = exp(x - max) */
	/* Accumulating one row into another */
	void (*acc_sum)(int64_t n, float *d, const float *x);
	void (*acc_abs)(int64_t n, float *d, const float *x);
	void (*acc_square)(int64_t n, float *d, const float *x);
	void (*acc_exp)(int64_t n, float *d, float *sum, const float *x, const float *max);
	/* Of d = x - from and g = dy, or dy where y > 0 (y NULL: everywhere): sum[0..n) += d, then, each n
	 * further, d d, g, g d. dy NULL: no g. */
	void (*acc_moments)(int64_t n, float *sum, const float *x, const float *from, const float *dy,
	                    const float *y);
	/* dx = a g + b (x - mean) + c; p: mean, a, b, c, each of n. dx, dz may be NULL; dz = g. */
	void (*norm_grad)(int64_t n, float *dx, float *dz, const float *x, const float *dy, const float *y,
	                  const float *p);
	/* Where x is the greatest, m, and none before was: d += g, and g becomes 0. */
	void (*max_grad)(int64_t n, float *d, const float *x, const float *m, float *g);
	void (*acc_scaled)(int64_t n, float *d, const float *x, float a);
	/* One step of n cells. g: the gates' sums, n apart; c: cell state, h: output. LSTM: i o f c. */
	void (*lstm)(int64_t n, const float *g, float *c, float *h);
	/* z: update gate, r: reset gate; g: candidate's sum; h old and new */
	void (*gru)(int64_t n, const float *z, const float *g, const float *h, float *out);
	/* Optimiser updates of n elements: the new w, m, v (in the place of the old or not) from the old
	 * and a gradient. p of momentum: decay, scale, lr, momentum, Nesterov. p of adam: beta1, 1-beta1,
	 * beta2, 1-beta2, eps, lr, factor and decay of w, correction. */
	void (*momentum)(int64_t n, float *w, float *m, const float *w0, const float *m0, const float *g,
	                 const float *p);
	void (*adam)(int64_t n, float *w, float *m, float *v, const float *w0, const float *m0,
	             const float *v0, const float *g, const float *p);
} vec_table;
extern const vec_table *vec;

#endif
