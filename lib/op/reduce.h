/* Reductions over axes: a row each. The reduced axes are brought behind the kept ones, if they
 * are not there already, and each row of them is folded in double (128 bits for integers, so that a mean is
 * right whatever its sum), rounded once.
 *
 * GG_REDUCTION's expressions: a is the accumulator, x the next element, n the count of elements. */
#ifndef GG_OP_REDUCE_H
#define GG_OP_REDUCE_H

#include "move.h"
#include <float.h>
#include <math.h>

typedef __int128 gg_wide;

typedef struct gg_reduction {
	double start;
	double (*step)(double a, const double *x, int64_t n); /* folds n elements into a */
	double (*end)(double a, int64_t n);
	int istart;
	gg_wide (*istep)(gg_wide a, const int64_t *x, int64_t n, bool u); /* u: they are u64 */
	gg_wide (*iend)(gg_wide a, int64_t n);
	bool by_order; /* integers are compared: istart's sign says at which end of the dtype they start */
	void (*row)(gg_dtype t, const void *src, int64_t off, int64_t n,
	            double *out); /* instead of step and end */
} gg_reduction;

bool gg_reduce_infer(gg_infer *f);
bool gg_reduce_eval(gg_eval *e, const gg_reduction *r);

#define GG_REDUCE_TYPES (GG_FLOATS | GG_DT(GG_I64) | GG_DT(GG_I32) | GG_DT(GG_U64) | GG_DT(GG_U32))

#define GG_REDUCE_OP(NAME, DOC, TYPES, ...) \
	static bool eval_##NAME(gg_eval *e) { return gg_reduce_eval(e, &row_##NAME); } \
	const gg_op gg_op_##NAME = { \
	    .name = #NAME, \
	    .doc = DOC, \
	    .min_in = 1, \
	    .max_in = 2, \
	    .min_out = 1, \
	    .max_out = 1, \
	    .attrs = (const gg_attr_spec[]){{"keepdims", GG_ATTR_INT, false, "1"}, \
	                                    {"noop_with_empty_axes", GG_ATTR_INT, false, "0"}, \
	                                    {0}}, \
	    .in = {{TYPES, 'T'}, {GG_DT(GG_I64)}}, \
	    .out = {{TYPES, 'T'}}, \
	    .optional = 1 << 1, \
	    .infer = gg_reduce_infer, \
	    .eval = eval_##NAME, \
	    __VA_ARGS__}

#define GG_REDUCTION(NAME, DOC, TYPES, ORDER, START, STEP, END, ISTART, ISTEP, IEND, ...) \
	static double f_##NAME(double a, const double *v, int64_t n) \
	{ \
		for (int64_t i = 0; i < n; i++) { \
			double x = v[i]; \
			a = STEP; \
		} \
		return a; \
	} \
	static double fend_##NAME(double a, int64_t n) { return END; } \
	static gg_wide i_##NAME(gg_wide a, const int64_t *v, int64_t n, bool u) \
	{ \
		for (int64_t i = 0; i < n; i++) { \
			gg_wide x = u ? (gg_wide)(uint64_t)v[i] : v[i]; \
			a = ISTEP; \
		} \
		return a; \
	} \
	static gg_wide iend_##NAME(gg_wide a, int64_t n) { return IEND; } \
	static const gg_reduction row_##NAME = {START,    f_##NAME,    fend_##NAME, ISTART, \
	                                        i_##NAME, iend_##NAME, ORDER,       0}; \
	GG_REDUCE_OP(NAME, DOC, TYPES, __VA_ARGS__)

/* Sums of integers wrap when they are stored; products, which 128 bits may not hold, here. */
#define GG_WRAP_MUL(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))

#endif
