#include "batchnorm.h"
#include "opkit.h"

static bool eval(gg_eval *e) { return eval_batchnorm(e, true); }

static bool expand(gg_diag *d, gg_node *n)
{
	gg_value *in[5], *y;
	const char *name[3];
	for (int i = 0; i < 5; i++)
		in[i] = gg_in(n, i);
	for (int i = 0; i < n->nout; i++)
		name[i] = n->out[i] ? gg_fresh_name(n->graph, n->out[i]->name) : 0;
	gg_node *bn = gg_add_node(n->graph, n, gg_op_find("BatchNormalization"), 5, in, n->nout, name);
	gg_copy_attrs(bn, n);
	gg_merge_loc(bn, n);
	if (!gg_infer_node(d, bn) || !(y = gg_expand_node(d, n, "Relu", 1, &bn->out[0])))
		return false;
	gg_replace_value(n->out[0], y);
	for (int i = 1; i < n->nout; i++)
		if (n->out[i])
			gg_replace_value(n->out[i], bn->out[i]);
	gg_remove_node(n);
	return true;
}

const gg_op gg_op_BatchNormRelu = {.name = "BatchNormRelu",
                                   .domain = "gg",
                                   .doc = "Relu(BatchNormalization(x, scale, b, mean, var))",
                                   GG_BATCHNORM,
                                   .eval = eval,
                                   .expand = expand};
