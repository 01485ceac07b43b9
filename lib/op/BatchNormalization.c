#include "batchnorm.h"
#include "grad.h"

static bool eval(gg_eval *e) { return eval_batchnorm(e, false); }

/* The running statistics have none. */
GG_GRAD(grad)
{
	bool training = gg_get_int(n, "training_mode");
	gg_value *in[] = {dy, IN(0), IN(1), IN(3), IN(4)};
	gg_node *k = dy ? gg_grad_three(t, n, "BatchNormGrad", training ? 3 : 5, in) : 0;
	for (int i = 0; k && i < k->nout; i++)
		gg_give(t, IN(i), k->out[i]);
}

const gg_op gg_op_BatchNormalization = {
    .name = "BatchNormalization",
    .doc = "normalised over batch and space, in inference by given statistics",
    GG_BATCHNORM,
    .eval = eval,
    .grad = grad};
