#include "match.h"
#include <stdint.h>

/* Ops whose results are among the numbers that go in: they fit where those fit. */
static bool makes_no_numbers(const gg_node *n)
{
	static const char *const ops[] = {"Concat",    "Expand",   "Flatten", "Gather", "GatherElements",
	                                  "GatherND",  "Identity", "Max",     "Min",    "Reshape",
	                                  "Slice",     "Split",    "Squeeze", "Tile",   "Transpose",
	                                  "Unsqueeze", "Where"};
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
		if (!strcmp(n->op->name, ops[i]))
			return true;
	return false;
}

static bool in_range(int64_t x) { return x >= INT32_MIN && x <= INT32_MAX; }

/* Every element surely is an int32. */
static bool fits(gg_value *v)
{
	gg_diag silent = {.silent = true};
	gg_tensor t;
	const gg_node *cast = made_by(v, "Cast");
	if (cast) {
		gg_dtype from = gg_in(cast, 0)->dtype;
		int bits = gg_dtype_bits(from);
		char class = gg_dtype_class(from);
		return class == 'B' || (class == 'I' && bits <= 32) || (class == 'U' && bits <= 16);
	}
	if (!gg_is_const(v) || !gg_shape_known(&v->shape) || gg_shape_count(&v->shape) > 1 << 20 ||
	    !gg_value_tensor(&silent, v, &t))
		return false;
	for (int64_t i = 0; i < gg_count(&t); i++)
		if (!in_range(gg_get_i64(&t, i)))
			return false;
	return true;
}

static char letter_in(const gg_node *n, int i)
{
	int last = (int)(sizeof n->op->in / sizeof *n->op->in) - 1;
	while (last > 0 && !n->op->in[last].set)
		last--;
	return n->op->in[i < last ? i : last].var;
}

static char letter_out(const gg_node *n, int i)
{
	int last = (int)(sizeof n->op->out / sizeof *n->op->out) - 1;
	while (last > 0 && !n->op->out[last].set)
		last--;
	return n->op->out[i < last ? i : last].var;
}

/* The slots that change together with input `slot`: itself, and all of its letter. */
static bool together(char a, char letter) { return letter && a == letter; }

static bool named(const gg_pass_run *p, const char *op)
{
	const char *list = gg_pass_option(p, "ops");
	size_t n = strlen(op);
	for (const char *s = list; s; s = (s = strchr(s, '+')) ? s + 1 : 0)
		if (!strncmp(s, op, n) && (s[n] == '+' || !s[n]))
			return true;
	return false;
}

/* The input slot for which a kernel of the target wants int32, or -1: a kernel takes the node as it
 * is, or none does. */
static int wanted_slot(const gg_pass_run *p, const gg_node *n)
{
	if (named(p, n->op->name))
		for (int i = 0; i < gg_nargs(n); i++)
			if (gg_in(n, i) && gg_in(n, i)->dtype == GG_I64 && letter_in(n, i) &&
			    n->op->in[i < 12 ? i : 11].set & GG_DT(GG_I32))
				return i;
	const gg_target *t = p->m->target ? gg_target_find(p->m->target) : 0;
	const gg_row *now = t ? gg_target_row(t, n) : 0;
	if (!t || (now && strcmp(now->kernel, "ref")))
		return -1;
	for (const gg_row *r = t->rows; r < t->rows + t->nrows; r++)
		if (!strcmp(r->op, n->op->name) && gg_in(n, r->slot) && gg_in(n, r->slot)->dtype == GG_I64 &&
		    r->dtypes & GG_DT(GG_I32) && !(r->dtypes & GG_DT(GG_I64)))
			return r->slot;
	return -1;
}

static const char *why_not(const gg_node *n, int slot)
{
	char letter = letter_in(n, slot);
	for (int i = 0; i < gg_nargs(n); i++)
		if (gg_in(n, i) && (i == slot || together(letter_in(n, i), letter)) && !fits(gg_in(n, i)))
			return "an input may hold numbers outside int32";
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && together(letter_out(n, i), letter) && !makes_no_numbers(n))
			return "its results may lie outside int32";
	return 0; /* a node with bodies has no slots that are typed alike, so none is wanted */
}

static gg_node *cast(gg_pass_run *p, gg_node *by, gg_node *before, gg_value *v, gg_dtype to)
{
	const char *name = gg_fresh_name(v->graph,
	                                 gg_printf(&p->scratch, "%s.%s", v->name, gg_dtype_name(to)));
	gg_node *n = gg_add_node(v->graph, before, gg_op_find("Cast"), 1, &v, 1, &name);
	gg_set_attr_dtype(n, "to", to);
	gg_merge_loc(n, by);
	return gg_infer_node(p->d, n) ? n : 0;
}

static bool reduce(gg_pass_run *p, gg_node *n, int slot)
{
	char letter = letter_in(n, slot);
	gg_note(p->d, "reduce precision of node '%s' (%s), input %d", gg_node_name(n), n->op->name, slot);
	for (int i = 0; i < gg_nargs(n); i++) {
		if (!gg_in(n, i) || (i != slot && !together(letter_in(n, i), letter)))
			continue;
		gg_node *c = cast(p, n, n, gg_in(n, i), GG_I32);
		if (!c)
			return false;
		gg_set_input(n, i, c->out[0]);
	}
	n->kernel = 0;
	for (int i = 0; i < n->nout; i++) {
		gg_value *y = n->out[i];
		if (!y || !together(letter_out(n, i), letter))
			continue;
		y->dtype = GG_I32;
		y->content = 0;
		gg_node *c = cast(p, n, n->next, y, GG_I64);
		if (!c)
			return false;
		gg_replace_value(y, c->out[0]);
		gg_set_input(c, 0, y);
	}
	return true;
}

static bool check_ops(gg_pass_run *p)
{
	const char *list = gg_pass_option(p, "ops");
	for (size_t n; list && *list; list += n + (list[n] == '+')) {
		n = strcspn(list, "+");
		const char *op = gg_intern_n(list, n), *near = gg_op_nearest(op);
		if (!gg_op_find(op))
			return gg_error(p->d, GG_USAGE, "no op is named '%s'%s%s%s", op,
			                near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	}
	return true;
}

/* Needs dtypes.
 * Breaks nothing: it fires where every number is known to fit. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	if (!check_ops(p))
		return false;
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		int slot = wanted_slot(p, n);
		const char *why = slot < 0 ? 0 : why_not(n, slot);
		if (why)
			gg_refused(p, n, why);
		else if (slot >= 0 && gg_apply(p, n) && !reduce(p, n, slot))
			return false;
	}
	return true;
}

const gg_pass gg_pass_reduce_precision = {
    .name = "reduce_precision",
    .help = "int64 becomes int32 around a node whose only kernels on the target want int32",
    .explain =
        "k(x: i64) => Cast(k(Cast(x, i32)), i64) where the target has a kernel for i32 and none for i64\n"
        "All slots that the op types alike change together, or none does. It fires only where every number\n"
        "is an int32: constants are looked at, a Cast from a narrower integer is known; what may not fit is\n"
        "left on the reference kernel, never cut. `ops` names ops to treat as if the target wanted it.",
    .pipeline = "hardware:190 run_op_hardware:10",
    .options = "ops=A+B: ops that are reduced whatever the target has (none)",
    .exact = true,
    .run = run,
};
