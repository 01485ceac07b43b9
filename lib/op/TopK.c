#include "move.h"
#include "order.h"
#include "grad.h"
#include <stdlib.h>

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape;
	int axis, n;
	f->out[0].dtype = f->in[0].dtype;
	f->out[1].dtype = GG_I64;
	if (s->rank < 0)
		return true;
	if (!gg_axis(f, "axis", gg_get_int(f->n, "axis"), s->rank, &axis))
		return false;
	const gg_dim *k = gg_want_dims(f, 1, &n);
	if (k && n != 1)
		return gg_fail(f, "k has %d elements, expected 1", n);
	if (k && ((k[0] < 0 && gg_dim_number(k[0])) ||
	          (gg_dim_known(k[0]) && gg_dim_known(s->dim[axis]) && k[0] > s->dim[axis])))
		return gg_fail(f, "k is %lld, axis %d of %s", (long long)k[0], axis, gg_str(f, s));
	for (int i = 0; i < f->nout; i++) {
		f->out[i].shape = *s;
		f->out[i].shape.dim[axis] = k ? k[0] : gg_unknown_dim(f, 0, axis);
	}
	return true;
}

typedef struct line {
	const gg_tensor *x;
	int64_t base, step;
	int sign;
} line;

/* The better one first; the lower index first among equals. */
static int before(const void *a, const void *b, void *arg)
{
	const line *l = arg;
	int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
	int c = gg_order(l->x, l->base + i * l->step, l->x, l->base + j * l->step) * l->sign;
	return c ? c : (i > j) - (i < j);
}

static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0];
	gg_tensor *y = &e->out[0], *at = e->nout > 1 ? &e->out[1] : NULL;
	int axis = gg_eval_axis(gg_get_int(e->n, "axis"), x->shape.rank);
	int64_t n = x->shape.dim[axis], k = gg_eval_int(e, 1, 0);
	int64_t outer = gg_span(&x->shape, 0, axis), inner = gg_span(&x->shape, axis + 1, x->shape.rank);
	int64_t *order = gg_alloc_n(e->a, (size_t)n + 1, sizeof *order);
	size_t size = gg_dtype_size(x->dtype);
	for (int64_t r = 0; r < outer * inner && k > 0; r++) {
		line l = {x, r / inner * n * inner + r % inner, inner, gg_get_int(e->n, "largest") ? -1 : 1};
		int64_t to = r / inner * k * inner + r % inner;
		for (int64_t i = 0; i < n; i++)
			order[i] = i;
		qsort_r(order, (size_t)n, sizeof *order, before, &l);
		for (int64_t i = 0; i < k; i++, to += inner) {
			if (y->dtype != GG_NONE)
				memcpy((char *)y->data + (size_t)to * size,
				       (const char *)x->data + (size_t)(l.base + order[i] * inner) * size,
				       size);
			if (at && at->dtype != GG_NONE)
				gg_set_i64(at, to, order[i]);
		}
	}
	return true;
}

GG_GRAD(grad)
{
	if (!gg_out(n, 1)) {
		gg_grad_lacks(t, n, "its indices are not among its outputs");
		return;
	}
	gg_value *in[] = {gg_put_expand(t, NUM(dy, 0), IN(0)), gg_out(n, 1), dy};
	gg_value *y = gg_put(t, "ScatterElements", 3, in, 0);
	if (y)
		gg_set_attr_int(y->producer, "axis", gg_get_int(n, "axis"));
	gg_give(t, IN(0), gg_put_done(t, y));
}

const gg_op gg_op_TopK = {.name = "TopK",
                          .doc = "the k largest or smallest along axis, and their indices",
                          .min_in = 2,
                          .max_in = 2,
                          .min_out = 1,
                          .max_out = 2,
                          .attrs = (const gg_attr_spec[]){{"axis", GG_ATTR_INT, false, "-1"},
                                                          {"largest", GG_ATTR_INT, false, "1"},
                                                          {"sorted", GG_ATTR_INT, false, "1"},
                                                          {0}},
                          .in = {{GG_NUMBERS, 'T'}, {GG_DT(GG_I64)}},
                          .out = {{GG_NUMBERS, 'T'}, {GG_DT(GG_I64)}},
                          .infer = infer,
                          .eval = eval,
                          .grad = grad};
