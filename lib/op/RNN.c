#include "recurgrad.h"
#include <string.h>

/* H = f(X W + H R + bias) */
static void step(gg_cell *k)
{
	for (int64_t j = 0; j < k->hidden; j++) {
		double sum = k->gate[j] + gg_dot(k->r + j * k->hidden, k->h, k->hidden) + k->rb[j];
		k->next[j] = gg_squash_at(&k->act[0], sum);
	}
	memcpy(k->h, k->next, (size_t)k->hidden * sizeof *k->h);
}

const gg_recur_op gg_recur_rnn = {.gates = 1, .funcs = 1, .defaults = {"Tanh"}, .step = step};
static bool infer(gg_infer *f) { return gg_infer_recur(f, &gg_recur_rnn); }
static bool eval(gg_eval *e) { return gg_eval_recur(e, &gg_recur_rnn); }

static void parts(recur_parts *k, gg_value *x, gg_value **h, gg_value **c)
{
	gg_builder *t = k->t;
	*h = recur_act(k, 0, OP("Add", x, recur_plus(t, OP("MatMul", *h, k->r), k->rb)));
}

GG_GRAD(grad) { recur_grad(t, n, &gg_recur_rnn, parts); }

const gg_op gg_op_RNN = {.name = "RNN",
                         .doc = "one-gate recurrent layer",
                         .min_in = 3,
                         .max_in = 6,
                         .min_out = 1,
                         .max_out = 2,
                         .attrs = (const gg_attr_spec[]){GG_RECUR_ATTRS, {0}},
                         .in = {GG_RECUR_IN},
                         .out = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
                         .optional = 1 << GG_RECUR_B | 1 << GG_RECUR_LENS,
                         .infer = infer,
                         .eval = eval,
                         .grad = grad};
