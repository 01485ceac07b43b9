#include "nnkit.h"
#include "opkit.h"
#include <math.h>
#include <string.h>

static double relu(double x, const double *p) { return x < 0 ? 0 : x; }
static double sigmoid(double x, const double *p) { return 1 / (1 + exp(-x)); }
static double tanh_of(double x, const double *p) { return tanh(x); }
static double leaky(double x, const double *p) { return x < 0 ? p[0] * x : x; }
static double clip(double x, const double *p) { return x < p[0] ? p[0] : x > p[1] ? p[1] : x; }
static double unit(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
static double hard_sigmoid(double x, const double *p) { return unit(p[0] * x + p[1]); }
static double hard_swish(double x, const double *p) { return x * unit(x / 6 + 0.5); }

/* Names are those of the ops that the node expands to; params those of com.microsoft's FusedConv. */
static const struct activation {
	const char *name;
	int params;
	const char *attr[2]; /* of the plain op; NULL: they are inputs */
	gg_f1 *f;
} activations[] = {
    {"Relu", 0, {0}, relu},
    {"Sigmoid", 0, {0}, sigmoid},
    {"Tanh", 0, {0}, tanh_of},
    {"HardSwish", 0, {0}, hard_swish},
    {"LeakyRelu", 1, {"alpha"}, leaky},
    {"HardSigmoid", 2, {"alpha", "beta"}, hard_sigmoid},
    {"Clip", 2, {0}, clip},
};

static const struct activation *find_activation(const gg_node *n)
{
	const char *name = gg_get_string(n, "activation");
	for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
		if (!strcmp(activations[i].name, name))
			return &activations[i];
	return 0;
}

static bool infer(gg_infer *f)
{
	const struct activation *a = find_activation(f->n);
	const gg_attr *params = gg_get_list(f->n, "activation_params");
	const char *name = gg_get_string(f->n, "activation");
	int want = a ? a->params : 0, given = params ? params->n : 0;
	if (*name && !a)
		return gg_unsupported(f, "activation '%s'", name);
	if (given != want)
		return gg_fail(f, "attribute 'activation_params' has %d elements, '%s' takes %d", given, name,
		               want);
	if (!gg_infer_conv(f, 0, 1))
		return false;
	const gg_shape *y = &f->out[0].shape, *z = gg_given(f, 3) ? &f->in[3].shape : y;
	gg_dim channels = f->in[1].shape.rank < 0 ? gg_unknown_dim(f, 0, 1) : f->in[1].shape.dim[0];
	bool fits = z->rank < 0 || y->rank < 0 || z->rank == y->rank;
	for (int i = 0; fits && z->rank >= 0 && i < y->rank; i++)
		fits = !gg_dim_known(y->dim[i]) || !gg_dim_known(z->dim[i]) || y->dim[i] == z->dim[i];
	if (!fits)
		return gg_fail(f, "residual has shape %s, expected %s", gg_str(f, z), gg_str(f, y));
	return gg_check_vector(f, 2, "bias", channels);
}

static double add(double x, double y, const double *attr) { return x + y; }

/* Rounds after each step, as the plain nodes do. */
static bool eval(gg_eval *e)
{
	const struct activation *a = find_activation(e->n);
	const gg_attr *params = gg_get_list(e->n, "activation_params");
	double p[2] = {0};
	gg_eval sub = *e;
	if (!gg_eval_conv(e, gg_has(e, 2) ? 2 : -1))
		return false;
	if (gg_has(e, 3)) {
		gg_tensor pair[2] = {e->out[0], e->in[3]};
		sub.in = pair;
		gg_map2(&sub, add, 0, 0);
	}
	for (int i = 0; a && i < a->params; i++)
		p[i] = a->f == clip ? gg_round_to(e->out[0].dtype, params->floats[i])
		                    : (double)params->floats[i];
	sub.in = e->out;
	return !a || gg_map1(&sub, a->f, 0, p);
}

static gg_value *scalar(gg_node *n, const char *base, float x)
{
	uint64_t raw;
	gg_tensor t = {n->out[0]->dtype, {.rank = 0}, &raw};
	gg_set_f64(&t, 0, x);
	return gg_add_tensor(n->graph, base, &t);
}

static gg_value *activate(gg_diag *d, gg_node *n, gg_value *x)
{
	const struct activation *a = find_activation(n);
	const gg_attr *params = gg_get_list(n, "activation_params");
	gg_value *in[3] = {x};
	bool inputs = a && a->params && !a->attr[0];
	for (int i = 0; inputs && i < a->params; i++)
		in[i + 1] = scalar(n, i ? "max" : "min", params->floats[i]);
	if (a)
		x = gg_expand_node(d, n, a->name, inputs ? 1 + a->params : 1, in);
	for (int i = 0; x && a && !inputs && i < a->params; i++)
		gg_set_attr_float(x->producer, a->attr[i], params->floats[i]);
	return x;
}

static bool expand(gg_diag *d, gg_node *n)
{
	gg_value *in[3] = {gg_in(n, 0), gg_in(n, 1), gg_in(n, 2)};
	const char *name = gg_fresh_name(n->graph, n->out[0]->name);
	gg_node *conv = gg_add_node(n->graph, n, gg_op_find("Conv"), in[2] ? 3 : 2, in, 1, &name);
	gg_merge_loc(conv, n);
	for (int i = 0; i < n->nattr; i++)
		if (gg_op_attr(conv->op, n->attr[i].name))
			gg_set_attr(conv, &n->attr[i]);
	if (!gg_infer_node(d, conv))
		return false;
	gg_value *y = conv->out[0];
	if (gg_in(n, 3))
		y = gg_expand_node(d, n, "Add", 2, (gg_value *[]){y, gg_in(n, 3)});
	if (!y || !(y = activate(d, n, y)))
		return false;
	gg_replace_value(n->out[0], y);
	gg_remove_node(n);
	return true;
}

const gg_op gg_op_FusedConv = {.name = "FusedConv",
                               .domain = "gg",
                               .doc = "activation(Conv(x, w, b) + z)",
                               .min_in = 2,
                               .max_in = 4,
                               .min_out = 1,
                               .max_out = 1,
                               .attrs = (const gg_attr_spec[]){GG_CONV_ATTRS,
                                                               {"activation", GG_ATTR_STRING, .def = "\"\""},
                                                               {"activation_params", GG_ATTR_FLOATS},
                                                               {0}},
                               .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
                               .out = {{GG_FLOATS, 'T'}},
                               .optional = 1 << 2,
                               .infer = infer,
                               .eval = eval,
                               .expand = expand};
