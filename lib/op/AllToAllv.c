#include "collective.h"
#include "grad.h"

/* Which of a rank's parts goes to `me`. */
static int part_for(const gg_eval *e, int64_t me)
{
	const gg_attr *ids = gg_get_list(e->n, "send_rank_ids");
	for (int i = 0; i < ids->n; i++)
		if (ids->ints[i] == me)
			return i;
	return -1;
}

static bool work(int n, gg_eval *const *m)
{
	const gg_attr *from = gg_get_list(m[0]->n, "recv_rank_ids");
	for (int r = 0; r < n; r++)
		for (int i = 0; i < from->n; i++) {
			int64_t k = from->ints[i];
			int part = k >= 0 && k < n ? part_for(m[k], r) : -1;
			if (part < 0)
				return gg_fail(m[0], "rank %d of the group gets nothing from rank %lld", r,
				               (long long)k);
			if (!gg_shape_eq(&m[k]->in[part].shape, &m[r]->out[i].shape) && m[r]->out[i].dtype)
				return gg_fail(m[0], "rank %d expects %s from rank %lld, which sends %s", r,
				               gg_shape_str(m[0]->a, &m[r]->out[i].shape), (long long)k,
				               gg_shape_str(m[0]->a, &m[k]->in[part].shape));
			copy_rows(&m[r]->out[i], 0, &m[k]->in[part], 0, gg_count(&m[k]->in[part]));
		}
	return true;
}

static bool eval(gg_eval *e) { return gg_meet(e, work); }

static bool infer(gg_infer *f)
{
	const gg_attr *send = gg_get_list(f->n, "send_rank_ids"), *recv = gg_get_list(f->n, "recv_rank_ids");
	const gg_attr *rows = gg_find_attr(f->n, "recv_rows");
	if (send->n != f->nin || recv->n != f->nout || (rows && rows->n != f->nout))
		return gg_fail(f, "it has %d inputs and %d outputs, but %d and %d rank ids", f->nin, f->nout,
		               send->n, recv->n);
	if (!rows && f->nin != f->nout)
		return gg_fail(f, "without recv_rows outputs are like inputs: %d for %d", f->nout, f->nin);
	for (int i = 0; i < f->nin; i++)
		if (!f->n->in[i].value)
			return gg_fail(f, "input %d is missing", i);
	for (int i = 0; i < f->nout; i++) {
		if (rows && rows->ints[i] < 0)
			return gg_fail(f, "recv_rows has %lld", (long long)rows->ints[i]);
		f->out[i].shape = f->in[rows ? 0 : i].shape;
		if (rows && f->out[i].shape.rank > 0)
			f->out[i].shape.dim[0] = rows->ints[i];
	}
	return true;
}

/* Each id once: then everybody sends a part to everybody, and gets one from all. */
static bool each_once(const gg_attr *ids)
{
	for (int i = 0; i < ids->n; i++)
		for (int k = 0; k < ids->n; k++)
			if (ids->ints[i] < 0 || ids->ints[i] >= ids->n ||
			    (i != k && ids->ints[i] == ids->ints[k]))
				return false;
	return true;
}

/* The gradients of the outputs go back where those came from; zeros where there is none. */
GG_GRAD(grad)
{
	const gg_attr *send = gg_get_list(n, "send_rank_ids"), *from = gg_get_list(n, "recv_rank_ids");
	gg_arena *a = &t->g->m->arena;
	int64_t *rows = gg_alloc_n(a, (size_t)n->nin, sizeof *rows);
	gg_value **in = gg_alloc_n(a, (size_t)n->nout, sizeof *in);
	bool known = true;
	if (send->n != from->n || !each_once(send) || !each_once(from))
		gg_grad_lacks(t, n, "not every rank gets one part from every rank");
	for (int i = 0; i < n->nin; i++) {
		known &= IN(i)->shape.rank > 0 && gg_dim_known(IN(i)->shape.dim[0]);
		rows[i] = known ? IN(i)->shape.dim[0] : 0;
	}
	if (gg_find_attr(n, "recv_rows") && !known)
		gg_grad_lacks(t, n, "the rows of its parts are not known");
	for (int i = 0; i < n->nout && !t->bad; i++) {
		gg_value *dy = gg_grad_out(n, i);
		if (!dy && !n->out[i])
			gg_grad_lacks(t, n, "an output is not wanted, so that its shape is not known");
		in[i] = dy || t->bad ? dy : gg_put_expand(t, NUM(n->out[i], 0), n->out[i]);
	}
	if (t->bad)
		return;
	gg_node *k = gg_add_node(t->g, t->at, n->op, n->nout, in, 0, 0);
	gg_copy_attrs(k, n);
	gg_set_attr_ints(k, "send_rank_ids", from->n, from->ints);
	gg_set_attr_ints(k, "recv_rank_ids", send->n, send->ints);
	if (gg_find_attr(n, "recv_rows"))
		gg_set_attr_ints(k, "recv_rows", n->nin, rows);
	for (int i = 0; i < n->nin; i++)
		gg_add_result(k, gg_fresh_name(t->g, "gradient"));
	t->bad = !gg_infer_node(t->d, k);
	for (int i = 0; i < n->nin && !t->bad; i++)
		gg_give(t, IN(i), k->out[i]);
}

const gg_op gg_op_AllToAllv = {
    .name = "AllToAllv",
    .domain = "gg",
    .doc = "input i goes to rank send_rank_ids[i] of the group, output i comes from rank "
           "recv_rank_ids[i]",
    .min_in = 1,
    .max_in = -1,
    .min_out = 1,
    .max_out = -1,
    .attrs = (const gg_attr_spec[]){GG_GROUP_ATTRS,
                                    {"send_rank_ids", GG_ATTR_INTS, true},
                                    {"recv_rank_ids", GG_ATTR_INTS, true},
                                    {"recv_rows", GG_ATTR_INTS},
                                    {0}},
    .flags = GG_COLLECTIVE_FLAGS,
    .in = {{GG_ANY, 'T'}},
    .out = {{GG_ANY, 'T'}},
    .infer = infer,
    .eval = eval,
    .grad = grad};
