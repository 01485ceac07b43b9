/* The Adam fusions: from the subtraction that makes the new parameter back to the old state.
 *
 *   np = p - lr (nm / (root + eps)),  root = sqrt(nv) or sqrt(nv) / correction
 *   nm = beta1 m + (1-beta1) g,  nv = beta2 v + (1-beta2) g^2
 *
 * Operands of sums and products may stand in either order. */
#ifndef GG_PASS_ADAM_MATCH_H
#define GG_PASS_ADAM_MATCH_H

#include "match.h"

enum { ADAM_INNER = 16 };

typedef struct adam_match {
	gg_node *root; /* the subtraction */
	gg_value
	    *in[12]; /* as FusedAdam has them; 10: weight decay, 11: correction, NULL where there is none */
	gg_value *nm, *nv;
	gg_value *inner[ADAM_INNER];
	int ninner;
	bool factor; /* p is multiplied by in[10], not lowered by lr times it */
} adam_match;

enum { BETA1, SUB1, BETA2, SUB2, EPS, LR, PARAM, M, V, GRAD, DECAY, CORRECTION };

static inline gg_value *within(adam_match *k, gg_value *v)
{
	if (k->ninner < ADAM_INNER)
		k->inner[k->ninner++] = v;
	return v;
}

/* A product's coefficient and the other factor; false: it is none. The coefficient is the scalar; where
 * neither is one, which is refused later, that of the lower rank, or the one that no node makes. */
static inline bool scaled(const gg_value *v, gg_value **coefficient, gg_value **x)
{
	gg_node *n = made_by(v, "Mul");
	if (!n || (gg_in(n, 0)->shape.rank == 0 && gg_in(n, 1)->shape.rank == 0))
		return false;
	int by = gg_in(n, 1)->shape.rank - gg_in(n, 0)->shape.rank;
	int i = by ? by < 0 : gg_in(n, 0)->producer && !gg_in(n, 1)->producer;
	*coefficient = gg_in(n, i);
	*x = gg_in(n, 1 - i);
	return true;
}

/* Two products with coefficients, added. */
static inline bool match_mix(gg_value *sum, gg_value *s[2], gg_value *x[2])
{
	gg_node *n = sum_of_two(sum);
	return n && scaled(gg_in(n, 0), &s[0], &x[0]) && scaled(gg_in(n, 1), &s[1], &x[1]);
}

static inline gg_value *square_of(const gg_value *v)
{
	gg_node *n = made_by(v, "Square"), *mul = made_by(v, "Mul");
	if (n)
		return gg_in(n, 0);
	return mul && gg_in(mul, 0) == gg_in(mul, 1) ? gg_in(mul, 0) : 0;
}

static inline bool match_moments(adam_match *k)
{
	gg_value *s[2], *x[2];
	gg_node *sum = sum_of_two(k->nv);
	if (!match_mix(k->nv, s, x))
		return false;
	int i = square_of(x[0]) ? 0 : 1;
	if (!(k->in[GRAD] = square_of(x[i])))
		return false;
	k->in[SUB2] = s[i];
	k->in[BETA2] = s[1 - i];
	k->in[V] = x[1 - i];
	within(k, gg_in(sum, 0));
	within(k, gg_in(sum, 1));
	within(k, x[i]);
	if (!(sum = sum_of_two(k->nm)) || !match_mix(k->nm, s, x))
		return false;
	i = x[0] == k->in[GRAD] ? 0 : 1;
	if (x[i] != k->in[GRAD])
		return false;
	k->in[SUB1] = s[i];
	k->in[BETA1] = s[1 - i];
	k->in[M] = x[1 - i];
	within(k, gg_in(sum, 0));
	within(k, gg_in(sum, 1));
	return true;
}

/* sqrt(nv), or that divided by a correction */
static inline bool is_root(const gg_value *v)
{
	gg_node *fix = made_by(v, "Div");
	return made_by(fix ? gg_in(fix, 0) : v, "Sqrt") != 0;
}

/* u = nm / (root + eps) */
static inline bool match_direction(adam_match *k, gg_value *u)
{
	gg_node *div = made_by(u, "Div"), *add = div ? sum_of_two(gg_in(div, 1)) : 0;
	if (!add)
		return false;
	k->ninner = 0;
	int i = gg_in(add, 0)->shape.rank == 0 || (gg_in(add, 1)->shape.rank && is_root(gg_in(add, 1))) ? 0
	                                                                                                : 1;
	gg_value *root = gg_in(add, 1 - i);
	gg_node *fix = made_by(root, "Div"), *sqrt = made_by(fix ? gg_in(fix, 0) : root, "Sqrt");
	if (!sqrt)
		return false;
	k->in[EPS] = gg_in(add, i);
	k->in[CORRECTION] = fix ? gg_in(fix, 1) : 0;
	k->nm = gg_in(div, 0);
	k->nv = gg_in(sqrt, 0);
	within(k, u);
	within(k, gg_in(div, 1));
	within(k, root);
	if (fix)
		within(k, gg_in(fix, 0));
	return match_moments(k);
}

static inline const char *adam_refusal(const adam_match *k)
{
	const gg_value *p = k->in[PARAM];
	gg_dtype t = (gg_dtype)p->dtype;
	if (t != GG_F32 && t != GG_F64)
		return "looks like Adam, but the parameter is half precision: one op would round once where "
		       "the "
		       "graph rounds often";
	if (k->in[DECAY] && !is_scalar(k->in[DECAY], t))
		return "looks like Adam, but the weight decay is not a scalar";
	for (int i = 0; i <= CORRECTION; i++) {
		bool state = i == M || i == V || i == GRAD;
		if (state && !same_type(k->in[i], p))
			return "looks like Adam, but its state or gradient has not the parameter's shape and "
			       "dtype";
		if (!state && i != PARAM && k->in[i] && !is_scalar(k->in[i], t))
			return "looks like Adam, but a coefficient is not a scalar of the parameter's dtype";
	}
	for (int i = 0; i < k->ninner; i++)
		if (!inside(k->inner[i]) && k->inner[i] != k->nm && k->inner[i] != k->nv)
			return "looks like Adam, but a value inside has another reader";
	const gg_value *moment[] = {k->nm, k->nv};
	for (int i = 0; i < k->ninner; i++)
		if (k->inner[i]->producer &&
		    (k->inner[i]->producer->nafter || k->inner[i]->producer->nfollow))
			return "looks like Adam, but a node inside is ordered";
	for (int i = 0; i < 2; i++)
		for (const gg_use *u = moment[i]->uses; u; u = u->next)
			if (u->node && u->node->order < k->root->order && u->node->out[0] != k->inner[0] &&
			    u->node->out[0] != k->inner[2] && u->node->out[0] != k->inner[3])
				return "looks like Adam, but a new moment is read before the parameter is "
				       "made";
	return 0;
}

/* Removes what nobody reads any more, from v back. */
static inline void adam_sweep(gg_node *into, adam_match *k)
{
	bool more = true;
	while (more) {
		more = false;
		for (int i = 0; i < k->ninner; i++) {
			gg_value *v = k->inner[i];
			if (!v || v->uses || v->producer->nfollow)
				continue;
			gg_merge_loc(into, v->producer);
			gg_remove_node(v->producer);
			k->inner[i] = 0;
			more = true;
		}
	}
}

static inline bool adam_fuse(gg_pass_run *p, adam_match *k, const char *op)
{
	gg_value *in[12], *out[] = {k->root->out[0], k->nm, k->nv};
	const char *name[3], *final[3];
	bool decay = k->in[DECAY] != 0;
	int nin = 0;
	for (int i = 0; i < DECAY + (decay ? 1 : 0); i++)
		in[nin++] = k->in[i];
	if (k->in[CORRECTION])
		in[nin++] = k->in[CORRECTION];
	for (int i = 0; i < 3; i++) {
		final[i] = out[i]->name;
		name[i] = gg_fresh_name(k->root->graph, final[i]);
	}
	gg_node *n = gg_add_node(k->root->graph, k->root, gg_op_find(op), nin, in, 3, name);
	if (k->factor)
		gg_set_attr_string(n, "decay", "factor");
	gg_merge_loc(n, k->root);
	n->order = k->root->order;
	if (!gg_infer_node(p->d, n))
		return false;
	for (int i = 0; i < 3; i++)
		gg_replace_value(out[i], n->out[i]);
	gg_remove_node(k->root);
	within(k, k->nm);
	within(k, k->nv);
	adam_sweep(n, k);
	for (int i = 0; i < 3; i++)
		if (n->out[i]->name != final[i] && !gg_find_value(n->graph, final[i]))
			gg_rename(n->out[i], final[i]);
	return true;
}

typedef bool adam_matcher(adam_match *k);

static inline bool adam_run(gg_pass_run *p, gg_graph *g, adam_matcher *match, const char *op)
{
	if (g->owner)
		return true; /* state is updated in the main graph alone */
	gg_graph_number(g);
	for (gg_node *n = g->first, *next; n; n = next) {
		adam_match k = {.root = n};
		const char *why;
		next = n->next;
		if (strcmp(n->op->name, "Sub") || n->nafter || n->nfollow || !match(&k))
			continue;
		if ((why = adam_refusal(&k))) {
			gg_refused(p, n, why);
			continue;
		}
		if (!gg_apply(p, n))
			return true;
		if (!adam_fuse(p, &k, op))
			return false;
	}
	return true;
}

#define ADAM_FORMS \
	"m' = beta1 m + (1-beta1) g;  v' = beta2 v + (1-beta2) g^2;  u = m' / (sqrt(v') / correction + " \
	"eps)\n" \
	"g^2 is Mul(g, g) or Square(g), and the division by correction may be missing: Adam without bias " \
	"correction.\n" \
	"Operands of sums and products may stand in either order. Readers of m' and v' read the op's own " \
	"outputs.\n"
#define ADAM_GUARDS \
	"Refused: half precision, where the graph rounds after each step; coefficients that are not " \
	"scalars; " \
	"state or gradient of\n" \
	"another shape; a value inside that is read elsewhere or is an output; a node inside that is " \
	"ordered; a new moment that is " \
	"read " \
	"before " \
	"the parameter is\n" \
	"made."

#endif
