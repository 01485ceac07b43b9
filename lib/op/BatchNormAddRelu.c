#include "batchnorm.h"
#include "opkit.h"

/* Rounded where the single ops round. */
static bool eval(gg_eval *e)
{
	gg_tensor *y = &e->out[0];
	if (!eval_batchnorm(e, false))
		return false;
	for (int64_t i = 0; i < gg_count(y); i++) {
		gg_set_f64(y, i, gg_get_f64(y, i) + gg_get_f64(&e->in[5], i));
		gg_set_f64(y, i, gg_get_f64(y, i) < 0 ? 0 : gg_get_f64(y, i));
	}
	return true;
}

static bool infer(gg_infer *f)
{
	const gg_shape *x = &f->in[0].shape, *z = &f->in[5].shape;
	if (gg_shape_known(x) && gg_shape_known(z) && !gg_shape_eq(x, z))
		return gg_fail(f, "z has shape %s, expected %s", gg_str(f, z), gg_str(f, x));
	return infer_batchnorm(f);
}

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
	if (!gg_infer_node(d, bn) ||
	    !(y = gg_expand_node(d, n, "Add", 2, (gg_value *[]){bn->out[0], gg_in(n, 5)})) ||
	    !(y = gg_expand_node(d, n, "Relu", 1, &y)))
		return false;
	gg_replace_value(n->out[0], y);
	for (int i = 1; i < n->nout; i++)
		if (n->out[i])
			gg_replace_value(n->out[i], bn->out[i]);
	gg_remove_node(n);
	return true;
}

const gg_op gg_op_BatchNormAddRelu = {
    .name = "BatchNormAddRelu",
    .domain = "gg",
    .doc = "Relu(BatchNormalization(x, scale, b, mean, var) + z)",
    .min_in = 6,
    .max_in = 6,
    .min_out = 1,
    .max_out = 3,
    .attrs = (const gg_attr_spec[]){{"epsilon", GG_ATTR_FLOAT, .def = "1e-05"},
                                    {"momentum", GG_ATTR_FLOAT, .def = "0.9"},
                                    {"training_mode", GG_ATTR_INT, .def = "0"},
                                    {0}},
    .in = {{GG_FLOATS, 'T'},
           {GG_FLOATS, 'S'},
           {GG_FLOATS, 'S'},
           {GG_FLOATS, 'U'},
           {GG_FLOATS, 'U'},
           {GG_FLOATS, 'T'}},
    .out = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'U'}, {GG_FLOATS, 'U'}},
    .aliases = (const signed char[]){1, 3, 2, 4, -1},
    .infer = infer,
    .eval = eval,
    .expand = expand};
