#include "cast.h"

static bool infer(gg_infer *f)
{
	gg_dtype to = gg_get_dtype(f->n, "to");
	if (f->nin != f->nout)
		return gg_fail(f, "%d inputs and %d outputs: one for each is expected", f->nin, f->nout);
	for (int i = 0; i < f->nout; i++) {
		f->out[i].dtype = to;
		f->out[i].shape = f->in[i].shape;
	}
	return true;
}

static bool eval(gg_eval *e)
{
	for (int i = 0; i < e->nout; i++) {
		gg_eval one = *e;
		one.in = &e->in[i];
		one.out = &e->out[i];
		one.nin = one.nout = 1;
		if (one.out->dtype && !gg_eval_cast(&one))
			return false;
	}
	return true;
}

static bool expand(gg_diag *d, gg_node *n)
{
	for (int i = 0; i < n->nout; i++) {
		if (!n->out[i])
			continue;
		const char *name = gg_fresh_name(n->graph, n->out[i]->name);
		gg_value *v = gg_in(n, i);
		gg_node *k = gg_add_node(n->graph, n, gg_op_find("Cast"), 1, &v, 1, &name);
		gg_copy_attrs(k, n);
		gg_merge_loc(k, n);
		if (!gg_infer_node(d, k))
			return false;
		gg_replace_value(n->out[i], k->out[0]);
	}
	gg_remove_node(n);
	return true;
}

const gg_op gg_op_CastAll = {
    .name = "CastAll",
    .domain = "gg",
    .doc = "each input as another dtype",
    .min_in = 1,
    .max_in = -1,
    .min_out = 1,
    .max_out = -1,
    .attrs = (const gg_attr_spec[]){{"to", GG_ATTR_DTYPE, true, 0}, GG_CAST_ATTRS, {0}},
    .flags = GG_MOVES,
    .in = {{GG_CASTABLE, 'T'}},
    .out = {{GG_CASTABLE, 'U'}},
    .infer = infer,
    .eval = eval,
    .expand = expand};
