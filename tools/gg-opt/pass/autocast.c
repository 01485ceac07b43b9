/* Mixed precision: products in half precision, the rest in f32. Parameters stay f32. */
#include "match.h"
#include "../../../lib/tool.h"
#include <stdlib.h>

/* Computed in half precision: all their floating inputs are cast. */
static const char *const products[] = {"Conv", "ConvTranspose", "Gemm", "MatMul", "MatMulBias"};
/* Of one data input, and exact in any precision: they stay in the one they are given. */
static const char *const movers[] = {"Relu",    "MaxPool", "Reshape",   "Transpose", "Flatten",
                                     "Squeeze", "Slice",   "Unsqueeze", "Identity",  "Expand"};

static bool listed(const char *const *list, size_t n, const gg_node *node)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i], node->op->name))
			return true;
	return false;
}
#define IS(list, n) listed(list, sizeof(list) / sizeof *(list), n)

/* The value as another dtype: what it was cast from, a cast that is there, or a new one behind it. */
static gg_value *as(gg_pass_run *p, gg_graph *g, gg_value *v, gg_dtype t, gg_node *before)
{
	gg_node *by = made_by(v, "Cast");
	if (by && gg_in(by, 0)->dtype == t && v->dtype == GG_F32)
		return gg_in(by, 0);
	for (const gg_use *u = v->uses; u; u = u->next)
		if (u->node && u->node->graph == g && !strcmp(u->node->op->name, "Cast") &&
		    u->node->out[0]->dtype == t && u->node->mark)
			return u->node->out[0];
	const char *name = gg_fresh_name(g, v->name);
	gg_node *at = v->producer ? v->producer->next : g->first;
	gg_node *n = gg_add_node(g, at ? at : before, gg_op_find("Cast"), 1, &v, 1, &name);
	gg_set_attr_dtype(n, "to", t);
	n->mark = 1; /* ours */
	return gg_infer_node(p->d, n) ? n->out[0] : 0;
}

/* The node makes half precision now; its old readers get a cast back to f32. */
static bool narrow_output(gg_pass_run *p, gg_node *n, gg_dtype t)
{
	gg_value *out = n->out[0];
	const char *final = out->name, *name = gg_fresh_name(n->graph, final);
	gg_node *back = gg_add_node(n->graph, n->next, gg_op_find("Cast"), 1, &out, 1, &name);
	gg_set_attr_dtype(back, "to", GG_F32);
	back->mark = 1;
	out->dtype = (uint8_t)t;
	if (!gg_infer_node(p->d, back))
		return false;
	gg_set_input(back, 0, NULL);
	gg_replace_value(out, back->out[0]);
	gg_set_input(back, 0, out);
	return true;
}

static bool narrow(gg_pass_run *p, gg_node *n, gg_dtype t)
{
	for (int i = 0; i < gg_nargs(n); i++) {
		gg_value *v = gg_in(n, i);
		if (!v || v->dtype != GG_F32)
			continue;
		if (!(v = as(p, n->graph, v, t, n)))
			return false;
		gg_set_input(n, i, v);
	}
	return narrow_output(p, n, t);
}

/* Every floating input is f32, and a mover's data were half precision before. */
static bool wanted(const gg_node *n, gg_dtype t)
{
	const gg_value *x = gg_in(n, 0);
	if (!x || n->nout < 1 || !n->out[0] || n->out[0]->dtype != GG_F32)
		return false;
	for (int i = 1; i < n->nout; i++)
		if (n->out[i])
			return false;
	if (IS(movers, n)) {
		const gg_node *by = made_by(x, "Cast");
		return by && by->mark && gg_in(by, 0)->dtype == t && !gg_is_output(n->out[0]);
	}
	return IS(products, n) && x->dtype == GG_F32;
}

/* The loss gets its mark: ScaleGradient, which grad and the optimiser look for. */
static bool mark_loss(gg_pass_run *p, gg_graph *g, gg_value *loss, float start, bool dynamic)
{
	const gg_shape scalar = {.rank = 0};
	const char *final = loss->name, *name = gg_fresh_name(g, "loss_scale");
	const char *made = gg_fresh_name(g, "scaled_loss");
	int64_t none = 0;
	gg_value *in[] = {loss, 0, 0};
	in[1] = gg_add_const(g, GG_PARAM, name, GG_F32, &scalar, gg_data_inline(p->m, &start, 4));
	if (dynamic)
		in[2] = gg_add_const(g, GG_PARAM, gg_fresh_name(g, gg_printf(&p->scratch, "%s.good", name)),
		                     GG_I64, &scalar, gg_data_inline(p->m, &none, 8));
	gg_node *n = gg_add_node(g, loss->producer->next, gg_op_find("ScaleGradient"), dynamic ? 3 : 2, in, 1,
	                         &made);
	if (!gg_infer_node(p->d, n))
		return false;
	gg_set_input(n, 0, 0);
	gg_replace_value(loss, n->out[0]);
	gg_set_input(n, 0, loss);
	if (n->out[0]->name != final) {
		gg_rename(loss, gg_fresh_name(g, final));
		gg_rename(n->out[0], final);
	}
	return true;
}

static bool add_scale(gg_pass_run *p, gg_graph *g)
{
	const char *how = gg_pass_option(p, "loss_scale");
	bool dynamic = !how || !strcmp(how, "dynamic");
	double start = 65536;
	gg_value *loss = gg_find_value(g, "loss");
	if (!dynamic && (!gg_parse_float(how, &start) || !(start >= 0)))
		return gg_error(p->d, GG_USAGE, "loss_scale takes dynamic or a number, not '%s'", how);
	if (start == 0)
		return true;
	if (!loss || !loss->producer)
		return gg_error(p->d, GG_USAGE,
		                "the graph has no value 'loss' to scale: the pass loss comes first, or "
		                "loss_scale=0");
	return mark_loss(p, g, loss, (float)start, dynamic);
}

static bool take_dtype(gg_pass_run *p, gg_dtype *t)
{
	const char *name = gg_pass_option(p, "dtype");
	*t = name ? gg_dtype_find(name) : GG_F16;
	return *t == GG_F16 || *t == GG_BF16 ||
	       gg_error(p->d, GG_USAGE, "dtype is f16 or bf16, not '%s'", name);
}

/* Needs to come before grad: the casts have gradients of their own.
 * Breaks nothing; the names of declared outputs and their dtypes stay. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	gg_dtype t;
	bool any = false;
	if (g->owner)
		return true;
	if (!take_dtype(p, &t))
		return false;
	for (gg_node *n = g->first; n; n = n->next)
		n->mark = 0;
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		if (!wanted(n, t))
			continue;
		if (!gg_apply(p, n))
			return true;
		any = true;
		if (!narrow(p, n, t))
			return false;
	}
	for (gg_node *n = g->first, *next; n; n = next) { /* casts back that nobody reads */
		next = n->next;
		if (n->mark && !n->out[0]->uses)
			gg_remove_node(n);
	}
	return !any || t == GG_BF16 || add_scale(p, g);
}

const gg_pass gg_pass_autocast = {
    .name = "autocast",
    .help = "mixed precision: products in f16 or bf16, all else and the parameters in f32",
    .explain = "Conv, ConvTranspose, Gemm, MatMul and MatMulBias on f32 read casts of their inputs to half "
               "precision and\n"
               "make half precision, which is cast back for readers that are not of the kind. Relu, MaxPool "
               "and what only\n"
               "moves elements stay in the precision of their input. Parameters stay f32 (the master "
               "weights) and are cast\n"
               "once a step. The loss, normalisation, softmax and reductions stay f32. It goes before grad.\n"
               "With f16 the loss gets a scale, the parameter 'loss_scale' of a node ScaleGradient: grad "
               "multiplies all gradients by it, and the optimiser divides\n"
               "by it, leaves an update out that has a gradient which is not finite, and then halves it; "
               "after 2000 updates\n"
               "in a row it doubles it (torch.amp.GradScaler's rule; it starts as 65536). loss_scale=X keeps "
               "X, 0 has none.\n"
               "bf16 has the range of f32 and needs none.",
    .pipeline = "",
    .options = "dtype=f16|bf16: (f16); loss_scale=dynamic|X: with f16 (dynamic)",
    .interface = true,
    .run = run,
};
