/* The momentum family: acc = momentum acc + g, var -= lr acc, where g is a gradient that may first
 * be given weight decay and a scale: g = (wd var + grad) scale. MindSpore's names and input orders. */
#ifndef GG_OP_MOMENTUM_H
#define GG_OP_MOMENTUM_H

#include "update.h"

/* s[] in the order var acc lr grad momentum gives lr, momentum. */
static inline void momentum_apply(double *v, double g, double lr, double momentum, bool nesterov)
{
	v[1] = momentum * v[1] + g;
	v[0] -= nesterov ? lr * g + lr * momentum * v[1] : lr * v[1];
}

/* The plain nodes of one update: base is the slot of var; scale and decay are slots or -1. */
static inline bool momentum_expand(gg_diag *d, gg_node *n, int base, int out, int scale, int decay,
                                   bool nesterov)
{
	gg_dtype t = update_wide((gg_dtype)gg_in(n, base)->dtype);
	gg_value *var = update_arg(d, n, base, t), *acc = update_arg(d, n, base + 1, t);
	gg_value *lr = update_arg(d, n, base + 2, t), *g = update_arg(d, n, base + 3, t);
	gg_value *momentum = update_arg(d, n, base + 4, t), *step;
	if (decay >= 0)
		g = update_op(d, n, "Add", update_op(d, n, "Mul", var, update_arg(d, n, decay, t)), g);
	if (scale >= 0)
		g = update_op(d, n, "Mul", g, update_arg(d, n, scale, t));
	acc = update_op(d, n, "Add", update_op(d, n, "Mul", acc, momentum), g);
	step = update_op(d, n, "Mul", acc, lr);
	if (nesterov)
		step = update_op(d, n, "Add", update_op(d, n, "Mul", g, lr),
		                 update_op(d, n, "Mul", step, momentum));
	var = update_op(d, n, "Sub", var, step);
	return update_result(d, n, out, var) && update_result(d, n, out + 1, acc);
}

/* An op of one update, whose state are inputs BASE and BASE + 1. */
#define MOMENTUM_OP(NAME, DOC, ROLES, BASE, STEP, EXPAND) \
	static void step_##NAME(double *v, const double *s, double g) { STEP; } \
	static bool infer_##NAME(gg_infer *f) { return update_infer_group(f, ROLES, 0, 0); } \
	static bool eval_##NAME(gg_eval *e) \
	{ \
		update_eval_group(e, ROLES, 0, 0, step_##NAME); \
		return true; \
	} \
	static bool expand_##NAME(gg_diag *d, gg_node *n) \
	{ \
		if (!(EXPAND)) \
			return false; \
		gg_remove_node(n); \
		return true; \
	} \
	const gg_op gg_op_##NAME = { \
	    UPDATE_OP(NAME, DOC),   .min_in = BASE + 5, \
	    .max_in = BASE + 5,     .min_out = 1, \
	    .max_out = 2,           .aliases = (const signed char[]){0, BASE, 1, BASE + 1, -1}, \
	    .infer = infer_##NAME,  .eval = eval_##NAME, \
	    .expand = expand_##NAME}

/* An op of any number of updates, each with inputs of ROLES; N of them, state at BASE of each. */
#define COMBINED_OP(NAME, DOC, ROLES, BASE, STEP, EXPAND) \
	enum { width_##NAME = BASE + 5 }; \
	static void step_##NAME(double *v, const double *s, double g) { STEP; } \
	static bool infer_##NAME(gg_infer *f) \
	{ \
		int w = width_##NAME; \
		if (f->nin % w || f->nout * w != f->nin * 2) \
			return gg_fail(f, "%d inputs and %d outputs, expected %d and 2 for each parameter", \
			               f->nin, f->nout, w); \
		for (int i = 0; i < f->nin / w; i++) \
			if (!update_infer_group(f, ROLES, i * w, 2 * i)) \
				return false; \
		return true; \
	} \
	static bool eval_##NAME(gg_eval *e) \
	{ \
		for (int i = 0; i < e->nin / width_##NAME; i++) \
			update_eval_group(e, ROLES, i *width_##NAME, 2 * i, step_##NAME); \
		return true; \
	} \
	static bool expand_##NAME(gg_diag *d, gg_node *n) \
	{ \
		for (int i = 0, at = 0; at < gg_nargs(n); i++, at += width_##NAME) \
			if (!(EXPAND)) \
				return false; \
		gg_remove_node(n); \
		return true; \
	} \
	const gg_op gg_op_##NAME = { \
	    UPDATE_OP(NAME, DOC),  .min_in = BASE + 5,  .max_in = -1, \
	    .min_out = 2,          .max_out = -1,       .aliases = COMBINED_ALIASES(BASE), \
	    .infer = infer_##NAME, .eval = eval_##NAME, .expand = expand_##NAME}

/* Of the first eight parameters; passes combine no more. */
#define COMBINED_PAIR(B, I) 2 * (I), (I) * ((B) + 5) + (B), 2 * (I) + 1, (I) * ((B) + 5) + (B) + 1
#define COMBINED_ALIASES(B) \
	(const signed char[]) \
	{ \
		COMBINED_PAIR(B, 0), COMBINED_PAIR(B, 1), COMBINED_PAIR(B, 2), COMBINED_PAIR(B, 3), \
		    COMBINED_PAIR(B, 4), COMBINED_PAIR(B, 5), COMBINED_PAIR(B, 6), COMBINED_PAIR(B, 7), -1 \
	}

#endif
