#include "nll.h"

static bool eval(gg_eval *e)
{
	double *p = gg_doubles(&e->in[0]);
	bool good = eval_nll(e, p);
	free(p);
	return good;
}

GG_GRAD(grad)
{
	gg_value *each = 0, *hot = nll_one_hot(t, n, &each, dy);
	gg_give(t, IN(0), OP("Neg", OP("Mul", hot, each), 0));
}

const gg_op gg_op_NegativeLogLikelihoodLoss = {.name = "NegativeLogLikelihoodLoss",
                                               .doc = "negated log-probability of each label",
                                               .min_in = 2,
                                               .max_in = 3,
                                               .min_out = 1,
                                               .max_out = 1,
                                               GG_NLL_ATTRS,
                                               .in = {{GG_FLOATS, 'T'}, {GG_INDICES}, {GG_FLOATS, 'T'}},
                                               .out = {{GG_FLOATS, 'T'}},
                                               .infer = infer_nll,
                                               .eval = eval,
                                               .grad = grad};
