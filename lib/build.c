#include "build.h"
#include <string.h>

gg_value *gg_put(gg_builder *t, const char *op, int nin, gg_value *const *in, const char *name)
{
	for (int i = 0; i < nin; i++)
		if (!in[i])
			return 0;
	if (t->bad)
		return 0;
	name = gg_fresh_name(t->g, name ? name : t->name ? t->name : in[0]->name);
	return gg_add_node(t->g, t->at, gg_op_find(op), nin, in, 1, &name)->out[0];
}

gg_value *gg_put_done(gg_builder *t, gg_value *v)
{
	if (v && !gg_infer_node(t->d, v->producer))
		t->bad = true;
	return t->bad ? 0 : v;
}

gg_value *gg_put_op(gg_builder *t, const char *op, gg_value *a, gg_value *b)
{
	return gg_put_done(t, gg_put(t, op, b ? 2 : 1, (gg_value *[]){a, b}, 0));
}

gg_value *gg_put_cast(gg_builder *t, gg_value *v, gg_dtype to)
{
	if (!v || v->dtype == to)
		return v;
	gg_value *y = gg_put(t, "Cast", 1, &v, 0);
	if (y)
		gg_set_attr_dtype(y->producer, "to", to);
	return gg_put_done(t, y);
}

gg_value *gg_put_where(gg_builder *t, gg_value *test, gg_value *yes, gg_value *no)
{
	return gg_put_done(t, gg_put(t, "Where", 3, (gg_value *[]){test, yes, no}, 0));
}

gg_value *gg_put_all(gg_builder *t, const char *op, gg_value *v)
{
	return gg_put_reduce(t, op, v, 0, 0, false);
}

gg_value *gg_put_number(gg_builder *t, const char *name, gg_dtype type, double x)
{
	double room = 0;
	gg_tensor one = {.dtype = type, .data = &room};
	gg_value *v = gg_find_value(t->g, name);
	gg_tensor old;
	if (gg_dtype_class(type) == 'F')
		gg_set_f64(&one, 0, x);
	else
		gg_set_i64(&one, 0, (int64_t)x);
	if (v && gg_is_const(v) && v->dtype == type && v->shape.rank == 0 && gg_value_tensor(t->d, v, &old) &&
	    !memcmp(old.data, one.data, gg_dtype_size(type)))
		return v;
	return t->bad ? 0 : gg_add_tensor(t->g, name, &one);
}

gg_value *gg_put_like(gg_builder *t, const gg_value *like, double x)
{
	return like ? gg_put_number(t, "number", (gg_dtype)like->dtype, x) : 0;
}

gg_value *gg_put_ints(gg_builder *t, int n, const int64_t *x)
{
	gg_tensor v = {.dtype = GG_I64, .shape = {.rank = 1, .dim = {n}}, .data = (void *)(uintptr_t)x};
	return t->bad ? 0 : gg_add_tensor(t->g, "ints", &v);
}

/* ---- shapes --------------------------------------------------------------------------------- */
gg_value *gg_put_shape(gg_builder *t, gg_value *v)
{
	return v && gg_shape_known(&v->shape) ? gg_put_ints(t, v->shape.rank, v->shape.dim)
	                                      : gg_put_op(t, "Shape", v, 0);
}

gg_value *gg_put_reshape(gg_builder *t, gg_value *v, gg_value *like)
{
	return v && gg_shape_eq(&v->shape, &like->shape) ? v
	                                                 : gg_put_op(t, "Reshape", v, gg_put_shape(t, like));
}

gg_value *gg_put_expand(gg_builder *t, gg_value *v, gg_value *like)
{
	return gg_put_op(t, "Expand", v, gg_put_shape(t, like));
}

gg_value *gg_put_reduce(gg_builder *t, const char *op, gg_value *v, int n, const int64_t *axis, bool keep)
{
	gg_value *in[] = {v, n ? gg_put_ints(t, n, axis) : 0};
	gg_value *y = gg_put(t, op, n ? 2 : 1, in, 0);
	if (y)
		gg_set_attr_int(y->producer, "keepdims", keep);
	return gg_put_done(t, y);
}

gg_value *gg_put_permute(gg_builder *t, gg_value *v, int n, const int64_t *perm)
{
	gg_value *y = gg_put(t, "Transpose", 1, &v, 0);
	if (y)
		gg_set_attr_ints(y->producer, "perm", n, perm);
	return gg_put_done(t, y);
}

gg_value *gg_put_swap(gg_builder *t, gg_value *v)
{
	int64_t perm[GG_MAX_RANK];
	int r = v ? v->shape.rank : 0;
	for (int i = 0; i < r; i++)
		perm[i] = i == r - 2 ? r - 1 : i == r - 1 ? r - 2 : i;
	return v ? gg_put_permute(t, v, r, perm) : 0;
}

gg_value *gg_put_count(gg_builder *t, gg_value *v)
{
	if (v && gg_shape_known(&v->shape))
		return gg_put_like(t, v, (double)gg_shape_count(&v->shape));
	return v ? gg_put_cast(t, gg_put_op(t, "Size", v, 0), (gg_dtype)v->dtype) : 0;
}
