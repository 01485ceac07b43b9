/* Pointwise ops in a few lines: the expression over doubles x, y is both the kernel and the
 * text that code generators use. The integer expression is over int64_t x, y and wraps on
 * storing; ops without integers give 0. */
#ifndef GG_OP_POINTWISE_H
#define GG_OP_POINTWISE_H

#include "op.h"

#define GG_UNARY(NAME, DOC, TYPES, FLOATS, INTS)                                                       \
	static double f_##NAME(double x, const double *attr) { return FLOATS; }                        \
	static int64_t i_##NAME(int64_t x, const double *attr) { return INTS; }                        \
	static bool eval_##NAME(gg_eval *e) { return gg_map1(e, f_##NAME, i_##NAME, 0); }              \
	const gg_op gg_op_##NAME = {.name = #NAME, .doc = DOC, .min_in = 1, .max_in = 1, .min_out = 1, \
	    .max_out = 1, .flags = GG_POINTWISE | GG_INPLACE, .in = {{TYPES, 'T'}},                    \
	    .out = {{TYPES, 'T'}}, .infer = gg_infer_same, .eval = eval_##NAME, .expr = #FLOATS}

#define GG_BINARY(NAME, DOC, TYPES, FLAGS, FLOATS, INTS)                                               \
	static double f_##NAME(double x, double y, const double *attr) { return FLOATS; }              \
	static int64_t i_##NAME(int64_t x, int64_t y, const double *attr) { return INTS; }             \
	static bool eval_##NAME(gg_eval *e) { return gg_map2(e, f_##NAME, i_##NAME, 0); }              \
	const gg_op gg_op_##NAME = {.name = #NAME, .doc = DOC, .min_in = 2, .max_in = 2, .min_out = 1, \
	    .max_out = 1, .flags = GG_POINTWISE | GG_INPLACE | (FLAGS), .in = {{TYPES, 'T'}, {TYPES, 'T'}}, \
	    .out = {{TYPES, 'T'}}, .infer = gg_infer_broadcast, .eval = eval_##NAME, .expr = #FLOATS}

#endif
