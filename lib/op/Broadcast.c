#include "collective.h"
#include "grad.h"

static bool work(int n, gg_eval *const *m)
{
	int64_t root = gg_get_int(m[0]->n, "root");
	if (root < 0 || root >= n)
		return gg_fail(m[0], "root is %lld, the group has %d ranks", (long long)root, n);
	for (int r = 0; r < n; r++)
		for (int i = 0; i < m[r]->nout; i++)
			copy_rows(&m[r]->out[i], 0, &m[root]->in[i], 0, gg_count(&m[root]->in[i]));
	return true;
}

static bool eval(gg_eval *e) { return gg_meet(e, work); }

/* dy in the root's place among the ranks. */
static gg_value *for_root(gg_builder *t, gg_node *n, gg_value *dy, int64_t size)
{
	int64_t pad[2 * GG_MAX_RANK] = {0}, root = gg_get_int(n, "root");
	int r = dy->shape.rank + 1;
	pad[0] = root;
	pad[r] = size - 1 - root;
	return OP("Pad", OP("Unsqueeze", dy, gg_put_ints(t, 1, (int64_t[]){0})), gg_put_ints(t, 2 * r, pad));
}

/* The sum of all ranks' gradients, on the root: its part of a scatter in which nobody else gets any. */
GG_GRAD(grad)
{
	int64_t size = gg_group_size(n), root = gg_get_int(n, "root");
	if (root < 0 || root >= size)
		gg_grad_lacks(t, n, "its rank_size is not known");
	for (int i = 0; i < n->nout && !t->bad; i++) {
		gg_value *dy = gg_grad_out(n, i);
		if (dy && (dy->shape.rank < 0 || dy->shape.rank == GG_MAX_RANK))
			gg_grad_lacks(t, n, "the rank of an input is not known, or is the greatest there is");
		if (!dy || t->bad || !gg_grad_wanted(IN(i)))
			continue;
		gg_value *mine = gg_grad_node(t, n, "ReduceScatter", for_root(t, n, dy, size), 0, 0);
		gg_give(t, IN(i), OP("Squeeze", mine, gg_put_ints(t, 1, (int64_t[]){0})));
	}
}

const gg_op gg_op_Broadcast = {
    .name = "Broadcast",
    .domain = "gg",
    .doc = "the inputs of one rank of the group, root",
    .min_in = 1,
    .max_in = -1,
    .min_out = 1,
    .max_out = -1,
    .attrs = (const gg_attr_spec[]){GG_GROUP_ATTRS, {"root", GG_ATTR_INT, false, "0"}, {0}},
    .flags = GG_COLLECTIVE_FLAGS,
    .in = {{GG_ANY}},
    .out = {{GG_ANY}},
    .infer = infer_members,
    .eval = eval,
    .grad = grad};
