/* Pointwise ops in a few lines: the expression over doubles x, y is both the kernel and the
 * text that code generators use. What follows the named arguments goes into the descriptor. The integer
 * expression is over int64_t x, y and wraps on storing; ops without integers give 0. In expressions a and b
 * are the op's first and second attribute, see gg_expr_attrs. */
#ifndef GG_OP_POINTWISE_H
#define GG_OP_POINTWISE_H

#include "opkit.h"
#include <math.h>

/* The fields that all pointwise ops of n inputs share. */
#define GG_POINTWISE_OP(NAME, DOC, N, FLAGS) \
	.name = #NAME, .doc = DOC, .min_in = N, .max_in = N, .min_out = 1, .max_out = 1, \
	.flags = GG_POINTWISE | GG_INPLACE | (FLAGS)

#define GG_UNARY(NAME, DOC, TYPES, FLOATS, INTS, ...) \
	static double f_##NAME(double x, const double *attr) { return FLOATS; } \
	static int64_t i_##NAME(int64_t x, const double *attr) { return INTS; } \
	static bool eval_##NAME(gg_eval *e) { return gg_map1(e, f_##NAME, i_##NAME, 0); } \
	const gg_op gg_op_##NAME = {GG_POINTWISE_OP(NAME, DOC, 1, 0), \
	                            .in = {{TYPES, 'T'}}, \
	                            .out = {{TYPES, 'T'}}, \
	                            .infer = gg_infer_same, \
	                            .eval = eval_##NAME, \
	                            .expr = #FLOATS, \
	                            __VA_ARGS__}

/* Floats only, with one or two attributes: ATTRS are their rows in braces. */
#define GG_ATTRS(...) ((const gg_attr_spec[]){__VA_ARGS__, {0}})
#define GG_UNARY_ATTR(NAME, DOC, ATTRS, EXPR, ...) \
	static double f_##NAME(double x, const double *attr) \
	{ \
		const double a = attr[0], b = attr[1]; \
		(void)a, (void)b; \
		return EXPR; \
	} \
	static bool eval_##NAME(gg_eval *e) \
	{ \
		double attr[GG_EXPR_ATTRS]; \
		gg_expr_attrs(e->n, attr); \
		return gg_map1(e, f_##NAME, 0, attr); \
	} \
	const gg_op gg_op_##NAME = {GG_POINTWISE_OP(NAME, DOC, 1, 0), \
	                            .attrs = ATTRS, \
	                            .in = {{GG_FLOATS, 'T'}}, \
	                            .out = {{GG_FLOATS, 'T'}}, \
	                            .infer = gg_infer_same, \
	                            .eval = eval_##NAME, \
	                            .expr = #EXPR, \
	                            __VA_ARGS__}

#define GG_BINARY(NAME, DOC, TYPES, FLAGS, FLOATS, INTS, ...) \
	GG_ARITH(NAME, DOC, TYPES, FLAGS, FLOATS, INTS, INTS, 0, __VA_ARGS__)

/* With another expression for u64, over uint64_t x, y, and the rule for contents: a gg_dim2. */
#define GG_ARITH(NAME, DOC, TYPES, FLAGS, FLOATS, INTS, U64, DIMS, ...) \
	static double f_##NAME(double x, double y, const double *attr) { return FLOATS; } \
	static int64_t i_##NAME(int64_t x, int64_t y, const double *attr) { return INTS; } \
	static int64_t u_##NAME(int64_t sx, int64_t sy, const double *attr) \
	{ \
		const uint64_t x = (uint64_t)sx, y = (uint64_t)sy; \
		return (int64_t)(U64); \
	} \
	static bool eval_##NAME(gg_eval *e) \
	{ \
		return gg_map2(e, f_##NAME, e->in[0].dtype == GG_U64 ? u_##NAME : i_##NAME, 0); \
	} \
	static bool infer_##NAME(gg_infer *f) { return gg_infer_arith(f, DIMS); } \
	const gg_op gg_op_##NAME = {GG_POINTWISE_OP(NAME, DOC, 2, FLAGS), \
	                            .in = {{TYPES, 'T'}, {TYPES, 'T'}}, \
	                            .out = {{TYPES, 'T'}}, \
	                            .infer = infer_##NAME, \
	                            .eval = eval_##NAME, \
	                            .expr = #FLOATS, \
	                            __VA_ARGS__}

/* A comparison: one expression serves all types, u64 over uint64_t. */
#define GG_COMPARE(NAME, DOC, FLAGS, EXPR) \
	static double f_##NAME(double x, double y, const double *attr) { return EXPR; } \
	static int64_t i_##NAME(int64_t x, int64_t y, const double *attr) { return EXPR; } \
	static int64_t u_##NAME(int64_t sx, int64_t sy, const double *attr) \
	{ \
		const uint64_t x = (uint64_t)sx, y = (uint64_t)sy; \
		return EXPR; \
	} \
	static bool eval_##NAME(gg_eval *e) \
	{ \
		return gg_map2_test(e, f_##NAME, e->in[0].dtype == GG_U64 ? u_##NAME : i_##NAME); \
	} \
	static bool dims_##NAME(gg_dim x, gg_dim y, gg_dim *out) \
	{ \
		*out = EXPR; \
		return gg_dim_number(x) && gg_dim_number(y); \
	} \
	static bool infer_##NAME(gg_infer *f) { return gg_infer_arith(f, dims_##NAME); } \
	const gg_op gg_op_##NAME = {GG_POINTWISE_OP(NAME, DOC, 2, FLAGS), \
	                            .in = {{GG_NUMBERS, 'T'}, {GG_NUMBERS, 'T'}}, \
	                            .out = {{GG_DT(GG_BOOL)}}, \
	                            .infer = infer_##NAME, \
	                            .eval = eval_##NAME, \
	                            .expr = #EXPR}

/* The fields of ops that take any number of inputs and broadcast them. */
#define GG_VARIADIC(NAME, DOC, TYPES) \
	.name = #NAME, .doc = DOC, .min_in = 1, .max_in = -1, .min_out = 1, .max_out = 1, \
	.flags = GG_POINTWISE | GG_INPLACE | GG_COMMUTES, .in = {{TYPES, 'T'}}, .out = {{TYPES, 'T'}}

/* The input that comes first by THAN, < or >; NaN wins. DIMS is the rule for contents: a gg_dim2. */
#define GG_EXTREME(NAME, DOC, THAN, DIMS) \
	static double f_##NAME(double x, double y, const double *attr) \
	{ \
		return x THAN y || x != x ? x : y; \
	} \
	static int64_t i_##NAME(int64_t x, int64_t y, const double *attr) { return x THAN y ? x : y; } \
	static int64_t u_##NAME(int64_t x, int64_t y, const double *attr) \
	{ \
		const uint64_t ux = (uint64_t)x, uy = (uint64_t)y; \
		return ux THAN uy ? x : y; \
	} \
	static bool eval_##NAME(gg_eval *e) \
	{ \
		return gg_map_fold(e, f_##NAME, e->in[0].dtype == GG_U64 ? u_##NAME : i_##NAME, 1); \
	} \
	static bool dims_##NAME(gg_dim x, gg_dim y, gg_dim *out) \
	{ \
		*out = DIMS(x, y); \
		return true; \
	} \
	static bool infer_##NAME(gg_infer *f) { return gg_infer_arith(f, dims_##NAME); } \
	const gg_op gg_op_##NAME = {GG_VARIADIC(NAME, DOC, GG_NUMBERS), .infer = infer_##NAME, \
	                            .eval = eval_##NAME, .grad = gg_grad_equal, \
	                            .expr = "x " #THAN " y || x != x ? x : y"}

/* On bool, or on the bits of integers. */
#define GG_BITS(NAME, DOC, TYPES, EXPR) \
	static int64_t i_##NAME(int64_t x, int64_t y, const double *attr) { return EXPR; } \
	static bool eval_##NAME(gg_eval *e) { return gg_map2(e, 0, i_##NAME, 0); } \
	const gg_op gg_op_##NAME = {GG_POINTWISE_OP(NAME, DOC, 2, GG_COMMUTES), \
	                            .in = {{TYPES, 'T'}, {TYPES, 'T'}}, .out = {{TYPES, 'T'}}, \
	                            .infer = gg_infer_broadcast, .eval = eval_##NAME}

#endif
