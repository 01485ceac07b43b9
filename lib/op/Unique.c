#include "move.h"
#include "order.h"
#include <stdlib.h>

static bool infer(gg_infer *f)
{
	const gg_attr *a = gg_find_attr(f->n, "axis");
	const gg_shape *s = &f->in[0].shape;
	gg_dim n = gg_unknown_dim(f, 0, 0);
	int axis;
	f->out[0].dtype = f->in[0].dtype;
	for (int i = 1; i < f->nout; i++) {
		f->out[i].dtype = GG_I64;
		f->out[i].shape = gg_shape_of(1, &n);
	}
	if (!a) {
		f->out[0].shape = gg_shape_of(1, &n);
		if (f->nout > 2 && s->rank >= 0)
			f->out[2].shape.dim[0] = gg_shape_count_dim(s, 0, s->rank);
		return true;
	}
	if (s->rank < 0) {
		if (f->nout > 2)
			f->out[2].shape.dim[0] = gg_unknown_dim(f, 2, 0);
		return true;
	}
	if (!gg_axis(f, "axis", a->i, s->rank, &axis))
		return false;
	f->out[0].shape = *s;
	f->out[0].shape.dim[axis] = n;
	if (f->nout > 2)
		f->out[2].shape.dim[0] = s->dim[axis];
	return true;
}

/* x as `d` slices of outer rows of `inner` elements. */
typedef struct slices {
	const gg_tensor *x;
	int64_t d, outer, inner;
} slices;

static int compare(const slices *s, int64_t i, int64_t j)
{
	for (int64_t o = 0; o < s->outer; o++)
		for (int64_t k = 0; k < s->inner; k++) {
			int c = gg_order(s->x, (o * s->d + i) * s->inner + k, s->x,
			                 (o * s->d + j) * s->inner + k);
			if (c)
				return c;
		}
	return 0;
}

static int by_value(const void *a, const void *b, void *arg)
{
	int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
	int c = compare(arg, i, j);
	return c ? c : (i > j) - (i < j);
}

static int by_first(const void *a, const void *b)
{
	int64_t i = **(const int64_t *const *)a, j = **(const int64_t *const *)b;
	return (i > j) - (i < j);
}

/* Puts list into output i, when it is wanted. */
static bool put(gg_eval *e, int i, int64_t n, const int64_t *list)
{
	if (i >= e->nout || e->out[i].dtype == GG_NONE)
		return true;
	int64_t *p = gg_shape_known(&e->out[i].shape) ? e->out[i].data : gg_eval_alloc(e, i, 1, &n);
	if (n && p)
		memcpy(p, list, (size_t)n * sizeof *p);
	return p || !n;
}

/* Groups equal slices: first[g] and count[g] of each, in the order asked for, and of which group
 * each slice is. Returns the number of groups. */
static int64_t group(gg_arena *a, slices *s, bool sorted, int64_t *first, int64_t *count, int64_t *of)
{
	size_t d = (size_t)s->d;
	int64_t *order = gg_alloc_n(a, d + 1, sizeof *order), *rank = gg_alloc_n(a, d + 1, sizeof *rank),
	        n = 0;
	int64_t *head = gg_alloc_n(a, d + 1, sizeof *head), **by = gg_alloc_n(a, d + 1, sizeof *by);
	for (int64_t i = 0; i < s->d; i++)
		order[i] = i;
	qsort_r(order, d, sizeof *order, by_value, s);
	for (int64_t i = 0; i < s->d; i++) {
		if (i == 0 || compare(s, order[i - 1], order[i]))
			head[n++] = order[i];
		of[order[i]] = n - 1;
	}
	for (int64_t g = 0; g < n; g++)
		by[g] = &head[g];
	if (!sorted)
		qsort(by, (size_t)n, sizeof *by, by_first);
	for (int64_t g = 0; g < n; g++) {
		rank[by[g] - head] = g;
		first[g] = *by[g];
	}
	for (int64_t i = 0; i < s->d; i++)
		count[of[i] = rank[of[i]]]++;
	return n;
}

static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0];
	const gg_attr *a = gg_find_attr(e->n, "axis");
	gg_shape shape = a ? x->shape : gg_shape_of(1, &(gg_dim){gg_count(x)});
	int axis = a ? gg_eval_axis(a->i, shape.rank) : 0;
	slices s = {x, shape.dim[axis], gg_span(&shape, 0, axis), gg_span(&shape, axis + 1, shape.rank)};
	size_t d = (size_t)s.d, row = (size_t)s.inner * gg_dtype_size(x->dtype);
	int64_t *first = gg_alloc_n(e->a, d + 1, sizeof *first),
	        *count = gg_alloc_n(e->a, d + 1, sizeof *count);
	int64_t *of = gg_alloc_n(e->a, d + 1, sizeof *of);
	int64_t n = group(e->a, &s, gg_get_int(e->n, "sorted"), first, count, of);
	if (e->out[0].dtype != GG_NONE) {
		shape.dim[axis] = n;
		char *y = gg_eval_alloc(e, 0, shape.rank, shape.dim);
		if (!y && gg_count(&e->out[0]) > 0)
			return false;
		for (int64_t o = 0; o < s.outer && row > 0; o++)
			for (int64_t g = 0; g < n; g++, y += row)
				memcpy(y, (const char *)x->data + (size_t)(o * s.d + first[g]) * row, row);
	}
	return put(e, 1, n, first) && put(e, 2, s.d, of) && put(e, 3, n, count);
}

const gg_op gg_op_Unique = {
    .name = "Unique",
    .doc = "the different elements, or slices along axis",
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 4,
    .attrs = (const gg_attr_spec[]){{"axis", GG_ATTR_INT}, {"sorted", GG_ATTR_INT, false, "1"}, {0}},
    .flags = GG_DATA_SHAPE,
    .in = {{GG_ANY, 'T'}},
    .out = {{GG_ANY, 'T'}, {GG_DT(GG_I64)}, {GG_DT(GG_I64)}, {GG_DT(GG_I64)}},
    .infer = infer,
    .eval = eval};
