/* A pass of one's own, in C, outside the tree:
 *
 *     cc -shared -fPIC -o square.so square.c        (after make install; else -Ibuild/include)
 *     gg-opt --load=square.so --pass=square model.gg
 *
 * It turns Pow(x, 2) into Mul(x, x). Patterns are better written as rules (.rules instead of .run); a
 * function is for what a rule cannot say. */
#include <gg/pass.h>
#include <string.h>

static bool is_two(gg_pass_run *p, gg_value *v)
{
	gg_tensor t;
	return gg_is_const(v) && gg_shape_count(&v->shape) == 1 && gg_value_tensor(p->d, v, &t) &&
	       gg_get_f64(&t, 0) == 2;
}

/* Needs dtypes.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		if (strcmp(n->op->name, "Pow") || !is_two(p, gg_in(n, 1)))
			continue;
		gg_value *x = gg_in(n, 0), *y = n->out[0];
		if (x->dtype != y->dtype || !gg_shape_eq(&x->shape, &y->shape)) {
			gg_refused(p, n, "the exponent makes another shape");
			continue;
		}
		if (!gg_apply(p, n))
			return true;
		const char *name = y->name, *fresh = gg_fresh_name(g, name);
		gg_node *mul = gg_add_node(g, n, gg_op_find("Mul"), 2, (gg_value *[]){x, x}, 1, &fresh);
		gg_merge_loc(mul, n);
		if (!gg_infer_node(p->d, mul))
			return false;
		gg_replace_value(y, mul->out[0]);
		gg_remove_node(n);
		if (mul->out[0]->name != name)
			gg_rename(mul->out[0], name);
	}
	return true;
}

static const gg_pass square = {
    .name = "square",
    .help = "Pow(x, 2) becomes Mul(x, x)",
    .explain = "Pow(x, 2) => Mul(x, x)",
    .pipeline = "",
    .exact = false,
    .run = run,
};

const int gg_plugin_abi = GG_PASS_ABI;
const gg_pass *const gg_plugin_passes[] = {&square, 0};
