#include "collective.h"
#include "grad.h"

static bool work(int n, gg_eval *const *m)
{
	for (int i = 0; i < m[0]->nin; i++)
		for (int r = 0; r < n; r++)
			for (int64_t k = 0; m[r]->out[i].dtype && k < gg_count(&m[r]->out[i]); k++)
				reduce_one(n, m, i, k, &m[r]->out[i], k);
	return true;
}

static bool eval(gg_eval *e) { return gg_meet(e, work); }

static bool infer(gg_infer *f) { return check_reduction(f) && infer_members(f); }

/* Of the sum of all ranks' losses, as for the other collectives. */
GG_GRAD(grad)
{
	int how = reduction_of(n);
	if (how != SUM && how != MEAN)
		gg_grad_lacks(t, n, "its reduction is neither sum nor mean");
	for (int i = 0; i < n->nout && !t->bad; i++)
		gg_give(t, IN(i), gg_grad_node(t, n, "AllReduce", gg_grad_out(n, i), 0, 0));
}

const gg_op gg_op_AllReduce = {
    .name = "AllReduce",
    .domain = "gg",
    .doc = "each input reduced over the ranks of a group",
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
