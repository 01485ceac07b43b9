#include "../graph_kernel.h"
#include "../nest.h"
#include "body.h"

/* The body walked on tensors: values are numbered by their marks. */
typedef struct walk {
	const gg_graph *b;
	gg_diag *d;
	gg_arena *a;
	gg_tensor *val;
	bool *own; /* val's data is a malloc block of this walk */
	size_t n;
} walk;

static void number(walk *w, const gg_tensor *in)
{
	size_t n = w->n = gg_body_number(w->b);
	w->val = gg_alloc_n(w->a, n + 1, sizeof *w->val);
	w->own = gg_alloc_n(w->a, n + 1, sizeof *w->own);
	for (size_t i = 0; i < w->b->nin; i++)
		w->val[i] = in[i];
}

static bool load_consts(walk *w)
{
	for (gg_value *v = w->b->consts; v; v = v->next_const)
		if (!gg_value_tensor(w->d, v, &w->val[v->mark]))
			return false;
	return true;
}

static gg_tensor *operands(const walk *w, const gg_node *n)
{
	gg_tensor *in = gg_alloc_n(w->a, (size_t)n->nin + 1, sizeof *in);
	for (int i = 0; i < n->nin; i++)
		if (n->in[i].value)
			in[i] = w->val[n->in[i].value->mark];
	return in;
}

/* ---- shapes ----------------------------------------------------------------------------------- */

static bool shape_node(walk *w, const gg_node *n)
{
	gg_info *out = gg_alloc_n(w->a, (size_t)n->nout + 1, sizeof *out);
	gg_tensor *in = operands(w, n);
	for (int i = 0; i < n->nin; i++)
		if (in[i].dtype && !gg_shape_known(&in[i].shape))
			return true; /* what it makes stays unknown */
	if (!gg_infer_tensors(w->d, n, gg_nargs(n), in, n->nout, out, w->a))
		return false;
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			w->val[n->out[i]->mark] = (gg_tensor){out[i].dtype ? out[i].dtype : n->out[i]->dtype,
			                                      out[i].shape, 0};
	return true;
}

bool gg_gk_shapes(gg_diag *d, const gg_graph *b, const gg_tensor *in, gg_arena *a, gg_tensor **out)
{
	walk w = {.b = b, .d = d, .a = a};
	gg_tensor *own = gg_alloc_n(a, b->nin + 1, sizeof *own);
	for (size_t i = 0; i < b->nin; i++)
		own[i] = (gg_tensor){in[i].dtype, in[i].shape, 0};
	number(&w, own);
	for (size_t i = b->nin; i < w.n; i++)
		w.val[i].shape = gg_shape_unknown;
	bool good = load_consts(&w);
	for (const gg_node *n = b->first; n && good; n = n->next)
		good = shape_node(&w, n);
	*out = w.val;
	return good;
}

static bool infer_tensors(gg_infer *f, const gg_graph *b)
{
	gg_tensor *in = gg_alloc_n(f->a, (size_t)f->nin + 1, sizeof *in), *val;
	for (int i = 0; i < f->nin; i++)
		in[i] = (gg_tensor){f->in[i].dtype, f->in[i].shape, 0};
	if (!gg_gk_shapes(f->d, b, in, f->a, &val))
		return false;
	for (int i = 0; i < f->nout; i++) {
		const gg_value *v = b->out[i]->value;
		f->out[i].dtype = val[v->mark].dtype ? val[v->mark].dtype : (gg_dtype)v->dtype;
		f->out[i].shape = val[v->mark].shape;
	}
	return true;
}

static bool infer(gg_infer *f)
{
	gg_graph *b = gg_gk_body(f->n);
	if (!b)
		return gg_fail(f, "it has no body");
	if (!body_arity(f, b, f->nin, f->nout))
		return false;
	if (f->tensors)
		return infer_tensors(f, b);
	for (int i = 0; i < f->nin; i++)
		if (!body_set(f, b->in[i], f->in[i].dtype, &f->in[i].shape))
			return false;
	if (!gg_infer_graph(f->d, b))
		return false;
	for (int i = 0; i < f->nout; i++) {
		f->out[i].dtype = b->out[i]->value->dtype;
		f->out[i].shape = body_outside(f, i, &b->out[i]->value->shape);
		f->out[i].content = b->out[i]->value->content;
	}
	return true;
}

/* ---- the reference: the body, by whoever runs bodies, else node by node ------------------------- */

static bool run_node(walk *w, const gg_node *n)
{
	gg_tensor *out = gg_alloc_n(w->a, (size_t)n->nout + 1, sizeof *out);
	if (!gg_eval_node(w->d, n, gg_nargs(n), operands(w, n), n->nout, out))
		return false;
	for (int i = 0; i < n->nout; i++)
		if (n->out[i]) {
			w->val[n->out[i]->mark] = out[i];
			w->own[n->out[i]->mark] = true;
		} else {
			free(out[i].data);
		}
	return true;
}

static bool run_nodes(gg_eval *e, const gg_graph *b)
{
	walk w = {.b = b, .d = e->d, .a = e->a};
	number(&w, e->in);
	bool good = load_consts(&w);
	for (const gg_node *n = b->first; n && good; n = n->next)
		good = run_node(&w, n);
	for (int i = 0; i < e->nout && good; i++)
		good = body_give(e, i, &w.val[b->out[i]->value->mark]);
	for (size_t i = 0; i < w.n; i++)
		if (w.own[i])
			free(w.val[i].data);
	return good;
}

static bool eval(gg_eval *e)
{
	if (!e->run_body)
		return run_nodes(e, gg_gk_body(e->n));
	gg_tensor *out = gg_alloc_n(e->a, (size_t)e->nout + 1, sizeof *out);
	if (!e->run_body(e, 0, e->nin, e->in, e->nout, out))
		return false;
	for (int i = 0; i < e->nout; i++)
		if (!body_give(e, i, &out[i]))
			return false;
	return true;
}

const gg_op gg_op_GraphKernel = {
    .name = "GraphKernel",
    .domain = "gg",
    .doc = "one kernel made of the nodes of its body, which is closed and pure",
    .min_in = 0,
    .max_in = -1,
    .min_out = 1,
    .max_out = -1,
    .attrs = (const gg_attr_spec[]){{"body", GG_ATTR_GRAPH, true}, {"atomic", GG_ATTR_INT, false, "0"}, {0}},
    .in = {{GG_ANY}},
    .out = {{GG_ANY}},
    .infer = infer,
    .eval = eval,
    .expand = gg_gk_inline};
