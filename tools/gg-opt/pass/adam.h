/* What adam, adamw and lamb share: the moments and the bias corrections. */
#ifndef GG_PASS_ADAM_H
#define GG_PASS_ADAM_H

#include "../train.h"

#define ADAM_OPTIONS "beta1=X: (0.9); beta2=X: (0.999); eps=X: (1e-08)"

enum { STEP_SIZE, CORRECTION }; /* in t->memo: for f32, then for f64 */

/* 1 - beta^t in f64, t counting from 1. */
static inline gg_value *adam_bias(train *t, const char *name, double beta)
{
	gg_value *power = train_op(t, "Pow", train_number(t, name, GG_F64, beta), train_count(t));
	return train_op(t, "Sub", train_number(t, "adam.one", GG_F64, 1), power);
}

static inline gg_value *adam_scalar(train *t, int which, gg_dtype type)
{
	gg_value **v = &t->memo[which + (type == GG_F64 ? 2 : 0)];
	if (*v || t->b.bad)
		return *v;
	gg_builder was = train_scalars(t);
	if (which == STEP_SIZE) {
		gg_value *lr = t->rate ? t->rate : train_number(t, "adam.lr", GG_F64, t->lr);
		*v = train_op(t, "Div", lr, adam_bias(t, "adam.beta1", train_option(t, "beta1", 0.9)));
	} else {
		*v = train_op(t, "Sqrt", adam_bias(t, "adam.beta2", train_option(t, "beta2", 0.999)), 0);
	}
	*v = train_cast(t, *v, type);
	train_back(t, was);
	return *v;
}

/* beta s + (1 - beta) x as the state's next value. */
static inline gg_value *adam_moment(train *t, gg_value *s, const char *option, double or, gg_value *x)
{
	if (!s || !x)
		return 0;
	gg_dtype type = (gg_dtype)s->dtype;
	double beta = train_option(t, option, or);
	if (beta >= 1) {
		t->b.bad = true;
		gg_error(t->p->d, GG_USAGE, "option '%s' takes a number below 1", option);
	}
	gg_value *old = train_op(t, "Mul", train_number(t, option, type, beta), s);
	const char *rest = gg_printf(&t->p->scratch, "one_sub_%s", option);
	gg_value *v = train_op(t, "Add", old, train_op(t, "Mul", train_number(t, rest, type, 1 - beta), x));
	train_becomes(t, s, v);
	return v;
}

/* m / (sqrt(v) / sqrt(1 - beta2^t) + eps); the step size has the other correction. */
static inline gg_value *adam_direction(train *t, const char *name, gg_value *w, gg_value *g)
{
	if (!w || !g)
		return 0;
	gg_dtype type = (gg_dtype)w->dtype;
	gg_value *m = adam_moment(t, train_state(t, name, "exp_avg", w, 0), "beta1", 0.9, g);
	gg_value *v = adam_moment(t, train_state(t, name, "exp_avg_sq", w, 0), "beta2", 0.999,
	                          train_op(t, "Mul", g, g));
	gg_value *root = train_op(t, "Div", train_op(t, "Sqrt", v, 0), adam_scalar(t, CORRECTION, type));
	root = train_op(t, "Add", root, train_number(t, "eps", type, train_option(t, "eps", 1e-8)));
	return train_op(t, "Div", m, root);
}

#endif
