#include "move.h"
#include "grad.h"
#include <string.h>

/* Adds one input's shape to the result so far. */
static bool join(gg_infer *f, int i, int axis)
{
	const gg_shape *s = &f->in[i].shape;
	gg_shape *out = &f->out[0].shape;
	if (s->rank != out->rank)
		return gg_fail(f, "input %d has shape %s, the first has rank %d", i, gg_str(f, s), out->rank);
	for (int k = 0; k < s->rank; k++) {
		if (k == axis)
			out->dim[k] = gg_dim_add(out->dim[k], s->dim[k]);
		else if (!gg_dim_known(out->dim[k]))
			out->dim[k] = gg_dim_known(s->dim[k]) ? s->dim[k] : out->dim[k];
		else if (gg_dim_known(s->dim[k]) && s->dim[k] != out->dim[k])
			return gg_fail(f, "input %d has shape %s, expected %lld along axis %d", i,
			               gg_str(f, s), (long long)out->dim[k], k);
	}
	return true;
}

static bool infer(gg_infer *f)
{
	int known = -1, axis;
	bool all = true;
	f->out[0].dtype = f->in[0].dtype;
	for (int i = f->nin - 1; i >= 0; i--) {
		all &= f->in[i].shape.rank >= 0;
		known = f->in[i].shape.rank >= 0 ? i : known;
	}
	if (known < 0)
		return true;
	if (!gg_axis(f, "axis", gg_get_int(f->n, "axis"), f->in[known].shape.rank, &axis))
		return false;
	f->out[0].shape = f->in[known].shape;
	for (int i = known + 1; i < f->nin; i++)
		if (f->in[i].shape.rank >= 0 && !join(f, i, axis))
			return false;
	if (!all)
		f->out[0].shape.dim[axis] = gg_unknown_dim(f, 0, axis);
	gg_move_content(f, ~0u);
	return true;
}

static bool eval(gg_eval *e)
{
	gg_tensor *y = &e->out[0];
	int axis = gg_eval_axis(gg_get_int(e->n, "axis"), y->shape.rank);
	int64_t outer = gg_span(&y->shape, 0, axis), whole = gg_span(&y->shape, axis, y->shape.rank), at = 0;
	size_t size = gg_dtype_size(y->dtype);
	for (int i = 0; i < e->nin; i++) {
		const gg_tensor *x = &e->in[i];
		for (int k = 0; k < y->shape.rank; k++)
			if (k != axis && x->shape.dim[k] != y->shape.dim[k])
				return gg_fail(e, "input %d has %lld along axis %d, expected %lld", i,
				               (long long)x->shape.dim[k], k, (long long)y->shape.dim[k]);
		int64_t part = gg_span(&x->shape, axis, x->shape.rank);
		if (outer && part)
			gg_move(size, 2, (int64_t[]){outer, part}, x->data, (int64_t[]){part, 1},
			        (char *)y->data + (size_t)at * size, (int64_t[]){whole, 1});
		at += part;
	}
	return true;
}

GG_GRAD(grad)
{
	int64_t axis, from = 0;
	if (!gg_grad_axis(t, n, OUT, &axis))
		return;
	for (int i = 0; i < gg_nargs(n); i++) {
		gg_dim size = IN(i)->shape.dim[axis];
		int64_t to = from + size;
		if (!gg_dim_known(size)) {
			gg_grad_lacks(t, n, "the size of an input is not known");
			return;
		}
		gg_value *in[] = {dy, gg_put_ints(t, 1, &from), gg_put_ints(t, 1, &to),
		                  gg_put_ints(t, 1, &axis)};
		if (gg_grad_wanted(IN(i)))
			gg_give(t, IN(i), gg_put_done(t, gg_put(t, "Slice", 4, in, 0)));
		from = to;
	}
}

const gg_op gg_op_Concat = {.name = "Concat",
                            .doc = "the inputs one after another along axis",
                            .min_in = 1,
                            .max_in = -1,
                            .min_out = 1,
                            .max_out = 1,
                            .attrs = (const gg_attr_spec[]){{"axis", GG_ATTR_INT, true}, {0}},
                            .flags = GG_MOVES,
                            .in = {{GG_ANY, 'T'}},
                            .out = {{GG_ANY, 'T'}},
                            .infer = infer,
                            .eval = eval,
                            .grad = grad};
