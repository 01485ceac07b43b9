/* FusedAdam and FusedAdamWeightDecay, MindSpore's names and input orders:
 *
 *   beta1, 1-beta1, beta2, 1-beta2, eps, lr, var, m, v, grad [, weight decay] [, correction]
 *
 *   m = beta1 m + (1-beta1) grad;  v = beta2 v + (1-beta2) grad^2;  u = m / (sqrt(v) / correction + eps)
 *
 * Without the last input there is no bias correction. With it, it is sqrt(1 - beta2^t), and lr is
 * lr / (1 - beta1^t): Adam as PyTorch writes it. */
#ifndef GG_OP_ADAM_H
#define GG_OP_ADAM_H

#include "update.h"

static inline double adam_direction(double *v, const double *s, double g, double correction)
{
	v[1] = s[0] * v[1] + s[1] * g;
	v[2] = s[2] * v[2] + s[3] * g * g;
	return v[1] / (sqrt(v[2]) / correction + s[4]);
}

/* The plain nodes: state stored in outputs 1 and 2, the direction returned; correction: its slot. */
static inline gg_value *adam_expand(gg_diag *d, gg_node *n, gg_dtype t, int correction)
{
	gg_value *s[5], *m = update_arg(d, n, 7, t), *v = update_arg(d, n, 8, t), *g = update_arg(d, n, 9, t);
	for (int i = 0; i < 5; i++)
		s[i] = update_arg(d, n, i, t);
	m = update_op(d, n, "Add", update_op(d, n, "Mul", s[0], m), update_op(d, n, "Mul", s[1], g));
	v = update_op(d, n, "Add", update_op(d, n, "Mul", s[2], v),
	              update_op(d, n, "Mul", s[3], update_op(d, n, "Mul", g, g)));
	gg_value *root = v ? gg_expand_node(d, n, "Sqrt", 1, &v) : 0;
	if (gg_in(n, correction))
		root = update_op(d, n, "Div", root, update_arg(d, n, correction, t));
	gg_value *u = update_op(d, n, "Div", m, update_op(d, n, "Add", root, s[4]));
	return u && update_result(d, n, 1, m) && update_result(d, n, 2, v) ? u : 0;
}

#define ADAM_OP(NAME, DOC, NIN) \
	UPDATE_OP(NAME, DOC), .min_in = (NIN)-1, .max_in = (NIN), .min_out = 1, .max_out = 3, \
	                      .aliases = (const signed char[]) \
	{ \
		0, 6, 1, 7, 2, 8, -1 \
	}

#endif
