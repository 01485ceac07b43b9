#include "../pass.h"
#include <string.h>

/* Needs nothing: before selection the rule stands on its own; kernels are the target's business.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	static const char *const why_reader =
	    "looks like bn_relu, but the pre-activation value has a second reader";
	const gg_op *fused = gg_op_find("BatchNormRelu");
	for (gg_node *relu = g->first, *next; relu; relu = next) {
		next = relu->next;
		gg_value *x = gg_in(relu, 0);
		gg_node *bn = x ? x->producer : 0;
		if (strcmp(relu->op->name, "Relu") || !bn || strcmp(bn->op->name, "BatchNormalization") ||
		    x->index != 0)
			continue;
		if (!gg_one_use(x)) {
			gg_refused(p, relu,
			           gg_is_output(x)
			               ? "looks like bn_relu, but the pre-activation value is an output"
			               : why_reader);
			continue;
		}
		if (!gg_apply(p, relu))
			return true;
		gg_fuse(bn, relu, fused);
	}
	return true;
}

const gg_pass gg_pass_bn_relu = {
    .name = "bn_relu",
    .help = "BatchNormalization followed by Relu becomes BatchNormRelu",
    .explain = "Relu(BatchNormalization(x, scale, b, mean, var):0) => BatchNormRelu(x, scale, b, mean, var)\n"
               "in inference and in training mode alike; the running statistics keep their readers. Refused "
               "when the\n"
               "value between them is read elsewhere or is an output.",
    .pipeline = "hardware:10",
    .exact = true,
    .run = run,
};
