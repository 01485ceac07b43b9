#include "recurgrad.h"
#include <string.h>

/* Gates z, r, h in W, R and B.
 *
 *     z = f(Xz + H Rz + bias), r = f(Xr + H Rr + bias), h = g(Xh + (r * H) Rh + bias)
 *     linear_before_reset:                              h = g(Xh + r * (H Rh + bias))
 *     H = (1 - z) * h + z * H */
static void step(gg_cell *k)
{
	int64_t n = k->hidden;
	double *z = k->gate, *r = z + n, *h = r + n, *reset = k->scratch;
	for (int64_t j = 0; j < 2 * n; j++)
		z[j] = gg_squash_at(&k->act[0], z[j] + gg_dot(k->r + j * n, k->h, n) + k->rb[j]);
	for (int64_t j = 0; j < n; j++)
		reset[j] = k->flag ? k->h[j] : r[j] * k->h[j];
	for (int64_t j = 0; j < n; j++) {
		double sum = gg_dot(k->r + (2 * n + j) * n, reset, n) + k->rb[2 * n + j];
		double candidate = gg_squash_at(&k->act[1], h[j] + (k->flag ? r[j] * sum : sum));
		k->next[j] = (1 - z[j]) * candidate + z[j] * k->h[j];
	}
	memcpy(k->h, k->next, (size_t)n * sizeof *k->h);
}

const gg_recur_op gg_recur_gru = {
    .gates = 3, .funcs = 2, .defaults = {"Sigmoid", "Tanh"}, .flag = "linear_before_reset", .step = step};
static bool infer(gg_infer *f) { return gg_infer_recur(f, &gg_recur_gru); }
static bool eval(gg_eval *e) { return gg_eval_recur(e, &gg_recur_gru); }

static void parts(recur_parts *k, gg_value *x, gg_value **h, gg_value **c)
{
	gg_builder *t = k->t;
	bool late = gg_get_int(k->n, "linear_before_reset");
	gg_value *from = recur_plus(t, OP("MatMul", *h, k->r), k->rb), *both = OP("Add", x, from);
	gg_value *z = recur_act(k, 0, recur_gate(k, both, 0, 1)),
	         *r = recur_act(k, 0, recur_gate(k, both, 1, 1));
	gg_value *sum = late ? OP("Mul", r, recur_gate(k, from, 2, 1))
	                     : recur_plus(t, OP("MatMul", OP("Mul", r, *h), recur_gate(k, k->r, 2, 1)),
	                                  k->rb ? recur_gate(k, k->rb, 2, 1) : 0);
	gg_value *now = recur_act(k, 1, OP("Add", recur_gate(k, x, 2, 1), sum));
	*h = OP("Add", now, OP("Mul", z, OP("Sub", *h, now)));
}

GG_GRAD(grad) { recur_grad(t, n, &gg_recur_gru, parts); }

const gg_op gg_op_GRU = {
    .name = "GRU",
    .doc = "gated recurrent layer",
    .min_in = 3,
    .max_in = 6,
    .min_out = 1,
    .max_out = 2,
    .attrs = (const gg_attr_spec[]){GG_RECUR_ATTRS, {"linear_before_reset", GG_ATTR_INT, .def = "0"}, {0}},
    .in = {GG_RECUR_IN},
    .out = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
    .optional = 1 << GG_RECUR_B | 1 << GG_RECUR_LENS,
    .infer = infer,
    .eval = eval,
    .grad = grad};
