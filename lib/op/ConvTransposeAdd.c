#include "nnkit.h"
#include "opkit.h"
#include <stdlib.h>

extern const gg_op gg_op_ConvTranspose;

/* z may lie where y goes: it is read first. Rounded where the single ops round. */
static bool eval(gg_eval *e)
{
	double *z = gg_doubles(&e->in[3]);
	bool good = gg_op_ConvTranspose.eval(e);
	for (int64_t i = 0; good && i < gg_count(&e->out[0]); i++)
		gg_set_f64(&e->out[0], i, gg_get_f64(&e->out[0], i) + z[i]);
	free(z);
	return good;
}

static bool infer(gg_infer *f)
{
	const gg_shape *y = &f->out[0].shape, *z = &f->in[3].shape;
	if (!gg_op_ConvTranspose.infer(f))
		return false;
	if (gg_shape_known(y) && gg_shape_known(z) && !gg_shape_eq(y, z))
		return gg_fail(f, "z has shape %s, expected %s", gg_str(f, z), gg_str(f, y));
	return true;
}

static bool expand(gg_diag *d, gg_node *n)
{
	gg_value *in[] = {gg_in(n, 0), gg_in(n, 1), gg_in(n, 2)};
	const char *name = gg_fresh_name(n->graph, n->out[0]->name);
	gg_node *c = gg_add_node(n->graph, n, &gg_op_ConvTranspose, in[2] ? 3 : 2, in, 1, &name);
	gg_copy_attrs(c, n);
	gg_merge_loc(c, n);
	gg_value *y = gg_infer_node(d, c)
	                  ? gg_expand_node(d, n, "Add", 2, (gg_value *[]){c->out[0], gg_in(n, 3)})
	                  : 0;
	if (!y)
		return false;
	gg_replace_value(n->out[0], y);
	gg_remove_node(n);
	return true;
}

const gg_op gg_op_ConvTransposeAdd = {
    .name = "ConvTransposeAdd",
    .domain = "gg",
    .doc = "ConvTranspose(x, w, b) + z: accumulates into z where nobody else reads it",
    .min_in = 4,
    .max_in = 4,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){GG_CONV_ATTRS,
                                    {"output_padding", GG_ATTR_INTS},
                                    {"output_shape", GG_ATTR_INTS},
                                    {0}},
    .optional = 1 << 2,
    .aliases = (const signed char[]){0, 3, -1},
    .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
    .out = {{GG_FLOATS, 'T'}},
    .infer = infer,
    .eval = eval,
    .expand = expand};
