/* Matching: depth first, with a list of goals still to meet, so that a choice (the order of a
 * commutative op, which reader is the next root) can be taken back when a later goal fails. The
 * number of steps is bounded: no pattern takes exponential time. */
#include "rule_in.h"
#include <math.h>
#include <string.h>

enum { MAX_STEPS = 4096, MAX_OFFERS = 256 };

typedef struct goal {
	const pat *p;
	gg_value *v;
	const struct goal *next;
} goal;

static bool solve(matcher *k, const goal *g, int root);

bool rule_scalar(const gg_value *v, double *x)
{
	gg_diag silent = {.silent = true};
	gg_tensor t;
	if (!v || !v->data || gg_shape_count(&v->shape) != 1 || !gg_is_fixed(v) ||
	    strchr("CS", gg_dtype_class((gg_dtype)v->dtype)) || !gg_value_tensor(&silent, (gg_value *)v, &t))
		return false;
	*x = gg_get_f64(&t, 0);
	return true;
}

/* A number that the dtype holds exactly must be met exactly; others as written or computed within
 * two units in the last place. */
static bool is_number(gg_dtype t, double x, double want)
{
	double raw[2] = {0}, ulp = 0;
	gg_tensor one = {t, {.rank = 0}, raw};
	if (x == want)
		return true;
	if (gg_dtype_class(t) != 'F')
		return false;
	gg_set_f64(&one, 0, want);
	if (gg_get_f64(&one, 0) == want && t != GG_F64)
		return false;
	ulp = t == GG_F64 ? 0x1p-50 : t == GG_F32 ? 0x1p-22 : t == GG_F16 ? 0x1p-10 : 0x1p-7;
	return fabs(x - want) <= ulp * fabs(want);
}

/* A near miss may have one difference, when that is looked for. */
static bool may_differ(const matcher *k) { return k->lenient && !k->soft; }

static const gg_attr *attr_of(const gg_node *n, const char *name)
{
	const gg_attr *a = gg_find_attr(n, name);
	return a ? a : gg_op_default(n->op, name);
}

static bool differs(matcher *k, const gg_node *n, const gg_attr *a, const pat_attr *want)
{
	if (!may_differ(k))
		return false;
	if (a && a->type == GG_ATTR_INT && want->kind == ATTR_TEST)
		k->soft = rule_say("attribute '%s' of its %s is %lld, not %lld", want->name, n->op->name,
		                   (long long)a->i, (long long)want->value.i);
	else
		k->soft = rule_say("attribute '%s' of its %s differs", want->name, n->op->name);
	return true;
}

static bool other_number(matcher *k, double want)
{
	if (!may_differ(k))
		return false;
	k->soft = rule_say("a constant is not %.9g", want);
	return true;
}

static bool other_output(matcher *k, const gg_value *v, int want)
{
	if (!may_differ(k))
		return false;
	k->soft = rule_say("output %d of its %s is read, not %d", v->index, v->producer->op->name, want);
	return true;
}

static bool match_attrs(matcher *k, const pat *p, const gg_node *n)
{
	for (int i = 0; i < p->nattr; i++) {
		const pat_attr *want = &p->attr[i];
		const gg_attr *a = attr_of(n, want->name);
		if (want->kind == ATTR_TEST) {
			if ((!a || !gg_attr_eq(a, &want->value)) && !differs(k, n, a, want))
				return false;
			continue;
		}
		const gg_attr **at = &k->m.attr[want->slot];
		if (!a)
			return false;
		if (!*at) {
			*at = a;
			continue;
		}
		gg_attr same = **at; /* one variable may stand for attributes of two names */
		same.name = a->name;
		if (!gg_attr_eq(&same, a) && !differs(k, n, a, want))
			return false;
	}
	return true;
}

/* Goals for arguments in this order; the tail takes what is left over. */
static bool match_args(matcher *k, const pat *p, gg_node *n, const goal *next, bool swap, int root)
{
	goal g[RULE_ARGS];
	int count = 0, nargs = gg_nargs(n), fixed = p->narg;
	if (fixed && p->arg[fixed - 1]->kind == PAT_TAIL) {
		const pat *tail = p->arg[--fixed];
		rule_tail t = {n->in + (fixed < nargs ? fixed : nargs), nargs > fixed ? nargs - fixed : 0};
		rule_tail *at = &k->m.tail[tail->slot];
		bool same = at->n == t.n;
		for (int i = 0; k->m.bound[tail->slot] && same && i < t.n; i++)
			same = at->in[i].value == t.in[i].value;
		if (k->m.bound[tail->slot] && !same)
			return false;
		*at = t;
		k->m.bound[tail->slot] = true;
	} else {
		for (int i = fixed; i < nargs; i++)
			if (gg_in(n, i))
				return false;
	}
	for (int i = fixed; i-- > 0;) {
		int from = swap && i < 2 ? 1 - i : i;
		g[count] = (goal){p->arg[i], gg_in(n, from), count ? &g[count - 1] : next};
		count++;
	}
	return solve(k, count ? &g[count - 1] : next, root);
}

/* What matching the left side changes. */
static void copy_match(match *to, const match *from, const rule *r)
{
	memcpy(to->value, from->value, (size_t)r->nvar * sizeof *to->value);
	memcpy(to->tail, from->tail, (size_t)r->nvar * sizeof *to->tail);
	memcpy(to->bound, from->bound, (size_t)r->nvar * sizeof *to->bound);
	memcpy(to->node, from->node, (size_t)r->nleft * sizeof *to->node);
	memcpy(to->attr, from->attr, (size_t)r->nbound * sizeof *to->attr);
}

static bool match_node(matcher *k, const pat *p, gg_node *n, const goal *next, int root)
{
	if (k->m.node[p->slot]) /* named before: the same node */
		return k->m.node[p->slot] == n && solve(k, next, root);
	if (n->op != p->op || !match_attrs(k, p, n))
		return false;
	k->m.node[p->slot] = n;
	if (!(n->op->flags & GG_COMMUTES) || p->fixed || p->narg < 2 || gg_nargs(n) < 2)
		return match_args(k, p, n, next, false, root);
	match saved;
	const char *soft = k->soft;
	copy_match(&saved, &k->m, k->m.r);
	if (match_args(k, p, n, next, false, root))
		return true;
	copy_match(&k->m, &saved, k->m.r);
	k->soft = soft;
	return match_args(k, p, n, next, true, root);
}

static bool match_number(matcher *k, const pat *p, gg_value *v)
{
	double x;
	if (!rule_scalar(v, &x))
		return false;
	return is_number((gg_dtype)v->dtype, x, p->number) || other_number(k, p->number);
}

/* Nodes `up` readers above v that could be the next root. */
static bool climb(matcher *k, const gg_value *v, int up, int root)
{
	const pat *p = k->m.r->root[root].p;
	for (const gg_use *u = v->uses; u; u = u->next) {
		if (++k->steps > MAX_STEPS)
			return false;
		if (!u->node)
			continue;
		if (up > 1) {
			for (int i = 0; i < u->node->nout; i++)
				if (u->node->out[i] && climb(k, u->node->out[i], up - 1, root))
					return true;
			continue;
		}
		bool taken = u->node->op != p->op;
		for (int i = 0; i < root; i++)
			taken |= k->m.node[k->m.r->root[i].p->slot] == u->node;
		if (taken)
			continue;
		match saved;
		const char *soft = k->soft;
		copy_match(&saved, &k->m, k->m.r);
		if (match_node(k, p, u->node, 0, root))
			return true;
		copy_match(&k->m, &saved, k->m.r);
		k->soft = soft;
	}
	return false;
}

static bool next_root(matcher *k, int root)
{
	const rule *r = k->m.r;
	if (root == r->nroot) {
		if (k->accept(k))
			return true;
		k->steps += MAX_STEPS / MAX_OFFERS;
		return false;
	}
	const pat *from = r->root[root].from;
	const gg_value *v = from->kind == PAT_VAR        ? k->m.value[from->slot]
	                    : k->m.node[from->slot] != 0 ? gg_out(k->m.node[from->slot], from->out)
	                                                 : 0;
	return v && climb(k, v, r->root[root].up, root);
}

static bool match_var(matcher *k, const pat *p, gg_value *v)
{
	if (!v && !p->maybe)
		return false;
	if (k->m.bound[p->slot])
		return k->m.value[p->slot] == v;
	k->m.bound[p->slot] = true;
	k->m.value[p->slot] = v;
	return true;
}

static bool solve(matcher *k, const goal *g, int root)
{
	if (++k->steps > MAX_STEPS) {
		k->why = "it matches in too many ways";
		return false;
	}
	if (!g)
		return next_root(k, root + 1);
	const pat *p = g->p;
	gg_value *v = g->v;
	switch (p->kind) {
	case PAT_ANY:
		return v && solve(k, g->next, root);
	case PAT_NONE:
		return !v && solve(k, g->next, root);
	case PAT_VAR:
		return match_var(k, p, v) && solve(k, g->next, root);
	case PAT_NUMBER:
		return match_number(k, p, v) && solve(k, g->next, root);
	case PAT_NODE:
	case PAT_REF: {
		const pat *node = p->kind == PAT_NODE ? p : k->m.r->node[p->slot];
		if (!v || !v->producer || (v->index != p->out && v->producer->op != node->op))
			return false;
		if (v->index != p->out && !other_output(k, v, p->out))
			return false;
		return match_node(k, node, v->producer, g->next, root);
	}
	case PAT_TAIL:
	case PAT_LIST:
		break;
	}
	return false;
}

static bool may_be(const pat *p, const gg_value *v)
{
	return p->kind != PAT_NODE || (v && v->producer && v->producer->op == p->op);
}

bool rule_may_match(const rule *r, const gg_node *n)
{
	const pat *p = r->root[0].p;
	bool swaps = n->op->flags & GG_COMMUTES && !p->fixed && p->narg > 1 && gg_nargs(n) > 1;
	for (int i = 0; i < p->narg; i++)
		if (!may_be(p->arg[i], gg_in(n, i)) &&
		    !(swaps && i < 2 && may_be(p->arg[i], gg_in(n, 1 - i))))
			return false;
	return true;
}

bool rule_match(matcher *k, const rule *r, gg_node *n)
{
	static const match none;
	copy_match(&k->m, &none, r);
	memset(k->m.node + r->nleft, 0, (size_t)(r->nnode - r->nleft) * sizeof *k->m.node);
	k->m.r = r;
	k->why = k->soft = 0;
	k->steps = 0;
	return match_node(k, r->root[0].p, n, 0, 0);
}
