#include "match.h"

/* Convolutions over three axes, and their gradients: the data is input 0 or 1 of rank 5. */
static bool is_conv3d(const gg_node *n)
{
	static const char *const ops[] = {"Conv", "ConvTranspose", "ConvInputGrad", "ConvWeightGrad"};
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
		if (!strcmp(n->op->name, ops[i]))
			return (gg_in(n, 0) && gg_in(n, 0)->shape.rank == 5) ||
			       (gg_in(n, 1) && gg_in(n, 1)->shape.rank == 5);
	return false;
}

static bool has_kernel(const gg_pass_run *p, const gg_node *n)
{
	const gg_target *t = p->m->target ? gg_target_find(p->m->target) : 0;
	const gg_row *r = t ? gg_target_row(t, n) : 0;
	return r && strcmp(r->kernel, "ref");
}

static gg_node *cast(gg_pass_run *p, gg_node *by, gg_node *before, gg_value *v, gg_dtype to)
{
	const char *name = gg_fresh_name(v->graph,
	                                 gg_printf(&p->scratch, "%s.%s", v->name, gg_dtype_name(to)));
	gg_node *n = gg_add_node(v->graph, before, gg_op_find("Cast"), 1, &v, 1, &name);
	gg_set_attr_dtype(n, "to", to);
	gg_merge_loc(n, by);
	return gg_infer_node(p->d, n) ? n : 0;
}

/* The output is computed in f32 and rounded back for all its readers. */
static bool widen_output(gg_pass_run *p, gg_node *n, gg_value *y)
{
	const char *name = y->name;
	bool declared = gg_is_output(y);
	y->dtype = GG_F32;
	gg_node *c = cast(p, n, n->next, y, GG_F16);
	if (!c)
		return false;
	gg_replace_value(y, c->out[0]);
	gg_set_input(c, 0, y);
	if (!declared) {
		gg_rename(y, gg_fresh_name(n->graph, gg_printf(&p->scratch, "%s.f32", name)));
		gg_rename(c->out[0], name);
	}
	return true;
}

/* Needs dtypes and ranks.
 * Breaks nothing: each node is cast by what its own inputs are. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	for (gg_node *n = g->first; n; n = n->next) {
		if (!is_conv3d(n) || gg_in(n, 0)->dtype != GG_F16)
			continue;
		if (has_kernel(p, n)) {
			gg_refused(p, n, "the target has a kernel for it in f16");
			continue;
		}
		if (!gg_apply(p, n))
			return true;
		for (int i = 0; i < gg_nargs(n); i++) {
			gg_value *v = gg_in(n, i);
			gg_node *c = v && v->dtype == GG_F16 ? cast(p, n, n, v, GG_F32) : 0;
			if (v && v->dtype == GG_F16 && !c)
				return false;
			if (c)
				gg_set_input(n, i, c->out[0]);
		}
		n->kernel = 0;
		for (int i = 0; i < n->nout; i++)
			if (n->out[i] && n->out[i]->dtype == GG_F16 && !widen_output(p, n, n->out[i]))
				return false;
	}
	return true;
}

const gg_pass gg_pass_insert_cast = {
    .name = "insert_cast",
    .help = "compute convolutions over three axes, and their gradients, in f32 where they are f16",
    .explain =
        "y = Conv(x, w, b) in f16, x of rank 5 => y = Cast(Conv(Cast(x), Cast(w), Cast(b)))\n"
        "with the convolution in f32; likewise ConvTranspose, ConvInputGrad and ConvWeightGrad. Each\n"
        "node is cast by its own dtypes: others stay. After selection a node stays for which the target\n"
        "has a kernel in f16.",
    .ops = "Conv ConvTranspose",
    .pipeline = "optimize:140 run_op:20",
    .exact = false,
    .run = run,
};
