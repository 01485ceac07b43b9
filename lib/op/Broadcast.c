#include "collective.h"

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
    .eval = eval};
