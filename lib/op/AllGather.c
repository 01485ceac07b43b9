#include "collective.h"
#include "grad.h"

/* As many outputs as inputs: output i is input i of all ranks, one after another along axis 0. As many
 * as inputs times ranks: output r * nin + i is input i of rank r. */
static bool work(int n, gg_eval *const *m)
{
	int nin = m[0]->nin;
	bool parts = m[0]->nout != nin;
	if (parts && m[0]->nout != nin * n)
		return gg_fail(m[0], "it has %d outputs for %d inputs of %d ranks", m[0]->nout, nin, n);
	for (int to = 0; to < n; to++)
		for (int r = 0; r < n; r++)
			for (int i = 0; i < nin; i++) {
				int64_t count = gg_count(&m[r]->in[i]);
				copy_rows(&m[to]->out[parts ? r * nin + i : i], parts ? 0 : r * count,
				          &m[r]->in[i], 0, count);
			}
	return true;
}

static bool eval(gg_eval *e) { return gg_meet(e, work); }

static bool infer(gg_infer *f)
{
	gg_dim n = group_dim(f);
	bool parts = f->nout != f->nin;
	if (parts && (!gg_dim_known(n) || f->nout != f->nin * n))
		return gg_fail(f, "it has %d outputs for %d inputs, expected %d, or that times rank_size",
		               f->nout, f->nin, f->nin);
	for (int i = 0; i < f->nin; i++)
		if (!f->n->in[i].value)
			return gg_fail(f, "input %d is missing", i);
	for (int i = 0; i < f->nout; i++) {
		if (!has_rows(f, i % f->nin))
			return false;
		f->out[i].dtype = f->in[i % f->nin].dtype;
		f->out[i].shape = f->in[i % f->nin].shape;
		if (!parts && f->out[i].shape.rank > 0)
			f->out[i].shape.dim[0] = gg_dim_mul(f->out[i].shape.dim[0], n);
	}
	return true;
}

/* A rank's part of what all ranks ask of the whole. */
GG_GRAD(grad)
{
	if (n->nout != n->nin)
		gg_grad_lacks(t, n, "it has an output for each rank");
	for (int i = 0; i < n->nout && !t->bad; i++)
		gg_give(t, IN(i), gg_grad_node(t, n, "ReduceScatter", gg_grad_out(n, i), 0, 0));
}

const gg_op gg_op_AllGather = {.name = "AllGather",
                               .domain = "gg",
                               .doc = "the inputs of all ranks of a group, one after another along axis 0",
                               .min_in = 1,
                               .max_in = -1,
                               .min_out = 1,
                               .max_out = -1,
                               .attrs = (const gg_attr_spec[]){GG_GROUP_ATTRS,
                                                               {"fused", GG_ATTR_INT, false, "0"},
                                                               {"recompute", GG_ATTR_INT, false, "0"},
                                                               {"duplicated", GG_ATTR_INT, false, "0"},
                                                               {0}},
                               .flags = GG_COLLECTIVE_FLAGS,
                               .in = {{GG_ANY}},
                               .out = {{GG_ANY}},
                               .infer = infer,
                               .eval = eval,
                               .grad = grad};
