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

enum { X, MASK };

typedef struct work {
	gg_eval *e;
	const double *x; /* the rows of one batch */
	double *s, *y;   /* s has room for a score of each row */
	int64_t len, wide, size, mask[4];
	double scale;
	bool causal;
} work;

/* One row of queries of head h. */
static void attend(const work *w, int64_t b, int64_t h, int64_t row)
{
	int64_t wide = w->wide, at = h * w->size, keys = w->causal ? row + 1 : w->len;
	const double *q = w->x + row * 3 * wide + at, *k = w->x + wide + at, *v = k + wide;
	double most = -INFINITY, sum = 0, *s = w->s, *y = w->y + (b * w->len + row) * wide + at;
	for (int64_t j = 0; j < keys; j++) {
		s[j] = 0;
		for (int64_t d = 0; d < w->size; d++)
			s[j] += q[d] * k[j * 3 * wide + d];
		s[j] *= w->scale;
		s[j] = gg_has(w->e, MASK) ? gg_masked(s[j], &w->e->in[MASK], w->mask, b, h, row, j) : s[j];
		most = s[j] > most || isnan(s[j]) ? s[j] : most;
	}
	for (int64_t j = 0; j < keys; j++)
		sum += s[j] = most == -INFINITY ? 0 : exp(s[j] - most);
	for (int64_t j = 0; j < keys; j++)
		for (int64_t d = 0; d < w->size && s[j] != 0; d++)
			y[d] += s[j] / sum * v[j * 3 * wide + d];
}

static bool eval(gg_eval *e)
{
	const gg_shape *out = &e->out[0].shape;
	int64_t heads = gg_get_int(e->n, "heads"), len = out->dim[1], wide = out->dim[2];
	work w = {.e = e, .len = len, .wide = wide, .size = wide / heads};
	w.scale = (double)gg_get_float(e->n, "scale");
	w.causal = gg_get_int(e->n, "is_causal");
	if (gg_has(e, MASK) && !gg_mask_strides(e, MASK, (int64_t[]){out->dim[0], heads, len, len}, w.mask))
		return false;
	size_t n = (size_t)gg_count(&e->out[0]);
	double *x = gg_doubles(&e->in[X]);
	w.y = gg_xcalloc(n + 1, sizeof *w.y);
	w.s = gg_xcalloc((size_t)len + 1, sizeof *w.s);
	for (int64_t b = 0; b < out->dim[0]; b++) {
		w.x = x + b * len * 3 * wide;
		for (int64_t h = 0; h < heads; h++)
			for (int64_t i = 0; i < len; i++)
				attend(&w, b, h, i);
	}
	gg_store_all(&e->out[0], w.y);
	free(x);
	free(w.y);
	free(w.s);
	return true;
}

static bool expand(gg_diag *d, gg_node *n)
{
	static const char *const third[] = {"queries", "keys", "values"};
	const char *name[4];
	gg_value *x = gg_in(n, X);
	for (int i = 0; i < 3; i++)
		name[i] = gg_fresh_name(n->graph,
		                        gg_printf(&n->graph->m->arena, "%s.%s", n->out[0]->name, third[i]));
	name[3] = gg_fresh_name(n->graph, n->out[0]->name);
	gg_node *split = gg_add_node(n->graph, n, gg_op_find("Split"), 1, &x, 3, name);
	gg_set_attr_int(split, "axis", 2);
	gg_set_attr_int(split, "num_outputs", 3);
	gg_merge_loc(split, n);
	gg_value *in[] = {split->out[0], split->out[1], split->out[2], gg_in(n, MASK)};
	gg_node *a = gg_add_node(n->graph, n, gg_op_find("Attention"), in[3] ? 4 : 3, in, 1, &name[3]);
	if (gg_get_int(n, "is_causal"))
		gg_set_attr_int(a, "is_causal", 1);
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
    .doc = "Attention(Split(x), mask): queries, keys and values are thirds of each row",
    .min_in = 1,
    .max_in = 2,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"heads", GG_ATTR_INT, true},
                                    {"is_causal", GG_ATTR_INT, .def = "0"},
                                    {"scale", GG_ATTR_FLOAT, true},
                                    {0}},
    .in = {{GG_FLOATS, 'T'}, {GG_FLOATS | GG_INTS | GG_DT(GG_BOOL), 0}},
    .optional = 1 << MASK,
    .out = {{GG_FLOATS, 'T'}},
    .infer = infer,
    .eval = eval,
    .expand = expand};
