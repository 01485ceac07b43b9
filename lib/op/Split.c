#include "move.h"
#include "grad.h"

/* Equal parts, rounded up; the last ones take what is left. */
static gg_dim part(gg_dim d, int n, int i)
{
	gg_dim chunk = gg_dim_ceildiv(d, n);
	if (gg_dim_mul(chunk, n) == d)
		return chunk;
	return gg_dim_max(0, gg_dim_min(chunk, gg_dim_sub(d, gg_dim_mul(chunk, i))));
}

static bool infer_sizes(gg_infer *f, int axis, const gg_dim *size, int n)
{
	gg_dim sum = 0, d = f->in[0].shape.dim[axis];
	if (n != f->nout)
		return gg_fail(f, "split has %d sizes for %d outputs", n, f->nout);
	for (int i = 0; i < n; i++) {
		if (size[i] < 0 && gg_dim_number(size[i]))
			return gg_fail(f, "split has the size %lld", (long long)size[i]);
		f->out[i].shape.dim[axis] = size[i];
		sum = gg_dim_add(sum, size[i]);
	}
	if (gg_dim_known(sum) && gg_dim_known(d) && sum != d)
		return gg_fail(f, "split sizes add up to %lld, axis %d has %lld", (long long)sum, axis,
		               (long long)d);
	return true;
}

static bool infer(gg_infer *f)
{
	const gg_attr *parts = gg_find_attr(f->n, "num_outputs");
	const gg_shape *s = &f->in[0].shape;
	bool given = f->nin > 1 && f->in[1].dtype != GG_NONE;
	int axis, n;
	for (int i = 0; i < f->nout; i++)
		f->out[i].dtype = f->in[0].dtype;
	if (given && parts)
		return gg_fail(f, "both split and num_outputs are given");
	if (parts && parts->i != f->nout)
		return gg_fail(f, "num_outputs is %lld for %d outputs", (long long)parts->i, f->nout);
	if (s->rank < 0)
		return true;
	if (!gg_axis(f, "axis", gg_get_int(f->n, "axis"), s->rank, &axis))
		return false;
	const gg_dim *size = given ? gg_want_dims(f, 1, &n) : NULL;
	for (int i = 0; i < f->nout; i++) {
		f->out[i].shape = *s;
		f->out[i].shape.dim[axis] = given ? gg_unknown_dim(f, i, axis)
		                                  : part(s->dim[axis], f->nout, i);
	}
	if (size && !infer_sizes(f, axis, size, n))
		return false;
	gg_move_content(f, 1);
	return true;
}

/* How much of the axis output i takes, also where nobody wants it. */
static int64_t size_of(const gg_eval *e, int axis, int i)
{
	if (e->out[i].dtype != GG_NONE)
		return e->out[i].shape.dim[axis];
	if (e->nin > 1 && e->in[1].dtype != GG_NONE)
		return i < gg_count(&e->in[1]) ? gg_get_i64(&e->in[1], i) : 0;
	return part(e->in[0].shape.dim[axis], e->nout, i);
}

static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0];
	int axis = gg_eval_axis(gg_get_int(e->n, "axis"), x->shape.rank);
	int64_t outer = gg_span(&x->shape, 0, axis), whole = gg_span(&x->shape, axis, x->shape.rank), at = 0;
	int64_t inner = gg_span(&x->shape, axis + 1, x->shape.rank);
	size_t size = gg_dtype_size(x->dtype);
	for (int i = 0; i < e->nout; i++) {
		gg_tensor *y = &e->out[i];
		int64_t size_i = size_of(e, axis, i), part = size_i * inner;
		if (size_i < 0 || size_i > x->shape.dim[axis] || at + part > whole)
			return gg_fail(e, "split sizes add up to more than %lld",
			               (long long)x->shape.dim[axis]);
		if (y->dtype != GG_NONE && outer && part)
			gg_move(size, 2, (int64_t[]){outer, part}, (const char *)x->data + (size_t)at * size,
			        (int64_t[]){whole, 1}, y->data, (int64_t[]){part, 1});
		at += part;
	}
	return true;
}

/* What nobody read has the gradient 0. */
GG_GRAD(grad)
{
	gg_value **part = gg_alloc_n(&t->g->m->arena, (size_t)n->nout, sizeof *part);
	int64_t axis;
	if (!gg_grad_axis(t, n, IN(0), &axis))
		return;
	for (int i = 0; i < n->nout; i++) {
		gg_value *v = n->out[i], *g = gg_grad_out(n, i);
		if (!v) {
			gg_grad_lacks(t, n, "an output is absent");
			return;
		}
		part[i] = g ? g : OP("Mul", v, NUM(v, 0));
	}
	gg_value *y = gg_put(t, "Concat", n->nout, part, 0);
	if (y)
		gg_set_attr_int(y->producer, "axis", axis);
	gg_give(t, IN(0), gg_put_done(t, y));
}

const gg_op gg_op_Split = {
    .name = "Split",
    .doc = "x in parts along axis: of the sizes given, or equal ones",
    .min_in = 1,
    .max_in = 2,
    .min_out = 1,
    .max_out = -1,
    .attrs = (const gg_attr_spec[]){{"axis", GG_ATTR_INT, false, "0"}, {"num_outputs", GG_ATTR_INT}, {0}},
    .flags = GG_MOVES,
    .in = {{GG_ANY, 'T'}, {GG_DT(GG_I64)}},
    .out = {{GG_ANY, 'T'}},
    .optional = 1 << 1,
    .infer = infer,
    .eval = eval,
    .grad = grad};
