#include "collective.h"
#include "grad.h"

static bool work(int n, gg_eval *const *m)
{
	for (int i = 0; i < m[0]->nin; i++) {
		int64_t part = gg_count(&m[0]->in[i]) / n;
		for (int r = 0; r < n; r++)
			for (int64_t k = 0; m[r]->out[i].dtype && k < part; k++)
				reduce_one(n, m, i, r * part + k, &m[r]->out[i], k);
	}
	return true;
}

static bool eval(gg_eval *e) { return gg_meet(e, work); }

static bool infer(gg_infer *f)
{
	gg_dim n = group_dim(f);
	if (!check_reduction(f) || !infer_members(f))
		return false;
	for (int i = 0; i < f->nin; i++) {
		gg_shape *s = &f->out[i].shape;
		if (!has_rows(f, i))
			return false;
		if (s->rank < 0)
			continue;
		if (gg_dim_known(n) && gg_dim_known(s->dim[0]) && s->dim[0] % n)
			return gg_fail(
			    f, "axis 0 of input %d has %lld rows, which %lld ranks cannot share equally", i,
			    (long long)s->dim[0], (long long)n);
		s->dim[0] = gg_dim_div(s->dim[0], n);
	}
	return true;
}

GG_GRAD(grad)
{
	int how = reduction_of(n);
	int64_t size = gg_group_size(n);
	if (how != SUM && (how != MEAN || size <= 0))
		gg_grad_lacks(t, n, "its reduction is neither sum nor the mean of a known number of ranks");
	for (int i = 0; i < n->nout && !t->bad; i++) {
		gg_value *all = gg_grad_node(t, n, "AllGather", gg_grad_out(n, i), 0, 0);
		if (all && how == MEAN)
			all = OP("Mul", all, NUM(all, 1 / (double)size));
		gg_give(t, IN(i), all);
	}
}

const gg_op gg_op_ReduceScatter = {
    .name = "ReduceScatter",
    .domain = "gg",
    .doc = "each input reduced over the ranks of a group, each rank with its part of axis 0",
    .min_in = 1,
    .max_in = -1,
    .min_out = 1,
    .max_out = -1,
    .attrs = (const gg_attr_spec[]){GG_GROUP_ATTRS, {"reduction", GG_ATTR_STRING, false, "\"sum\""}, {0}},
    .flags = GG_COLLECTIVE_FLAGS,
    .in = {{GG_NUMBERS}},
    .out = {{GG_NUMBERS}},
    .infer = infer,
    .eval = eval,
    .grad = grad};
