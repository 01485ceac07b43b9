#include "body.h"
#include "bodygrad.h"

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

/* The gradients of what a branch captures, from those of the outputs: its further captures. */
static gg_builder back_branch(gg_builder *t, gg_node *n, const char *name)
{
	gg_builder b = back_copy(t, n, branch(n, name));
	gg_graph *g = b.g;
	for (int i = 0; i < n->ncap; i++)
		back_want(g->in[i], n->in[gg_nargs(n) + i].value);
	gg_node *last = gg_grad_made(&b, 0);
	for (int i = 0; i < n->nout; i++)
		if (gg_grad_out(n, i))
			back_seed(&b, g->out[i]->value);
	gg_grad_back(&b, 0, last);
	t->bad |= b.bad;
	return b;
}

/* The branch for sure, both times, where the condition is known: the other may well be wrong for the shapes.
 */
static void live_branches(gg_builder *t, gg_node *n, const char *name[2])
{
	gg_tensor c;
	bool known = gg_is_fixed(IN(0)) && gg_value_tensor(t->d, IN(0), &c) && gg_count(&c) == 1;
	if (known)
		name[0] = name[1] = name[*(const uint8_t *)c.data ? 0 : 1];
}

/* An If of both backward branches. One that has no gradient of what the other has one of gives zeros. */
GG_GRAD(grad)
{
	static const char *const attr[] = {"then_branch", "else_branch"};
	const char *live[] = {attr[0], attr[1]};
	live_branches(t, n, live);
	gg_builder b[] = {back_branch(t, n, live[0]), back_branch(t, n, live[1])};
	gg_arena *a = &t->g->m->arena;
	int args = gg_nargs(n), most = n->nin + n->nout, nin = n->nin, count = 0;
	gg_value **in = gg_alloc_n(a, (size_t)most, sizeof *in),
	         **to = gg_alloc_n(a, (size_t)most, sizeof *to);
	gg_value **out[] = {gg_alloc_n(a, (size_t)most, sizeof *to), gg_alloc_n(a, (size_t)most, sizeof *to)};
	for (int i = args; i < n->nin; i++) {
		gg_value *v[] = {b[0].g->in[i - args], b[1].g->in[i - args]};
		if (!gg_grad_of(v[0]) && !gg_grad_of(v[1]))
			continue;
		for (int k = 0; k < 2; k++)
			out[k][count] = back_given(&b[k], v[k]);
		to[count++] = n->in[i].value;
	}
	t->bad |= count && (!back_end(&b[0], n, count, out[0]) || !back_end(&b[1], n, count, out[1]));
	if (t->bad || !count)
		return;
	for (int i = 0; i < n->nin; i++)
		in[i] = n->in[i].value;
	for (int i = 0; i < n->nout; i++)
		if (gg_grad_out(n, i))
			in[nin++] = gg_grad_out(n, i);
	gg_node *k = gg_add_node(t->g, t->at, n->op, nin, in, 0, 0);
	k->ncap = nin - args;
	for (int i = 0; i < 2; i++)
		gg_set_attr_graph(k, attr[i], b[i].g);
	for (int i = 0; i < count; i++)
		gg_add_result(k, gg_fresh_name(t->g, "gradient"));
	back_drop_captures(k);
	t->bad = !gg_infer_node(t->d, k);
	for (int i = 0; i < count && !t->bad; i++)
		back_give(t, k, i, to[i]);
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
                        .eval = eval,
                        .grad = grad};
