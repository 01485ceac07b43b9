#include "collective.h"
#include "grad.h"

static int axis_of(const gg_eval *e, const char *name)
{
	return (int)gg_eval_axis(gg_get_int(e->n, name), e->in[0].shape.rank);
}

/* Part `to` of rank r's input along split_dim is part r of rank to's output along concat_dim. */
static bool work(int n, gg_eval *const *m)
{
	const gg_shape *in = &m[0]->in[0].shape, *out = &m[0]->out[0].shape;
	int split = axis_of(m[0], "split_dim"), concat = axis_of(m[0], "concat_dim");
	int64_t from[GG_MAX_RANK], step[GG_MAX_RANK];
	gg_shape part = *in;
	size_t size = gg_dtype_size(m[0]->in[0].dtype);
	if (gg_get_int(m[0]->n, "split_count") != n)
		return gg_fail(m[0], "split_count is %lld, the group has %d ranks",
		               (long long)gg_get_int(m[0]->n, "split_count"), n);
	part.dim[split] /= n;
	gg_strides(in, from);
	gg_strides(out, step);
	for (int r = 0; r < n && gg_count(&m[0]->in[0]); r++)
		for (int to = 0; to < n; to++)
			gg_move(size, part.rank, part.dim,
			        (const char *)m[r]->in[0].data +
			            (size_t)(to * part.dim[split] * from[split]) * size,
			        from,
			        (char *)m[to]->out[0].data +
			            (size_t)(r * part.dim[concat] * step[concat]) * size,
			        step);
	return true;
}

static bool eval(gg_eval *e) { return gg_meet(e, work); }

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape;
	int64_t n = gg_get_int(f->n, "split_count"), group = gg_group_size(f->n);
	int split, concat;
	if (n < 1)
		return gg_fail(f, "split_count is %lld", (long long)n);
	if (group && n != group)
		return gg_fail(f, "split_count is %lld, the group has %lld ranks", (long long)n,
		               (long long)group);
	if (s->rank < 0)
		return true;
	if (!gg_axis(f, "split_dim", gg_get_int(f->n, "split_dim"), s->rank, &split) ||
	    !gg_axis(f, "concat_dim", gg_get_int(f->n, "concat_dim"), s->rank, &concat))
		return false;
	if (gg_dim_known(s->dim[split]) && s->dim[split] % n)
		return gg_fail(f, "split_count %lld does not divide axis %d, which has %lld", (long long)n,
		               split, (long long)s->dim[split]);
	f->out[0].shape = *s;
	f->out[0].shape.dim[split] = gg_dim_div(s->dim[split], n);
	f->out[0].shape.dim[concat] = gg_dim_mul(f->out[0].shape.dim[concat], n);
	return true;
}

/* Parts go back where they came from. */
GG_GRAD(grad)
{
	gg_value *y = gg_put(t, "AllToAll", 1, &dy, 0);
	if (y) {
		gg_copy_attrs(y->producer, n);
		gg_set_attr_int(y->producer, "split_dim", gg_get_int(n, "concat_dim"));
		gg_set_attr_int(y->producer, "concat_dim", gg_get_int(n, "split_dim"));
	}
	gg_give(t, IN(0), gg_put_done(t, y));
}

const gg_op gg_op_AllToAll = {
    .name = "AllToAll",
    .domain = "gg",
    .doc = "each rank's parts along split_dim go to the ranks of the group, which join "
           "them along concat_dim",
    .min_in = 1,
    .max_in = 1,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){GG_GROUP_ATTRS,
                                    {"split_count", GG_ATTR_INT, true},
                                    {"split_dim", GG_ATTR_INT, true},
                                    {"concat_dim", GG_ATTR_INT, true},
                                    {0}},
    .flags = GG_COLLECTIVE_FLAGS,
    .in = {{GG_ANY, 'T'}},
    .out = {{GG_ANY, 'T'}},
    .infer = infer,
    .eval = eval,
    .grad = grad};
