#include "../carry.h"
#include "../../../lib/cut.h"
#include <stdlib.h>

/* ---- what can be seen from one Transpose ----------------------------------------------------- */

static void drop_unread(gg_node *t)
{
	if (!t->out[0]->nuses && !t->nfollow)
		gg_remove_node(t);
}

/* Transpose(Transpose(x)) reads x. */
static void compose(gg_pass_run *p, gg_node *n)
{
	gg_node *inner = n->in[0].value->producer;
	if (!is_transpose(inner))
		return;
	perm a = perm_of(inner), b = perm_of(n), both = perm_compose(&a, &b);
	if (both.n < 0 || !gg_apply(p, n))
		return;
	set_perm(n, &both);
	gg_set_input(n, 0, inner->in[0].value);
	gg_merge_loc(n, inner);
	drop_unread(inner);
}

static gg_value *same_before(const gg_node *n, const perm *to)
{
	for (gg_use *u = n->in[0].value->uses; u; u = u->next) {
		if (u->node == n || !is_transpose(u->node) || u->node->graph != n->graph ||
		    u->node->order >= n->order)
			continue;
		perm q = perm_of(u->node);
		if (perm_eq(&q, to))
			return u->node->out[0];
	}
	return 0;
}

/* Composes, cancels and shares. */
static void simplify(gg_pass_run *p, gg_graph *g)
{
	gg_graph_number(g);
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		if (!is_transpose(n))
			continue;
		compose(p, n);
		perm to = perm_of(n);
		gg_value *x = perm_is_identity(&to) ? n->in[0].value : same_before(n, &to);
		if (!n->out[0]->nuses || !x)
			continue;
		if (!gg_can_replace(n->out[0], x)) {
			gg_refused(p, n, "its result is a declared output, and its input has a name to keep");
			continue;
		}
		if (!gg_apply(p, n))
			return;
		if (x->producer)
			gg_merge_loc(x->producer, n);
		gg_replace_value(n->out[0], x);
		gg_remove_node(n);
	}
	for (gg_node *n = g->last, *prev; n; n = prev) {
		prev = n->prev;
		if (is_transpose(n))
			drop_unread(n);
	}
}

/* Only axes of one element move: the bytes stay. */
static bool moves_units(const perm *to, const gg_shape *s)
{
	int last = -1;
	for (int i = 0; i < to->n; i++) {
		if (s->dim[to->axis[i]] == 1)
			continue;
		if (to->axis[i] < last)
			return false;
		last = to->axis[i];
	}
	return s->rank == to->n && gg_shape_known(s);
}

static bool to_reshape(gg_pass_run *p, gg_node *n)
{
	perm to = perm_of(n);
	gg_value *y = n->out[0];
	if (!moves_units(&to, &n->in[0].value->shape) || !gg_apply(p, n))
		return true;
	gg_tensor t = {GG_I64, gg_shape_of(1, (gg_dim[]){to.n}), y->shape.dim};
	gg_value *shape = gg_add_tensor(n->graph, gg_printf(&p->scratch, "%s.shape", y->name), &t);
	const char *name = gg_fresh_name(n->graph, y->name), *old = y->name;
	bool declared = gg_is_output(y);
	gg_node *r = gg_add_node(n->graph, n, gg_op_find("Reshape"), 2, (gg_value *[]){n->in[0].value, shape},
	                         1, &name);
	gg_set_attr_int(r, "allowzero", 1);
	gg_merge_loc(r, n);
	gg_replace_value(y, r->out[0]);
	gg_remove_node(n);
	if (!declared)
		gg_rename(r->out[0], old);
	return gg_infer_node(p->d, r);
}

/* Gemm transposes its matrices itself. */
static void into_gemm(gg_pass_run *p, gg_node *gemm)
{
	static const char *const attr[] = {"transA", "transB"};
	for (int i = 0; i < 2; i++) {
		gg_node *t = gemm->in[i].value->producer;
		if (!is_transpose(t) || !gg_one_use(t->out[0]) || !gg_apply(p, gemm))
			continue;
		gg_set_attr_int(gemm, attr[i], !gg_get_int(gemm, attr[i]));
		gg_set_input(gemm, i, t->in[0].value);
		gg_merge_loc(gemm, t);
		gg_remove_node(t);
	}
}

/* ---- what must be seen from the whole graph ----------------------------------------------------
 *
 * For one permutation `to`, each node that can be computed on transposed tensors says no (as it is) or
 * yes (transposed by `to`). A value costs a Transpose when it is made in one form and read in the
 * other; a Transpose in the graph costs nothing where what it reads is there in the form it makes. The
 * least cut gives the choices of least cost; they are made when they cost less than all no. */

typedef enum role { MAKES, GIVES_BACK, TAKES } role;

typedef struct plan {
	perm to, back;
	/* A Transpose that undoes itself both gives back and takes. Seen as what does it take? What a
	 * yes makes, when its input is by colour the moved one; or always; or never. */
	enum { BY_COLOUR, ALWAYS, NEVER, WAYS } way;
	gg_cut cut;
	int64_t base; /* what all no costs */
	bool useful;  /* a Transpose could go */
} plan;

static int choice(const gg_node *n) { return n ? (int)n->mark : 0; }

/* How a Transpose stands to the plan: it makes some order; it gives back to-transposed tensors in the
 * old order (its input is what a yes reads); or it takes old ones and makes what a yes would make. */
static role role_of(const plan *k, const gg_node *t)
{
	perm q = perm_of(t);
	bool takes = perm_eq(&q, &k->to), back = perm_eq(&q, &k->back);
	const gg_node *maker = t->in[0].value->producer;
	bool moved = k->way == BY_COLOUR ? t->in[0].value->mark : k->way == ALWAYS;
	if (takes && choice(maker) && (moved || !back))
		return TAKES;
	return back ? GIVES_BACK : MAKES;
}

/* A value's colour is 1 where, going by its first input, it is behind one Transpose and not two. */
static uint64_t colour(const plan *k, const gg_node *n, uint64_t in)
{
	perm q = is_transpose(n) ? perm_of(n) : (perm){.n = -1};
	if (q.n >= 0)
		return perm_eq(&q, &k->to) || perm_eq(&q, &k->back) ? !n->in[0].value->mark : 0;
	for (int i = 0; n->mark && i < n->nin; i++)
		if (in >> i & 1)
			return n->in[i].value->mark;
	return 0;
}

static void number_choices(plan *k, gg_graph *g)
{
	uint64_t in;
	gg_clear_marks(g);
	for (gg_node *n = g->first; n; n = n->next) {
		n->mark = gg_carries(n, &k->to, &in) ? (uint64_t)gg_cut_node(&k->cut) : 0;
		uint64_t c = colour(k, n, in);
		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				n->out[i]->mark = c;
	}
}

typedef struct readers {
	bool old, moved; /* surely read in the old order; by a Transpose that takes */
	int *choice;
	size_t n, cap;
} readers;

static void collect(const plan *k, const gg_value *v, readers *r)
{
	uint64_t in;
	*r = (readers){0};
	for (const gg_use *u = v->uses; u; u = u->next) {
		gg_node *n = u->node;
		if (n && choice(n) && gg_carries(n, &k->to, &in) && in >> (u - n->in) & 1)
			GG_PUSH(r->choice, r->n, r->cap, choice(n));
		else if (n && is_transpose(n) && n->graph == v->graph && role_of(k, n) == TAKES)
			r->moved = true;
		else if (!n || !is_transpose(n) || role_of(k, n) == GIVES_BACK)
			r->old = true;
	}
}

/* A node that is yes where something in the transposed order is wanted: it costs as the maker says. */
static void want_moved(plan *k, const readers *r, int maker)
{
	int h = gg_cut_node(&k->cut);
	gg_cut_arc(&k->cut, maker, h, 1);
	for (size_t i = 0; i < r->n; i++)
		gg_cut_arc(&k->cut, h, r->choice[i], GG_CUT_NEVER);
	if (r->moved && maker != GG_CUT_NO)
		gg_cut_arc(&k->cut, h, GG_CUT_YES, GG_CUT_NEVER);
}

static void want_old(plan *k, const readers *r, int maker)
{
	int l = gg_cut_node(&k->cut);
	gg_cut_arc(&k->cut, l, maker, 1);
	for (size_t i = 0; i < r->n; i++)
		gg_cut_arc(&k->cut, r->choice[i], l, GG_CUT_NEVER);
	if (r->old)
		gg_cut_arc(&k->cut, GG_CUT_NO, l, GG_CUT_NEVER);
}

static void weigh(plan *k, const gg_value *v)
{
	readers r;
	gg_node *n = v->producer;
	if (v->shape.rank != k->to.n)
		return;
	collect(k, v, &r);
	bool turned = is_transpose(n) && role_of(k, n) != TAKES;
	if (choice(n)) {
		want_moved(k, &r, choice(n));
		want_old(k, &r, choice(n));
		k->base += r.moved;
		k->useful |= r.moved;
	} else if (r.n) {
		if (!turned || role_of(k, n) == MAKES)
			want_moved(k, &r, GG_CUT_NO);
		if (turned && !r.old) {
			want_old(k, &r, GG_CUT_YES);
			k->base++;
			k->useful = true;
		}
	}
	free(r.choice);
}

static void weigh_all(plan *k, gg_graph *g)
{
	for (size_t i = 0; i < g->nin; i++)
		weigh(k, g->in[i]);
	for (const gg_value *v = g->consts; v; v = v->next_const)
		weigh(k, v);
	for (gg_node *n = g->first; n; n = n->next)
		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				weigh(k, n->out[i]);
}

/* ---- making the choices ------------------------------------------------------------------------ */

static gg_node *add_transpose(gg_pass_run *p, gg_graph *g, gg_node *before, gg_value *v, const perm *to)
{
	const char *name = gg_fresh_name(g, gg_printf(&p->scratch, "%s.transposed", v->name));
	gg_node *t = gg_add_node(g, before, gg_op_find("Transpose"), 1, &v, 1, &name);
	set_perm(t, to);
	if (v->producer)
		gg_merge_loc(t, v->producer);
	return gg_infer_node(p->d, t) ? t : 0;
}

/* v in the transposed order: what a Transpose read, or a new one, once for each value. */
static gg_value *moved(gg_pass_run *p, gg_value *v, const perm *to)
{
	if (v->mark)
		return (gg_value *)(uintptr_t)v->mark;
	gg_node *t = v->producer;
	gg_value *from = v, *out = 0;
	perm whole = *to;
	if (is_transpose(t)) {
		perm q = perm_of(t);
		from = t->in[0].value;
		whole = perm_compose(&q, to);
	}
	if (perm_is_identity(&whole))
		out = from;
	else if ((t = add_transpose(p, v->graph, v->producer ? v->producer->next : v->graph->first, from,
	                            &whole)))
		out = t->out[0];
	v->mark = (uintptr_t)out;
	return out;
}

static bool move_output(gg_pass_run *p, gg_node *n, gg_value *v, const plan *k)
{
	gg_shape old = v->shape;
	for (int i = 0; i < k->to.n; i++)
		v->shape.dim[i] = old.dim[k->to.axis[i]];
	v->content = 0;
	gg_node *t = add_transpose(p, n->graph, n->next, v, &k->back);
	if (!t)
		return false;
	t->mark = 0;
	const char *name = v->name;
	bool declared = gg_is_output(v);
	gg_replace_value(v, t->out[0]);
	gg_set_input(t, 0, v);
	if (!declared && n->graph->owner == 0) {
		gg_rename(v, gg_fresh_name(n->graph, gg_printf(&p->scratch, "%s.transposed", name)));
		gg_rename(t->out[0], name);
	}
	t->out[0]->mark = 0;
	return true;
}

static bool move_node(gg_pass_run *p, gg_node *n, const plan *k)
{
	uint64_t in;
	gg_carries(n, &k->to, &in);
	if (!gg_carry(p, n, &k->to, &in))
		return false;
	for (int i = 0; i < n->nin; i++) {
		gg_value *v = in >> i & 1 ? moved(p, n->in[i].value, &k->to) : 0;
		if (in >> i & 1 && !v)
			return false;
		if (v)
			gg_set_input(n, i, v);
	}
	bool drops = gg_find_attr(n, "keepdims") && !gg_get_int(n, "keepdims");
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && !drops && !move_output(p, n, n->out[i], k))
			return false;
	return true;
}

static bool make_choices(gg_pass_run *p, gg_graph *g, const plan *k)
{
	gg_clear_marks(g);
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		if (choice(n) && gg_cut_yes(&k->cut, choice(n)) && !move_node(p, n, k))
			return false;
	}
	return true;
}

/* *better: choices were made that leave fewer Transposes. */
static bool try_order(gg_pass_run *p, gg_graph *g, const perm *to, int way, bool *better)
{
	plan k = {.to = *to, .back = perm_inverse(to), .way = way};
	bool good = true;
	gg_cut_init(&k.cut);
	number_choices(&k, g);
	weigh_all(&k, g);
	if (k.useful && gg_cut_solve(&k.cut) < k.base && gg_apply(p, 0)) {
		*better = true;
		good = make_choices(p, g, &k);
		simplify(p, g);
	}
	gg_cut_fini(&k.cut);
	return good;
}

static size_t orders(gg_graph *g, perm **list)
{
	size_t n = 0, cap = 0;
	for (gg_node *t = g->first; t; t = t->next) {
		perm q = is_transpose(t) ? perm_of(t) : (perm){.n = -1};
		if (q.n < 0 || perm_is_identity(&q))
			continue;
		for (int both = 0; both < 2; both++, q = perm_inverse(&q)) {
			size_t i = 0;
			while (i < n && !perm_eq(&(*list)[i], &q))
				i++;
			if (i == n)
				GG_PUSH(*list, n, cap, q);
		}
	}
	return n;
}

/* Needs shapes.
 * Breaks nothing; the order in which reductions add may change. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	perm *list = 0;
	bool good = true, better = true;
	simplify(p, g);
	for (int round = 0; good && better && round < 8; round++) {
		better = false;
		free(list);
		list = 0;
		size_t n = orders(g, &list);
		for (size_t i = 0; good && i < WAYS * n; i++)
			good = try_order(p, g, &list[i / WAYS], (int)(i % WAYS), &better);
	}
	free(list);
	for (gg_node *n = g->first, *next; good && n; n = next) {
		next = n->next;
		if (is_transpose(n))
			good = to_reshape(p, n);
		else if (!strcmp(n->op->name, "Gemm"))
			into_gemm(p, n);
	}
	return good;
}

const gg_pass gg_pass_transposes = {
    .name = "transposes",
    .help = "compose, cancel and move Transposes so that the fewest remain in the whole graph",
    .explain =
        "Transpose(Transpose(x)) => one Transpose, or x; equal Transposes of one value => one.\n"
        "Element-wise ops, Concat, Split, Softmax, reductions, Pad, Slice, MatMul (its batch and row axes)\n"
        "and normalisations can be computed on transposed tensors with their axes mapped and small constant\n"
        "operands transposed. For each permutation in the graph the pass decides for all of them at once,\n"
        "by a least cut, which are; it changes the graph only if fewer Transposes remain.\n"
        "Then a Transpose that moves only axes of one element becomes a Reshape, and one before a Gemm its\n"
        "transA or transB. Large constants, states, and operands of another rank that are not constant stay.",
    .ops = "Transpose",
    .pipeline = "inference:20",
    .exact = false,
    .run = run,
};
