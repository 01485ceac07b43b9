/* The gradient of y with respect to some of the values it is made from, at values that may be others:
 *
 *   y, x1, v1, x2, v2, ...     output i: dy / dxi where each xk is vk; pairs without an output only say so
 *
 * It has no kernel: gg-parse, of a model, and gg-select put the nodes of reverse mode in its place. */
#include "grad.h"
#include "opkit.h"

static bool infer(gg_infer *f)
{
	if (f->nin % 2 == 0 || f->nout > f->nin / 2)
		return gg_fail(f, "%d inputs and %d outputs do not go together", f->nin, f->nout);
	for (int i = 1; i < f->nin; i += 2)
		if (f->in[i].dtype != f->in[i + 1].dtype)
			return gg_fail(f, "input %d is to stand for one of another dtype", i + 1);
	for (int i = 0; i < f->nout; i++) {
		f->out[i].dtype = f->in[2 * i + 2].dtype;
		f->out[i].shape = f->in[2 * i + 2].shape;
	}
	return true;
}

/* n again, before `at`, with inputs as `now` has them. */
static bool again(gg_builder *t, gg_node *n, gg_map *now)
{
	gg_value **in = gg_alloc_n(&t->g->m->arena, (size_t)n->nin + 1, sizeof *in);
	const char **name = gg_alloc_n(&t->g->m->arena, (size_t)n->nout + 1, sizeof *name);
	bool moved = false;
	for (int i = 0; i < n->nin; i++) {
		gg_value *v = n->in[i].value, *to = v ? gg_map_get(now, (uint64_t)(uintptr_t)v) : 0;
		in[i] = to ? to : v;
		moved |= to != 0;
	}
	for (int i = 0; i < n->nout; i++) {
		moved &= !n->out[i] || !gg_map_get(now, (uint64_t)(uintptr_t)n->out[i]);
		name[i] = n->out[i] ? gg_fresh_name(t->g, n->out[i]->name) : 0;
	}
	if (!moved)
		return true;
	gg_node *k = gg_add_node(t->g, t->at, n->op, n->nin, in, n->nout, name);
	k->ncap = n->ncap;
	gg_copy_attrs(k, n);
	gg_merge_loc(k, n);
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			gg_map_put(now, (uint64_t)(uintptr_t)n->out[i], k->out[i]);
	return gg_infer_node(t->d, k);
}

/* Where a value is to stand for another, y is made again from it. */
static bool substitute(gg_builder *t, gg_node *n)
{
	gg_map now = {0};
	bool good = true;
	for (int i = 1; i + 1 < n->nin; i += 2)
		if (gg_in(n, i) != gg_in(n, i + 1))
			gg_map_put(&now, (uint64_t)(uintptr_t)gg_in(n, i), gg_in(n, i + 1));
	for (gg_node *k = now.n ? t->g->first : n; good && k != n; k = k->next)
		good = again(t, k, &now);
	gg_value *y = now.n ? gg_map_get(&now, (uint64_t)(uintptr_t)gg_in(n, 0)) : 0;
	if (good && y)
		gg_set_input(n, 0, y);
	gg_map_fini(&now);
	return good;
}

static bool expand(gg_diag *d, gg_node *n)
{
	gg_builder b = {.d = d, .g = n->graph, .at = n, .name = "gradient"}, *t = &b;
	if (gg_dtype_class((gg_dtype)IN(0)->dtype) != 'F')
		return gg_node_error(d, GG_MALFORMED, n, "'%s' is %s, which has no gradient", IN(0)->name,
		                     gg_dtype_name((gg_dtype)IN(0)->dtype));
	if (!substitute(t, n))
		return false;
	gg_value *y = gg_grad_begin(b.g, IN(0), n);
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			IN(2 * i + 2)->mark = GG_GRAD_WANTED;
	gg_value *one = y->shape.rank == 0 ? NUM(y, 1) : gg_put_expand(t, NUM(y, 1), y);
	if (!gg_grad_walk(t, y, one, 0))
		return false;
	for (int i = 0; i < n->nout; i++) {
		gg_value *x = IN(2 * i + 2), *g = n->out[i] ? gg_grad_of(x) : 0;
		if (!n->out[i])
			continue;
		g = OP("Identity", g ? g : gg_put_expand(t, NUM(x, 0), x), 0);
		if (!g)
			return false;
		gg_replace_value(n->out[i], g);
	}
	gg_remove_node(n);
	return true;
}

const gg_op gg_op_Gradient = {.name = "Gradient",
                              .domain = "ai.onnx.preview.training",
                              .doc = "dy/dx for each x: y, then pairs of an x and the value it has",
                              .min_in = 3,
                              .max_in = -1,
                              .min_out = 1,
                              .max_out = -1,
                              .flags = GG_NOFOLD,
                              .in = {{GG_ANY}},
                              .out = {{GG_FLOATS}},
                              .infer = infer,
                              .expand = expand};
