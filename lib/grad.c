#include "grad.h"
#include <fnmatch.h>

void gg_give(gg_builder *t, gg_value *v, gg_value *g)
{
	if (!gg_grad_wanted(v) || !g)
		return;
	v->mark = (uint64_t)(uintptr_t)(gg_grad_of(v) ? gg_put_op(t, "Add", gg_grad_of(v), g) : g);
}

void gg_give_like(gg_builder *t, gg_node *n, gg_value *v, gg_value *g)
{
	if (gg_grad_wanted(v))
		gg_give(t, v, gg_grad_like(t, n, g, v));
}

void gg_grad_lacks(gg_builder *t, const gg_node *n, const char *why)
{
	if (!t->bad)
		gg_node_error(t->d, GG_UNSUPPORTED, n, "no gradient: %s", why);
	t->bad = true;
}

gg_value *gg_grad_like(gg_builder *t, const gg_node *n, gg_value *g, gg_value *like)
{
	int64_t axis[GG_MAX_RANK];
	int count = 0, extra;
	if (!g || gg_shape_eq(&g->shape, &like->shape))
		return g;
	if (g->shape.rank < 0 || like->shape.rank < 0) {
		gg_grad_lacks(t, n, "the rank of an operand is not known");
		return 0;
	}
	extra = g->shape.rank - like->shape.rank;
	for (int i = 0; i < g->shape.rank; i++) {
		gg_dim d = i < extra ? 1 : like->shape.dim[i - extra];
		if (i < extra || (d == 1 && g->shape.dim[i] != 1))
			axis[count++] = i;
		else if (d != g->shape.dim[i])
			gg_grad_lacks(t, n, "it is not known whether an operand is broadcast");
	}
	if (count)
		g = gg_put_reduce(t, "ReduceSum", g, count, axis, true);
	return g ? gg_put_reshape(t, g, like) : 0;
}

/* ---- rules of many ops -------------------------------------------------------------------------- */
void gg_grad_zero(gg_builder *t, gg_node *n, gg_value *dy) {}

void gg_grad_sum(gg_builder *t, gg_node *n, gg_value *dy)
{
	for (int i = 0; i < gg_nargs(n); i++)
		gg_give_like(t, n, IN(i), dy);
}

void gg_grad_reshape(gg_builder *t, gg_node *n, gg_value *dy)
{
	gg_give(t, IN(0), gg_put_reshape(t, dy, IN(0)));
}

void gg_grad_swish(gg_builder *t, gg_node *n, gg_value *dy)
{
	gg_value *x = IN(0), *one = NUM(x, 1), *ax = OP("Mul", x, NUM(x, gg_get_float(n, "alpha")));
	gg_value *s = OP("Sigmoid", ax, 0);
	gg_value *slope = OP("Mul", s, OP("Add", one, OP("Mul", ax, OP("Sub", one, s))));
	gg_give(t, x, OP("Mul", dy, slope));
}

void gg_grad_equal(gg_builder *t, gg_node *n, gg_value *dy)
{
	int count = gg_nargs(n);
	gg_value **here = gg_alloc_n(&t->g->m->arena, (size_t)count, sizeof *here), *many = 0;
	for (int i = 0; i < count; i++) {
		here[i] = gg_put_cast(t, OP("Equal", IN(i), OUT), (gg_dtype)OUT->dtype);
		many = many ? OP("Add", many, here[i]) : here[i];
	}
	gg_value *each = OP("Div", dy, many);
	for (int i = 0; i < count; i++)
		if (gg_grad_wanted(IN(i)))
			gg_give_like(t, n, IN(i), OP("Mul", each, here[i]));
}

void gg_grad_reduced_equal(gg_builder *t, gg_node *n, gg_value *dy)
{
	gg_value *x = IN(0);
	gg_value *here = gg_put_cast(t, OP("Equal", x, gg_grad_kept(t, n, OUT)), (gg_dtype)x->dtype);
	gg_value *many = gg_grad_node(t, n, "ReduceSum", here, IN(1), 0);
	gg_give(t, x, OP("Mul", here, gg_grad_spread(t, n, OP("Div", dy, many))));
}

/* ---- pieces --------------------------------------------------------------------------------------- */
gg_value *gg_grad_masked(gg_builder *t, gg_value *test, gg_value *dy, bool yes)
{
	gg_value *zero = NUM(dy, 0);
	return test && zero ? gg_put_where(t, test, yes ? dy : zero, yes ? zero : dy) : 0;
}

bool gg_grad_axis(gg_builder *t, gg_node *n, const gg_value *v, int64_t *axis)
{
	int r = v->shape.rank;
	*axis = gg_get_int(n, "axis");
	*axis += *axis < 0 ? r : 0;
	if (r < 0)
		gg_grad_lacks(t, n, "the rank of its input is not known");
	return !t->bad;
}

gg_value *gg_grad_kept(gg_builder *t, gg_node *n, gg_value *v)
{
	gg_value *axes = IN(1);
	if (!v || gg_get_int(n, "keepdims") || v->shape.rank == 0 || v->shape.rank == IN(0)->shape.rank)
		return v;
	if (!axes || !gg_is_const(axes)) {
		gg_grad_lacks(t, n, "its axes are not constant");
		return 0;
	}
	return OP("Unsqueeze", v, axes);
}

gg_value *gg_grad_spread(gg_builder *t, gg_node *n, gg_value *dy)
{
	dy = gg_grad_kept(t, n, dy);
	return dy ? gg_put_expand(t, dy, IN(0)) : 0;
}

bool gg_grad_ints(gg_builder *t, gg_value *v, int64_t *out, int *count)
{
	gg_tensor x;
	if (!v || !gg_is_const(v) || !gg_value_tensor(t->d, v, &x) || gg_count(&x) > GG_MAX_RANK * 2)
		return false;
	*count = (int)gg_count(&x);
	for (int i = 0; i < *count; i++)
		out[i] = gg_get_i64(&x, i);
	return true;
}

/* With the axis in front. */
gg_value *gg_grad_rows(gg_builder *t, gg_value *x, gg_value *index, int64_t axis, gg_value *dy)
{
	static const int64_t last[] = {-1};
	int64_t front[GG_MAX_RANK], back[GG_MAX_RANK], move[GG_MAX_RANK];
	int r = x->shape.rank, q = index ? index->shape.rank : -1;
	if (t->bad)
		return 0;
	if (r < 0 || q < 0 || r + q - 1 > GG_MAX_RANK) {
		gg_error(t->d, GG_UNSUPPORTED, "no gradient of '%s': the rank of its indices is not known",
		         x->name);
		t->bad = true;
		return 0;
	}
	for (int i = 0, at = 1; i < r; i++) {
		front[i == axis ? 0 : at++] = i;
		back[i] = i < axis ? i + 1 : i == axis ? 0 : i;
	}
	for (int i = 0; i < r + q - 1; i++)
		move[i] = i < q ? axis + i : i < q + axis ? i - q : i;
	gg_value *like = gg_put_permute(t, x, r, front), *zero = like ? gg_put_expand(t, NUM(x, 0), like) : 0;
	gg_value *at = OP("Unsqueeze", gg_put_cast(t, index, GG_I64), gg_put_ints(t, 1, last));
	gg_value *in[] = {zero, at, gg_put_permute(t, dy, r + q - 1, move)};
	gg_value *y = gg_put(t, "ScatterND", 3, in, 0);
	if (y)
		gg_set_attr_string(y->producer, "reduction", "add");
	return gg_put_permute(t, gg_put_done(t, y), r, back);
}

gg_value *gg_grad_normal(gg_builder *t, gg_value *x, double eps, double more, int n, const int64_t *over,
                         gg_value **inverse)
{
	gg_value *d = OP("Sub", x, gg_put_reduce(t, "ReduceMean", x, n, over, true));
	gg_value *var = gg_put_reduce(t, "ReduceMean", OP("Mul", d, d), n, over, true);
	gg_value *root = OP("Sqrt", eps != 0 ? OP("Add", var, NUM(x, eps)) : var, 0);
	*inverse = OP("Reciprocal", more != 0 ? OP("Add", root, NUM(x, more)) : root, 0);
	return OP("Mul", d, *inverse);
}

gg_value *gg_grad_normalised(gg_builder *t, gg_value *g, gg_value *hat, gg_value *inverse, int n,
                             const int64_t *over)
{
	gg_value *mean = gg_put_reduce(t, "ReduceMean", g, n, over, true);
	gg_value *along = gg_put_reduce(t, "ReduceMean", OP("Mul", g, hat), n, over, true);
	return OP("Mul", OP("Sub", OP("Sub", g, mean), OP("Mul", hat, along)), inverse);
}

gg_value *gg_grad_channel_sum(gg_builder *t, gg_value *v)
{
	int64_t axis[GG_MAX_RANK];
	int count = 0;
	for (int i = 0; v && i < v->shape.rank; i++)
		if (i != 1)
			axis[count++] = i;
	return v ? gg_put_reduce(t, "ReduceSum", v, count, axis, false) : 0;
}

gg_value *gg_grad_channels(gg_builder *t, gg_value *v, const gg_value *x)
{
	int64_t dim[GG_MAX_RANK];
	for (int i = 0; i < x->shape.rank; i++)
		dim[i] = i == 1 ? -1 : 1;
	return v ? OP("Reshape", v, gg_put_ints(t, x->shape.rank, dim)) : 0;
}

static void take_attrs(gg_node *to, const gg_node *n)
{
	for (int i = 0; i < n->nattr; i++)
		if (gg_op_attr(to->op, n->attr[i].name))
			gg_set_attr(to, &n->attr[i]);
}

gg_value *gg_grad_node(gg_builder *t, gg_node *n, const char *op, gg_value *a, gg_value *b, gg_value *like)
{
	gg_value *in[] = {a, b, like ? gg_put_shape(t, like) : 0};
	gg_value *y = gg_put(t, op, like ? 3 : b ? 2 : 1, in, 0);
	if (y)
		take_attrs(y->producer, n);
	return gg_put_done(t, y);
}

void gg_grad_scatter(gg_builder *t, gg_node *n, gg_value *dy, const char *gather)
{
	const char *how = gg_get_string(n, "reduction");
	if (strcmp(how, "none") && strcmp(how, "add")) {
		gg_grad_lacks(t, n, "its reduction is neither none nor add");
		return;
	}
	if (gg_grad_wanted(IN(0)) && !strcmp(how, "none")) {
		gg_value *in[] = {dy, IN(1), gg_put_expand(t, NUM(dy, 0), IN(2))};
		gg_value *y = gg_put(t, n->op->name, 3, in, 0);
		if (y && gg_op_attr(n->op, "axis"))
			gg_set_attr_int(y->producer, "axis", gg_get_int(n, "axis"));
		gg_give(t, IN(0), gg_put_done(t, y));
	} else {
		gg_give(t, IN(0), dy);
	}
	if (gg_grad_wanted(IN(2)))
		gg_give(t, IN(2), gg_grad_node(t, n, gather, dy, IN(1), 0));
}

gg_node *gg_grad_three(gg_builder *t, gg_node *n, const char *op, int nin, gg_value *const *in)
{
	static const char *const base[] = {"gradient", "gradient.scale", "gradient.bias"};
	const char *name[3];
	if (t->bad)
		return 0;
	for (int i = 0; i < 3; i++)
		name[i] = i == 0 || gg_grad_wanted(IN(i)) ? gg_fresh_name(t->g, base[i]) : 0;
	gg_node *k = gg_add_node(t->g, t->at, gg_op_find(op), nin, in, name[2] ? 3 : name[1] ? 2 : 1, name);
	take_attrs(k, n);
	t->bad = !gg_infer_node(t->d, k);
	return t->bad ? 0 : k;
}

/* ---- reverse mode --------------------------------------------------------------------------------- */
/* Marks the nodes that `from` is made with, and gives the first one that is to be expanded. */
static gg_node *mark_behind(gg_graph *g, gg_node *from)
{
	gg_node *fused = 0;
	for (gg_node *n = g->first; n; n = n->next)
		n->mark = n == from;
	for (gg_node *n = from; n; n = n->prev) {
		if (!n->mark)
			continue;
		n->mark = 1 + (n->op->expand && !n->op->aliases && !n->op->grad);
		fused = n->mark == 2 ? n : fused;
		for (int i = 0; i < n->nin; i++)
			if (n->in[i].value && n->in[i].value->producer)
				n->in[i].value->producer->mark = 1;
	}
	return fused;
}

/* Holding on to y by a reader, as its maker may go. */
static gg_value *expand_behind(gg_graph *g, gg_value *y, gg_node *end)
{
	gg_diag silent = {.silent = true};
	gg_node *n = mark_behind(g, y->producer), *next;
	if (!n)
		return y;
	const char *name = gg_fresh_name(g, "y");
	gg_node *reader = gg_add_node(g, end, gg_op_find("Identity"), 1, &y, 1, &name);
	for (; n != reader; n = next) {
		next = n->next;
		if (n->mark == 2)
			n->op->expand(&silent, n);
	}
	y = gg_in(reader, 0);
	gg_remove_node(reader);
	return y;
}

gg_value *gg_grad_begin(gg_graph *g, gg_value *y, gg_node *end)
{
	y = expand_behind(g, y, end);
	gg_clear_marks(g);
	return y;
}

/* What is made from wanted values is wanted too, unless the op has no gradient. */
static void mark_made(gg_node *first, const char *stop)
{
	for (gg_node *n = first; n; n = n->next) {
		bool any = false;
		for (int i = 0; i < n->nin; i++)
			any |= gg_grad_wanted(n->in[i].value);
		for (int i = 0; any && i < n->nout && n->op->grad != gg_grad_zero; i++) {
			gg_value *v = n->out[i];
			if (v && gg_dtype_class((gg_dtype)v->dtype) == 'F' &&
			    !(stop && !fnmatch(stop, v->name, 0)))
				v->mark = GG_GRAD_WANTED;
		}
	}
}

/* The way from a node to where the walk began, for the message. */
static const char *path_from(gg_builder *t, const gg_node *n)
{
	gg_buf b = {0};
	const char *s;
	for (int steps = 0; n && steps < 12; steps++) {
		const gg_node *next = 0;
		gg_buf_printf(&b, "%s%s '%s'", b.len ? " -> " : "", n->op->name, gg_node_name(n));
		for (int i = 0; i < n->nout && !next; i++)
			for (const gg_use *u = n->out[i] ? n->out[i]->uses : 0; u && !next; u = u->next)
				if (u->node && u->node->nout && gg_grad_of(u->node->out[0]))
					next = u->node;
		n = next;
	}
	s = gg_printf(&t->g->m->arena, "%s", b.p ? b.p : "");
	gg_buf_fini(&b);
	return s;
}

/* All gradients that came to its outputs were taken by the rule. */
static bool all_taken(gg_builder *t, const gg_node *n)
{
	for (int i = 1; i < n->nout; i++)
		if (gg_grad_of(n->out[i]) && !(n->mark >> (i < 63 ? i : 63) & 1))
			return gg_node_error(t->d, GG_UNSUPPORTED, n,
			                     "no gradient through its output %d, on the way to the loss: %s",
			                     i, path_from(t, n));
	return true;
}

/* Runs the rules from `last` back to the node behind `from`. */
bool gg_grad_back(gg_builder *t, gg_node *from, gg_node *last)
{
	for (gg_node *n = last, *prev; n != from && !t->bad; n = prev) {
		bool reached = false, any = false;
		prev = n->prev;
		for (int i = 0; i < n->nout; i++)
			reached |= gg_grad_of(n->out[i]) != 0;
		for (int i = 0; i < n->nin; i++)
			any |= gg_grad_wanted(n->in[i].value);
		if (!reached || !any)
			continue;
		if (!n->op->grad)
			t->bad = !gg_node_error(t->d, GG_UNSUPPORTED, n,
			                        "no gradient for this op, on the way to the loss: %s",
			                        path_from(t, n));
		if (t->bad)
			return false;
		n->mark = 0;
		n->op->grad(t, n, gg_grad_out(n, 0));
		if (!t->bad && !all_taken(t, n))
			t->bad = true;
	}
	return !t->bad;
}

bool gg_grad_walk(gg_builder *t, gg_value *y, gg_value *dy, const char *stop)
{
	mark_made(t->g->first, stop);
	if (!dy || !gg_grad_wanted(y))
		return dy && !t->bad;
	y->mark = (uint64_t)(uintptr_t)dy;
	return gg_grad_back(t, 0, y->producer);
}

gg_node *gg_grad_parts(gg_builder *t) { return t->at ? t->at->prev : t->g->last; }

gg_node *gg_grad_made(gg_builder *t, gg_node *from)
{
	if (!t->bad)
		mark_made(from ? from->next : t->g->first, 0);
	return gg_grad_parts(t);
}
