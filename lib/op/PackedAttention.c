#include "nnkit.h"
#include "opkit.h"
#include <math.h>
#include <stdlib.h>

static bool infer(gg_infer *f)
{
	const gg_shape *x = &f->in[0].shape;
	int64_t heads = gg_get_int(f->n, "heads");
	if (heads <= 0)
		return gg_fail(f, "heads is %lld, expected at least 1", (long long)heads);
	if (x->rank < 0)
		return true;
	if (x->rank != 3)
		return gg_fail(f, "input 0 has rank %d, expected 3", x->rank);
	if (gg_dim_known(x->dim[2]) && (x->dim[2] % 3 || x->dim[2] / 3 % heads))
		return gg_fail(f, "input 0 has %lld columns, which are not 3 times %lld heads",
		               (long long)x->dim[2], (long long)heads);
	f->out[0].shape = gg_shape_of(3, (gg_dim[]){x->dim[0], x->dim[1], gg_dim_div(x->dim[2], 3)});
	return true;
}

/* One row of queries of one head; x are the rows of one batch, s has room for a score of each. */
static void attend(const double *x, int64_t len, int64_t wide, int64_t at, int64_t row, int64_t size,
                   double scale, double *s, double *y)
{
	const double *q = x + row * 3 * wide + at, *k = x + wide + at, *v = k + wide;
	double most = -INFINITY, sum = 0;
	for (int64_t j = 0; j < len; j++) {
		s[j] = 0;
		for (int64_t d = 0; d < size; d++)
			s[j] += q[d] * k[j * 3 * wide + d];
		s[j] *= scale;
		most = s[j] > most || isnan(s[j]) ? s[j] : most;
	}
	for (int64_t j = 0; j < len; j++)
		sum += s[j] = exp(s[j] - most);
	for (int64_t j = 0; j < len; j++)
		for (int64_t d = 0; d < size; d++)
			y[d] += s[j] / sum * v[j * 3 * wide + d];
}

static bool eval(gg_eval *e)
{
	const gg_shape *out = &e->out[0].shape;
	int64_t heads = gg_get_int(e->n, "heads"), len = out->dim[1], wide = out->dim[2], size = wide / heads;
	double scale = (double)gg_get_float(e->n, "scale");
	size_t n = (size_t)gg_count(&e->out[0]);
	double *x = gg_doubles(&e->in[0]), *y = gg_xcalloc(n + 1, sizeof *y);
	double *s = gg_xcalloc((size_t)len + 1, sizeof *s);
	for (int64_t b = 0; b < out->dim[0]; b++)
		for (int64_t h = 0; h < heads; h++)
			for (int64_t i = 0; i < len; i++)
				attend(x + b * len * 3 * wide, len, wide, h * size, i, size, scale, s,
				       y + (b * len + i) * wide + h * size);
	gg_store_all(&e->out[0], y);
	free(x);
	free(y);
	free(s);
	return true;
}

static bool expand(gg_diag *d, gg_node *n)
{
	const char *name[4];
	gg_value *x = gg_in(n, 0);
	for (int i = 0; i < 4; i++)
		name[i] = gg_fresh_name(n->graph, n->out[0]->name);
	gg_node *split = gg_add_node(n->graph, n, gg_op_find("Split"), 1, &x, 3, name);
	gg_set_attr_int(split, "axis", 2);
	gg_set_attr_int(split, "num_outputs", 3);
	gg_merge_loc(split, n);
	gg_node *a = gg_add_node(n->graph, n, gg_op_find("Attention"), 3, split->out, 1, &name[3]);
	gg_set_attr_float(a, "scale", gg_get_float(n, "scale"));
	gg_set_attr_int(a, "q_num_heads", gg_get_int(n, "heads"));
	gg_set_attr_int(a, "kv_num_heads", gg_get_int(n, "heads"));
	gg_merge_loc(a, n);
	if (!gg_infer_node(d, split) || !gg_infer_node(d, a))
		return false;
	gg_replace_value(n->out[0], a->out[0]);
	gg_remove_node(n);
	return true;
}

const gg_op gg_op_PackedAttention = {
    .name = "PackedAttention",
    .domain = "gg",
    .doc = "Attention(Split(x)): queries, keys and values are thirds of each row",
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"heads", GG_ATTR_INT, true}, {"scale", GG_ATTR_FLOAT, true}, {0}},
    .in = {{GG_FLOATS, 'T'}},
    .out = {{GG_FLOATS, 'T'}},
    .infer = infer,
    .eval = eval,
    .expand = expand};
