#include "poolgrad.h"

static bool infer(gg_infer *f)
{
	f->out[0].shape = f->in[1].shape;
	return check_pool_dy(f);
}

static bool eval(gg_eval *e) { return gg_eval_pool_grad(e, &gg_pool_max); }

/* Pools again to know where the greatest are, and adds there. */
static bool expand(gg_diag *d, gg_node *n)
{
	static const int64_t flat = -1;
	gg_kit k = {d, n};
	gg_value *x = gg_in(n, 1);
	const char *name[] = {gg_fresh_name(n->graph, n->out[0]->name), gg_fresh_name(n->graph, "where")};
	gg_node *p = gg_add_node(n->graph, n, gg_op_find("MaxPool"), 1, &x, 2, name);
	gg_copy_attrs(p, n);
	gg_merge_loc(p, n);
	if (!gg_infer_node(d, p))
		return false;
	gg_value *line = kit_reshape(k, x, 1, &flat), *zero = kit_number(k, (gg_dtype)x->dtype, 0);
	gg_value *size = kit_one(k, "Shape", line);
	gg_value *in[] = {kit_op(k, "Expand", zero, size), kit_reshape(k, p->out[1], 1, &flat),
	                  kit_reshape(k, gg_in(n, 0), 1, &flat)};
	gg_node *s = kit_node(k, "ScatterElements", 3, in);
	if (s)
		gg_set_attr_string(s, "reduction", "add");
	gg_value *y = kit_op(k, "Reshape", kit_done(k, s), kit_one(k, "Shape", x));
	return kit_replace(k, &y);
}

const gg_op gg_op_MaxPoolGrad = {
    .name = "MaxPoolGrad",
    .domain = "gg",
    .doc = "the gradient of MaxPool, to the first of the greatest: dy, x",
    .min_in = 2,
    .max_in = 2,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){GG_WINDOW_ATTRS(true), {"ceil_mode", GG_ATTR_INT, .def = "0"}, {0}},
    .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
    .out = {{GG_FLOATS, 'T'}},
    .infer = infer,
    .eval = eval,
    .expand = expand};
