#include "../pass.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* W has the output channels on this axis. */
static int channel_axis(const gg_node *n)
{
	if (!strcmp(n->op->name, "Conv"))
		return 0;
	if (!strcmp(n->op->name, "ConvTranspose") && gg_get_int(n, "group") == 1)
		return 1;
	if (!strcmp(n->op->name, "Gemm"))
		return gg_get_int(n, "transB") ? 0 : 1;
	return -1;
}

static const char *why_not(const gg_node *bn, const gg_node *n)
{
	if (!gg_one_use(bn->in[0].value))
		return gg_is_output(bn->in[0].value) ? "the product is an output"
		                                     : "the product has a second reader";
	if (gg_get_int(bn, "training_mode"))
		return "it is in training mode";
	if (!gg_is_fixed(gg_in(n, 1)) || (gg_in(n, 2) && !gg_is_fixed(gg_in(n, 2))))
		return "the weight or bias is not constant";
	for (int i = 1; i < 5; i++)
		if (!gg_is_fixed(gg_in(bn, i)) || bn->in[i].value->dtype != bn->in[0].value->dtype)
			return "the scale, bias or statistics are not constants of the data's dtype";
	gg_dtype t = bn->in[0].value->dtype;
	if (t != GG_F32 && t != GG_F64)
		return "the weight would be rounded to half precision once more";
	if (!strcmp(n->op->name, "Gemm") &&
	    (gg_get_float(n, "alpha") != 1 || (gg_in(n, 2) && gg_get_float(n, "beta") != 1)))
		return "the Gemm scales its product or bias";
	return 0;
}

/* scale[c] = s / sqrt(var + eps), shift[c] = (bias - mean) * scale + b. False: reported, or *why. */
static bool coefficients(gg_pass_run *p, gg_node *bn, gg_node *n, gg_tensor *scale, gg_tensor *shift,
                         const char **why)
{
	gg_tensor s, b, mean, var, bias = {0};
	gg_value **in[] = {&bn->in[1].value, &bn->in[2].value, &bn->in[3].value, &bn->in[4].value};
	gg_tensor *to[] = {&s, &b, &mean, &var};
	for (int i = 0; i < 4; i++)
		if (!gg_value_tensor(p->d, *in[i], to[i]))
			return false;
	if (gg_in(n, 2) && !gg_value_tensor(p->d, gg_in(n, 2), &bias))
		return false;
	int64_t c = gg_count(&s), nbias = bias.dtype ? gg_count(&bias) : 0;
	double eps = gg_get_float(bn, "epsilon");
	bool per_channel = nbias == c && bias.shape.rank && bias.shape.dim[bias.shape.rank - 1] == c;
	if (nbias && nbias != 1 && !per_channel) { /* as many numbers may also be one a row */
		*why = "the Gemm's bias is not one number a channel";
		return true;
	}
	*scale = (gg_tensor){s.dtype, s.shape, gg_alloc(&p->scratch, gg_nbytes(&s))};
	*shift = (gg_tensor){s.dtype, s.shape, gg_alloc(&p->scratch, gg_nbytes(&s))};
	for (int64_t i = 0; i < c; i++) {
		double k = gg_get_f64(&s, i) / sqrt(gg_get_f64(&var, i) + eps);
		double old = nbias ? gg_get_f64(&bias, nbias == 1 ? 0 : i) : 0;
		double add = (old - gg_get_f64(&mean, i)) * k + gg_get_f64(&b, i);
		if (!isfinite((float)k) || !isfinite((float)add)) {
			*why = "a channel's scale is not finite: inf * 0 would be lost";
			return true;
		}
		gg_set_f64(scale, i, k);
		gg_set_f64(shift, i, add);
	}
	return true;
}

/* W * scale as a node before n: weights are large, and who runs the graph computes it once. */
static gg_value *scaled_weight(gg_pass_run *p, gg_node *n, gg_tensor *scale, int axis)
{
	gg_value *w = gg_in(n, 1);
	gg_shape s = {.rank = w->shape.rank};
	for (int i = 0; i < s.rank; i++)
		s.dim[i] = i == axis ? scale->shape.dim[0] : 1;
	gg_tensor shaped = {scale->dtype, s, scale->data};
	gg_graph *g = n->graph;
	gg_value *k = gg_add_tensor(g, gg_printf(&p->scratch, "%s.scale", w->name), &shaped);
	const char *name = gg_fresh_name(g, gg_printf(&p->scratch, "%s.folded", w->name));
	gg_node *mul = gg_add_node(g, n, gg_op_find("Mul"), 2, (gg_value *[]){w, k}, 1, &name);
	gg_merge_loc(mul, n);
	return gg_infer_node(p->d, mul) ? mul->out[0] : 0;
}

static bool fold(gg_pass_run *p, gg_node *bn, gg_node *n, int axis)
{
	gg_tensor scale, shift;
	const char *why = 0;
	if (!coefficients(p, bn, n, &scale, &shift, &why))
		return false;
	if (why) {
		gg_refused(p, bn, why);
		return true;
	}
	if (!gg_apply(p, bn))
		return true;
	gg_value *w = scaled_weight(p, n, &scale, axis);
	if (!w)
		return false;
	gg_value *bias = gg_in(n, 2);
	const char *base = gg_printf(&p->scratch, "%s.folded", bias ? bias->name : bn->in[2].value->name);
	gg_set_input(n, 1, w);
	gg_set_input(n, 2, gg_add_tensor(n->graph, base, &shift));
	gg_del_attr(n, "beta"); /* of a Gemm that had no bias it said nothing */
	gg_merge_loc(n, bn);
	const char *name = bn->out[0]->name;
	bool keep = gg_is_output(bn->out[0]);
	gg_replace_value(bn->out[0], n->out[0]);
	gg_remove_node(bn);
	if (!keep)
		gg_rename(n->out[0], name);
	return true;
}

/* Needs dtypes.
 * Breaks nothing: shared weights are not changed, a new value is made. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	for (gg_node *bn = g->first, *next; bn; bn = next) {
		next = bn->next;
		gg_value *x = gg_in(bn, 0);
		gg_node *n = x ? x->producer : 0;
		int axis = n && !strcmp(bn->op->name, "BatchNormalization") ? channel_axis(n) : -1;
		if (axis < 0)
			continue;
		const char *why = why_not(bn, n);
		if (why)
			gg_refused(p, bn, why);
		else if (!fold(p, bn, n, axis))
			return false;
	}
	return true;
}

const gg_pass gg_pass_fold_bn = {
    .name = "fold_bn",
    .help = "fold BatchNormalization into the weight and bias of the Conv, ConvTranspose or Gemm before it",
    .explain =
        "BatchNormalization(Conv(x, W, b), s, B, mean, var) => Conv(x, W * k, (b - mean) * k + B)\n"
        "with k = s / sqrt(var + epsilon) per output channel, computed in double. The product W * k stays a "
        "Mul\n"
        "node, so that no weight is read or written here; it is computed once when the graph is loaded.\n"
        "Refused in training mode, when the value between has another reader or is an output, when weights "
        "or\n"
        "statistics are not constant, when a channel's scale is not finite, below f32, and when a Gemm "
        "scales "
        "its\n"
        "product or has a bias for each row. A ConvTranspose in groups stays.",
    .ops = "BatchNormalization",
    .pipeline = "inference:10",
    .exact = false,
    .run = run,
};
