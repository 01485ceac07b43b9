#include "body.h"

static gg_graph *branch(const gg_node *n, const char *name)
{
	const gg_attr *a = gg_find_attr(n, name);
	return a ? a->graph : NULL;
}

/* Of an output that both branches give: what holds for either. */
static bool infer_both(gg_infer *f, int i, const gg_value *x, const gg_value *y)
{
	if (x->dtype && y->dtype && x->dtype != y->dtype)
		return gg_fail(f, "output %d is %s in one branch and %s in the other", i,
		               gg_dtype_name((gg_dtype)x->dtype), gg_dtype_name((gg_dtype)y->dtype));
	f->out[i].dtype = (gg_dtype)(x->dtype ? x->dtype : y->dtype);
	gg_shape both = body_common(f, i, &x->shape, &y->shape);
	f->out[i].shape = body_outside(f, i, &both);
	return true;
}

static bool infer(gg_infer *f)
{
	gg_graph *b[2] = {branch(f->n, "else_branch"), branch(f->n, "then_branch")};
	const gg_tensor *cond = gg_want(f, 0);
	int only = cond && gg_count(cond) == 1 ? *(const uint8_t *)cond->data != 0 : -1;
	for (int k = 0; k < 2; k++) {
		if (!body_arity(f, b[k], 0, f->nout))
			return false;
		/* A branch that is never taken may well be wrong for the shapes at hand. */
		if (!f->tensors && only != !k && !gg_infer_graph(f->d, b[k]))
			return false;
	}
	for (int i = 0; i < f->nout; i++) {
		const gg_value *x = b[0]->out[i]->value, *y = b[1]->out[i]->value;
		if (only == 0)
			y = x;
		if (only == 1)
			x = y;
		if (!infer_both(f, i, x, y))
			return false;
	}
	return true;
}

static bool eval(gg_eval *e)
{
	if (gg_count(&e->in[0]) != 1)
		return gg_fail(e, "the condition has %lld elements, expected 1",
		               (long long)gg_count(&e->in[0]));
	const gg_graph *b = branch(e->n, *(const uint8_t *)e->in[0].data ? "then_branch" : "else_branch");
	gg_tensor *out = gg_alloc_n(e->a, (size_t)e->nout + 1, sizeof *out);
	int which = 0;
	while (gg_body(e->n, which) != b)
		which++;
	if (!e->run_body(e, which, e->n->ncap, e->in + gg_nargs(e->n), e->nout, out))
		return false;
	for (int i = 0; i < e->nout; i++)
		if (!body_give(e, i, &out[i]))
			return false;
	return true;
}

const gg_op gg_op_If = {.name = "If",
                        .doc = "the outputs of one of two bodies",
                        .min_in = 1,
                        .max_in = 1,
                        .min_out = 1,
                        .max_out = -1,
                        .attrs = (const gg_attr_spec[]){{"then_branch", GG_ATTR_GRAPH, true},
                                                        {"else_branch", GG_ATTR_GRAPH, true},
                                                        {0}},
                        .flags = GG_NOFOLD,
                        .in = {{GG_DT(GG_BOOL)}},
                        .out = {{GG_ANY}},
                        .infer = infer,
                        .eval = eval};
