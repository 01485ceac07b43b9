#include "move.h"
#include "grad.h"
#include <math.h>
#include <string.h>

static bool depth_of(gg_infer *f, gg_dim *out)
{
	int n = 0;
	const gg_tensor *t = gg_want(f, 1);
	const gg_dim *d = t ? NULL : gg_want_dims(f, 1, &n);
	if ((t && gg_count(t) != 1) || (d && n != 1))
		return gg_fail(f, "depth is not one number");
	*out = d ? d[0] : 0;
	if (t && gg_dtype_class(t->dtype) == 'F')
		*out = (int64_t)gg_get_f64(t, 0);
	else if (t)
		*out = gg_get_i64(t, 0);
	if ((t || d) && *out < 0 && gg_dim_number(*out))
		return gg_fail(f, "depth is %lld", (long long)*out);
	if (!t && !d)
		*out = -1;
	return true;
}

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape;
	gg_shape *out = &f->out[0].shape;
	gg_dim depth = -1;
	int axis;
	f->out[0].dtype = f->in[2].dtype;
	if (!depth_of(f, &depth))
		return false;
	if (gg_shape_known(&f->in[2].shape) && gg_shape_count(&f->in[2].shape) != 2)
		return gg_fail(f, "values has shape %s, expected [2]", gg_str(f, &f->in[2].shape));
	if (s->rank < 0)
		return true;
	if (s->rank == GG_MAX_RANK)
		return gg_unsupported(f, "rank %d, at most %d is supported", s->rank + 1, GG_MAX_RANK);
	if (!gg_axis(f, "axis", gg_get_int(f->n, "axis"), s->rank + 1, &axis))
		return false;
	out->rank = s->rank + 1;
	for (int i = 0; i < out->rank; i++)
		out->dim[i] = i == axis ? depth : s->dim[i - (i > axis)];
	if (depth == -1)
		out->dim[axis] = gg_unknown_dim(f, 0, axis);
	return true;
}

static bool eval(gg_eval *e)
{
	const gg_tensor *idx = &e->in[0], *values = &e->in[2], *y = &e->out[0];
	int axis = gg_eval_axis(gg_get_int(e->n, "axis"), y->shape.rank);
	int64_t depth = y->shape.dim[axis], count = gg_count(idx);
	int64_t inner = gg_span(&y->shape, axis + 1, y->shape.rank);
	size_t size = gg_dtype_size(y->dtype);
	const char *on = (const char *)values->data + size;
	bool floats = gg_dtype_class(idx->dtype) == 'F';
	gg_move_fill(size, y->data, values->data, gg_count(y));
	for (int64_t i = 0; i < count; i++) {
		double v = floats ? trunc(gg_get_f64(idx, i)) : 0;
		if (floats && !(v >= -(double)depth && v < (double)depth))
			continue;
		int64_t k = floats ? (int64_t)v : gg_get_i64(idx, i);
		bool huge = idx->dtype == GG_U64 && k < 0;
		if (huge || k < -depth || k >= depth)
			continue;
		k += k < 0 ? depth : 0;
		int64_t at = (i / inner * depth + k) * inner + i % inner;
		memcpy((char *)y->data + (size_t)at * size, on, size);
	}
	return true;
}

/* Of the two values. */
GG_GRAD(grad)
{
	gg_tensor pair = {.dtype = (gg_dtype)OUT->dtype, .shape = {.rank = 1, .dim = {2}}};
	double room[2] = {0};
	gg_value *in[] = {IN(0), IN(1), 0}, *part[2];
	pair.data = room;
	gg_set_f64(&pair, 1, 1);
	in[2] = t->bad ? 0 : gg_add_tensor(t->g, "hot", &pair);
	gg_value *hot = gg_put(t, "OneHot", 3, in, 0);
	if (hot)
		gg_set_attr_int(hot->producer, "axis", gg_get_int(n, "axis"));
	hot = OP("Mul", dy, gg_put_done(t, hot));
	part[1] = OP("Unsqueeze", gg_put_all(t, "ReduceSum", hot), gg_put_ints(t, 1, &(int64_t){0}));
	part[0] = gg_put_all(t, "ReduceSum", OP("Sub", dy, hot));
	part[0] = OP("Unsqueeze", part[0], gg_put_ints(t, 1, &(int64_t){0}));
	gg_value *y = gg_put(t, "Concat", 2, part, 0);
	if (y)
		gg_set_attr_int(y->producer, "axis", 0);
	gg_give(t, IN(2), gg_put_done(t, y));
}

const gg_op gg_op_OneHot = {
    .name = "OneHot",
    .doc = "values[1] where the index along a new axis is the one given, else values[0]",
    .min_in = 3,
    .max_in = 3,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"axis", GG_ATTR_INT, false, "-1"}, {0}},
    .in = {{GG_NUMBERS}, {GG_NUMBERS}, {GG_ANY, 'T'}},
    .out = {{GG_ANY, 'T'}},
    .infer = infer,
    .eval = eval,
    .grad = grad};
