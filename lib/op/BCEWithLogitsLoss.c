/* Binary cross entropy of a sigmoid, without overflow. For each element of logits x and labels y
 *
 *   m = max(-x, 0);  loss = weight ((1 - y) x + ((pos_weight - 1) y + 1) (log(exp(-m) + exp(-x - m)) + m))
 *
 * With inf for x and 0 for its factor the product counts as 0. */
#include "nnkit.h"
#include "opkit.h"
#include <math.h>
#include <string.h>

static bool reduced(const gg_node *n) { return strcmp(gg_get_string(n, "reduction"), "none"); }

static bool infer(gg_infer *f)
{
	const char *how = gg_get_string(f->n, "reduction");
	gg_info *x = &f->in[0];
	if (reduced(f->n) && strcmp(how, "mean") && strcmp(how, "sum"))
		return gg_fail(f, "attribute 'reduction' is '%s', expected none, mean or sum", how);
	for (int i = 1; i < f->nin; i++) {
		const gg_shape *s = &f->in[i].shape;
		gg_shape both;
		if (!f->in[i].dtype || s->rank < 0 || x->shape.rank < 0)
			continue;
		bool fits = gg_broadcast(&x->shape, s, &both) && both.rank == x->shape.rank &&
		            (i > 1 || s->rank == x->shape.rank);
		for (int k = 0; fits && k < both.rank; k++)
			fits = !gg_dim_known(both.dim[k]) || !gg_dim_known(x->shape.dim[k]) ||
			       both.dim[k] == x->shape.dim[k];
		if (!fits)
			return gg_fail(f, "input %d has shape %s, the logits %s", i, gg_str(f, s),
			               gg_str(f, &x->shape));
	}
	f->out[0].shape = reduced(f->n) ? (gg_shape){.rank = 0} : x->shape;
	return true;
}

static double one(double x, double y, double weight, double pos)
{
	double m = x < 0 ? -x : 0, w = (pos - 1) * y + 1, a = y == 1 ? 0 : (1 - y) * x;
	return weight * (a + w * (log(exp(-m) + exp(-x - m)) + m));
}

static double at(const gg_eval *e, int i, int64_t stride[][GG_MAX_RANK], const int64_t *idx)
{
	int64_t off = 0;
	if (!gg_has(e, i))
		return 1;
	for (int k = 0; k < e->in[0].shape.rank; k++)
		off += idx[k] * stride[i][k];
	return gg_get_f64(&e->in[i], off);
}

static bool eval(gg_eval *e)
{
	const gg_shape *s = &e->in[0].shape;
	int64_t idx[GG_MAX_RANK] = {0}, stride[4][GG_MAX_RANK], n = gg_count(&e->in[0]), k = 0;
	double sum = 0;
	for (int i = 0; i < 4; i++)
		if (gg_has(e, i))
			gg_bcast_strides(&e->in[i].shape, s, stride[i]);
	if (n)
		do {
			double v = one(gg_get_f64(&e->in[0], k), at(e, 1, stride, idx), at(e, 2, stride, idx),
			               at(e, 3, stride, idx));
			if (!reduced(e->n))
				gg_set_f64(&e->out[0], k, v);
			sum += v;
			k++;
		} while (gg_next_index(s, idx));
	if (reduced(e->n))
		gg_set_f64(&e->out[0], 0,
		           strcmp(gg_get_string(e->n, "reduction"), "sum") ? sum / (double)n : sum);
	return true;
}

static gg_value *constant(gg_node *n, gg_dtype t, double x)
{
	double room = 0;
	gg_tensor one = {.dtype = t, .data = &room};
	gg_set_f64(&one, 0, x);
	return gg_add_tensor(n->graph, "one", &one);
}

static gg_value *node2(gg_diag *d, gg_node *n, const char *op, gg_value *a, gg_value *b)
{
	return a && b ? gg_expand_node(d, n, op, 2, (gg_value *[]){a, b}) : 0;
}

static gg_value *node1(gg_diag *d, gg_node *n, const char *op, gg_value *a)
{
	return a ? gg_expand_node(d, n, op, 1, &a) : 0;
}

/* log(exp(-m) + exp(-x - m)) + m is Softplus(-x). */
static bool expand(gg_diag *d, gg_node *n)
{
	gg_value *x = gg_in(n, 0), *y = gg_in(n, 1), *w = 0;
	gg_value *unit = constant(n, (gg_dtype)x->dtype, 1);
	gg_value *soft = node1(d, n, "Softplus", node1(d, n, "Neg", x));
	if (gg_in(n, 3))
		w = node2(d, n, "Mul", node2(d, n, "Sub", gg_in(n, 3), unit), y);
	if (gg_in(n, 3))
		soft = node2(d, n, "Mul", node2(d, n, "Add", w, unit), soft);
	gg_value *v = node2(d, n, "Add", node2(d, n, "Mul", node2(d, n, "Sub", unit, y), x), soft);
	if (gg_in(n, 2))
		v = node2(d, n, "Mul", gg_in(n, 2), v);
	if (v && reduced(n)) {
		bool sum = !strcmp(gg_get_string(n, "reduction"), "sum");
		const char *name = gg_fresh_name(n->graph, n->out[0]->name);
		gg_node *k = gg_add_node(n->graph, n, gg_op_find(sum ? "ReduceSum" : "ReduceMean"), 1, &v, 1,
		                         &name);
		gg_set_attr_int(k, "keepdims", 0);
		gg_merge_loc(k, n);
		v = gg_infer_node(d, k) ? k->out[0] : 0;
	}
	if (!v)
		return false;
	gg_replace_value(n->out[0], v);
	gg_remove_node(n);
	return true;
}

const gg_op gg_op_BCEWithLogitsLoss = {
    .name = "BCEWithLogitsLoss",
    .domain = "gg",
    .doc = "binary cross entropy of sigmoid(logits): logits, labels, weight, pos_weight",
    .min_in = 2,
    .max_in = 4,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"reduction", GG_ATTR_STRING, false, "\"none\""}, {0}},
    .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
    .out = {{GG_FLOATS, 'T'}},
    .optional = 1 << 2 | 1 << 3,
    .infer = infer,
    .eval = eval,
    .expand = expand};
