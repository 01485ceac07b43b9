#include "opkit.h"

static double add(double x, double y, const double *attr) { return x + y; }

/* Rounds after each step, as the plain nodes do: the result is theirs to the bit. */
static bool eval(gg_eval *e)
{
	gg_tensor pair[2] = {e->out[0], e->in[2]};
	gg_eval sub = *e;
	gg_matmul(&e->in[0], &e->in[1], &e->out[0]);
	sub.in = pair;
	gg_map2(&sub, add, 0, 0);
	gg_activate(gg_get_string(e->n, "activation"), &e->out[0]);
	return true;
}

static bool infer(gg_infer *f)
{
	const char *name = gg_get_string(f->n, "activation");
	const gg_shape *bias = &f->in[2].shape;
	gg_shape *out = &f->out[0].shape, both;
	if (!gg_activation_known(name))
		return gg_unsupported(f, "activation '%s'", name);
	if (!gg_infer_matmul(f))
		return false;
	if (out->rank < 0 || bias->rank < 0)
		return true;
	bool good = bias->rank <= out->rank && gg_broadcast(out, bias, &both);
	for (int i = 0; good && i < out->rank; i++)
		good = !gg_dim_known(out->dim[i]) || !gg_dim_known(both.dim[i]) || out->dim[i] == both.dim[i];
	return good || gg_fail(f, "bias has shape %s, which cannot be broadcast to %s", gg_str(f, bias),
	                       gg_str(f, out));
}

static bool expand(gg_diag *d, gg_node *n)
{
	gg_value *x = gg_expand_node(d, n, "MatMul", 2, (gg_value *[]){gg_in(n, 0), gg_in(n, 1)});
	if (x)
		x = gg_expand_node(d, n, "Add", 2, (gg_value *[]){x, gg_in(n, 2)});
	if (x)
		x = gg_expand_activation(d, n, x, gg_get_string(n, "activation"));
	if (!x)
		return false;
	gg_replace_value(n->out[0], x);
	gg_remove_node(n);
	return true;
}

const gg_op gg_op_MatMulBias = {
    .name = "MatMulBias",
    .domain = "gg",
    .doc = "activation(MatMul(a, b) + bias)",
    .min_in = 3,
    .max_in = 3,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"activation", GG_ATTR_STRING, false, "\"\""}, {0}},
    .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
    .out = {{GG_FLOATS, 'T'}},
    .infer = infer,
    .eval = eval,
    .expand = expand};
