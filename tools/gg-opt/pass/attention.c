#include "match.h"
#include "perm.h"
#include <math.h>

typedef struct found {
	gg_node *node[8]; /* from the root inwards: what the fused node replaces */
	int n;
	gg_value *q, *k, *v, *mask;
	gg_node *turned; /* the Transpose that gives the columns of the keys */
	double scale;
} found;

static bool is_last(const gg_node *softmax)
{
	int64_t axis = gg_get_int(softmax, "axis");
	return axis == -1 || axis == softmax->out[0]->shape.rank - 1;
}

static bool number(const gg_value *v, double *out)
{
	gg_diag silent = {.silent = true};
	gg_tensor t;
	if (!v || !v->data || v->graph->nstate || !gg_shape_known(&v->shape) ||
	    gg_shape_count(&v->shape) != 1 || !gg_value_tensor(&silent, (gg_value *)v, &t))
		return false;
	*out = gg_get_f64(&t, 0);
	return true;
}

static gg_node *product_or_scaled(const gg_value *v)
{
	gg_node *n = made_by(v, "MatMul");
	n = n ? n : made_by(v, "Mul");
	return n ? n : made_by(v, "Div");
}

/* The mask that is added to the scores or chosen by Where; s goes on to what is masked. */
static void strip_mask(found *f, gg_value **s)
{
	double fill;
	gg_node *add = made_by(*s, "Add"), *where = made_by(*s, "Where");
	for (int i = 0; add && i < 2; i++)
		if (product_or_scaled(gg_in(add, i)) && same_type(gg_in(add, i), *s)) {
			f->mask = gg_in(add, 1 - i);
			f->node[f->n++] = add;
			*s = gg_in(add, i);
			return;
		}
	if (where && number(gg_in(where, 2), &fill) && fill == -HUGE_VAL && same_type(gg_in(where, 1), *s)) {
		f->mask = gg_in(where, 0);
		f->node[f->n++] = where;
		*s = gg_in(where, 1);
	}
}

static void strip_scale(found *f, gg_value **s)
{
	double c;
	gg_node *mul = made_by(*s, "Mul"), *div = made_by(*s, "Div");
	for (int i = 0; mul && i < 2; i++)
		if (number(gg_in(mul, 1 - i), &c) && made_by(gg_in(mul, i), "MatMul")) {
			f->scale = c;
			f->node[f->n++] = mul;
			*s = gg_in(mul, i);
			return;
		}
	if (div && number(gg_in(div, 1), &c) && c != 0) {
		f->scale = 1 / c;
		f->node[f->n++] = div;
		*s = gg_in(div, 0);
	}
}

/* Queries or keys that are scaled by themselves, as PyTorch exports them. */
static void strip_factor(found *f, gg_value **x)
{
	double c;
	gg_node *mul = made_by(*x, "Mul"), *div = made_by(*x, "Div"), *n = mul ? mul : div;
	for (int i = 0; n && i < (mul ? 2 : 1); i++)
		if (number(gg_in(n, 1 - i), &c) && c != 0 && same_type(gg_in(n, i), *x)) {
			f->scale *= mul ? c : 1 / c;
			f->node[f->n++] = n;
			*x = gg_in(n, i);
			return;
		}
}

/* MatMul(Softmax(mask(scale(MatMul(scale(q), scale(kT))))), v); false: nothing like it. */
static bool match(gg_node *root, found *f)
{
	gg_node *softmax = made_by(gg_in(root, 0), "Softmax");
	*f = (found){.node = {root, softmax}, .n = 2, .scale = 1, .v = gg_in(root, 1)};
	if (!softmax || !is_last(softmax))
		return false;
	gg_value *s = gg_in(softmax, 0);
	strip_mask(f, &s);
	strip_scale(f, &s);
	gg_node *product = made_by(s, "MatMul");
	if (!product)
		return false;
	f->node[f->n++] = product;
	f->q = gg_in(product, 0);
	f->k = gg_in(product, 1);
	strip_factor(f, &f->q);
	strip_factor(f, &f->k);
	f->turned = made_by(f->k, "Transpose");
	return true;
}

static const char *why_not(const gg_pass_run *p, const found *f)
{
	const gg_value *all[] = {f->q, f->k, f->v};
	for (int i = 1; i < f->n; i++)
		if (!gg_one_use(f->node[i]->out[0]))
			return gg_is_output(f->node[i]->out[0]) ? "a value inside is an output"
			                                        : "a value inside has a second reader";
	for (int i = 0; i < f->n; i++)
		if (f->node[i]->nafter || f->node[i]->nfollow)
			return "a node inside is ordered";
	if (!f->turned || perm_of(f->turned).n != 4)
		return "the keys are not transposed by a node of its own";
	for (int i = 0; i < 3; i++)
		if (all[i]->shape.rank != 4 || all[i]->shape.dim[0] != f->q->shape.dim[0] ||
		    all[i]->shape.dim[1] != f->q->shape.dim[1] || all[i]->dtype != f->q->dtype)
			return "queries, keys and values are not of one batch and number of heads";
	if (f->mask && f->mask->shape.rank > 0 && f->mask->shape.rank <= 4) {
		gg_dim last = f->mask->shape.dim[f->mask->shape.rank - 1];
		if (last != 1 && last != f->k->shape.dim[3])
			return "the mask may be shorter than the keys";
	}
	if (f->q->dtype == GG_F64 && (double)(float)f->scale != f->scale)
		return "the scale would be rounded to f32";
	const gg_target *t = p->m->target ? gg_target_find(p->m->target) : 0;
	return t && t->nrows ? "kernels are chosen already" : 0;
}

/* The keys as [batch, heads, positions, size]. */
static gg_value *keys(gg_pass_run *p, const found *f)
{
	static const perm swap = {4, {0, 1, 3, 2}};
	perm q = perm_of(f->turned), whole = perm_compose(&q, &swap);
	gg_value *x = f->turned->in[0].value;
	if (perm_is_identity(&whole))
		return x;
	const char *name = gg_fresh_name(x->graph, gg_printf(&p->scratch, "%s.keys", f->k->name));
	gg_node *t = gg_add_node(x->graph, f->node[0], gg_op_find("Transpose"), 1, &x, 1, &name);
	set_perm(t, &whole);
	gg_merge_loc(t, f->turned);
	return gg_infer_node(p->d, t) ? t->out[0] : 0;
}

static bool fuse(gg_pass_run *p, found *f)
{
	gg_node *root = f->node[0];
	gg_value *y = root->out[0], *k = keys(p, f);
	const char *name = gg_fresh_name(root->graph, y->name), *old = y->name;
	bool declared = gg_is_output(y);
	if (!k)
		return false;
	gg_node *n = gg_add_node(root->graph, root, gg_op_find("Attention"), f->mask ? 4 : 3,
	                         (gg_value *[]){f->q, k, f->v, f->mask}, 1, &name);
	gg_set_attr_float(n, "scale", (float)f->scale);
	for (int i = f->n - 1; i >= 0; i--)
		gg_merge_loc(n, f->node[i]);
	if (!gg_infer_node(p->d, n))
		return false;
	gg_replace_value(y, n->out[0]);
	for (int i = 0; i < f->n; i++)
		gg_remove_node(f->node[i]);
	if (!f->k->nuses && !f->turned->nfollow)
		gg_remove_node(f->turned);
	if (!declared)
		gg_rename(n->out[0], old);
	return true;
}

/* Needs shapes.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	found f;
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		if (strcmp(n->op->name, "MatMul") || !match(n, &f))
			continue;
		const char *why = why_not(p, &f);
		if (why)
			gg_refused(p, n, why);
		else if (!gg_apply(p, n))
			return true;
		else if (!fuse(p, &f))
			return false;
	}
	return true;
}

const gg_pass gg_pass_attention = {
    .name = "attention",
    .help = "the scaled and masked product of queries and keys, its Softmax and the product with the values "
            "become Attention",
    .explain =
        "MatMul(Softmax(MatMul(q, Transpose(k)) * c + mask), v) => Attention(q, k, v, mask) {scale=c}\n"
        "for tensors of rank 4; with Mul or Div by one constant number or none, of the scores, the queries "
        "and\n"
        "the keys each, with an added mask, a Where(mask, scores, -inf), or none. Refused when a value "
        "inside is read elsewhere, when the keys\n"
        "are not transposed, when heads are broadcast, or after selection for a target with kernels.\n"
        "A row that -inf masks everywhere gives 0, where the plain ops give NaN. gg-select writes\n"
        "Attention in plain ops again for a target that has no kernel for it.",
    .ops = "Softmax",
    .pipeline = "inference:50",
    .exact = false,
    .tames = true,
    .run = run,
};
