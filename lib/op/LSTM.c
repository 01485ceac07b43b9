#include "recurgrad.h"
#include <string.h>

/* Gates i, o, f, c in W, R and B; peepholes i, o, f.
 *
 *     i = f(Xi + H Ri + Pi * C + bias), f likewise (1 - i with input_forget), c = g(Xc + H Rc + bias)
 *     C = f * C + i * c,  o = f(Xo + H Ro + Po * C + bias),  H = o * h(C) */
static void step(gg_cell *k)
{
	int64_t n = k->hidden;
	const double *p = k->peep;
	for (int64_t j = 0; j < 4 * n; j++)
		k->gate[j] += gg_dot(k->r + j * n, k->h, n) + k->rb[j];
	for (int64_t j = 0; j < n; j++) {
		const double *g = k->gate + j;
		double c = k->c[j], i = gg_squash_at(&k->act[0], g[0] + (p ? p[j] * c : 0));
		double f = k->flag ? 1 - i : gg_squash_at(&k->act[0], g[2 * n] + (p ? p[2 * n + j] * c : 0));
		c = f * c + i * gg_squash_at(&k->act[1], g[3 * n]);
		double o = gg_squash_at(&k->act[0], g[n] + (p ? p[n + j] * c : 0));
		k->c[j] = c;
		k->h[j] = o * k->act[2].f(c, k->act[2].alpha, k->act[2].beta);
	}
}

const gg_recur_op gg_recur_lstm = {.gates = 4,
                                   .funcs = 3,
                                   .defaults = {"Sigmoid", "Tanh", "Tanh"},
                                   .flag = "input_forget",
                                   .memory = true,
                                   .step = step};
static bool infer(gg_infer *f) { return gg_infer_recur(f, &gg_recur_lstm); }
static bool eval(gg_eval *e) { return gg_eval_recur(e, &gg_recur_lstm); }

/* Gate g along the memory c. */
static gg_value *gate(recur_parts *k, gg_value *all, int g, gg_value *c)
{
	gg_builder *t = k->t;
	gg_value *v = recur_gate(k, all, g, 1);
	if (k->peep)
		v = OP("Add", v, OP("Mul", recur_gate(k, k->peep, g, 1), c));
	return recur_act(k, 0, v);
}

static void parts(recur_parts *k, gg_value *x, gg_value **h, gg_value **c)
{
	gg_builder *t = k->t;
	gg_value *all = OP("Add", x, recur_plus(t, OP("MatMul", *h, k->r), k->rb));
	gg_value *i = gate(k, all, 0, *c), *now = recur_act(k, 1, recur_gate(k, all, 3, 1));
	gg_value *f = gg_get_int(k->n, "input_forget") ? OP("Sub", i ? NUM(i, 1) : 0, i)
	                                               : gate(k, all, 2, *c);
	*c = OP("Add", OP("Mul", f, *c), OP("Mul", i, now));
	*h = OP("Mul", gate(k, all, 1, *c), recur_squash(k, 2, *c));
}

GG_GRAD(grad) { recur_grad(t, n, &gg_recur_lstm, parts); }

const gg_op gg_op_LSTM = {
    .name = "LSTM",
    .doc = "long short-term memory layer",
    .min_in = 3,
    .max_in = 8,
    .min_out = 1,
    .max_out = 3,
    .attrs = (const gg_attr_spec[]){GG_RECUR_ATTRS, {"input_forget", GG_ATTR_INT, .def = "0"}, {0}},
    .in = {GG_RECUR_IN, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
    .out = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
    .optional = 1 << GG_RECUR_B | 1 << GG_RECUR_LENS | 1 << GG_RECUR_H0 | 1 << GG_RECUR_C0,
    .infer = infer,
    .eval = eval,
    .grad = grad};
