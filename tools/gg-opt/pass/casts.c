#include "match.h"

static bool is_int(gg_dtype t) { return strchr("IU", gg_dtype_class(t)) != 0; }
static bool is_float(gg_dtype t) { return gg_dtype_class(t) == 'F'; }

/* How many bits of a whole number a float dtype holds; 0: not one of the usual floats. */
static int whole_bits(gg_dtype t)
{
	return t == GG_F64 ? 53 : t == GG_F32 ? 24 : t == GG_F16 ? 11 : t == GG_BF16 ? 8 : 0;
}

/* Every value of `from` is one of `to`. */
static bool holds(gg_dtype to, gg_dtype from)
{
	int bits = gg_dtype_bits(from), sign = gg_dtype_class(from) == 'I';
	if (from == to || from == GG_BOOL)
		return from == to || is_int(to) || whole_bits(to);
	if (is_int(from) && is_int(to)) {
		if (sign && gg_dtype_class(to) == 'U')
			return false;
		return gg_dtype_bits(to) > bits;
	}
	if (is_int(from))
		return whole_bits(to) >= bits - sign;
	return whole_bits(from) && ((to == GG_F64) || (to == GG_F32 && from != GG_F64));
}

/* x -> a -> b gives what x -> b gives, for every x. */
static bool is_exact(gg_dtype x, gg_dtype a, gg_dtype b)
{
	if (is_int(x) && is_int(a) && is_int(b) && gg_dtype_bits(b) <= gg_dtype_bits(a))
		return true; /* the low bits, of the low bits */
	if (!holds(a, x))
		return false;
	/* numbers outside b are cut in one way from a float and in another from an integer */
	return !(is_int(x) && is_float(a) && is_int(b)) || holds(b, x);
}

static bool to_input(gg_pass_run *p, gg_node *n, gg_value *x)
{
	if (!gg_can_replace(n->out[0], x)) {
		gg_refused(p, n, "its result is a declared output, and its input has a name to keep");
		return false;
	}
	if (!gg_apply(p, n))
		return false;
	if (x->producer)
		gg_merge_loc(x->producer, n);
	gg_replace_value(n->out[0], x);
	gg_remove_node(n);
	return true;
}

/* True: n is there still, and reads what the inner Cast read, which may be one more. */
static bool skip_inner(gg_pass_run *p, gg_node *n, gg_node *inner)
{
	bool again = false;
	gg_value *x = gg_in(inner, 0);
	gg_dtype a = inner->out[0]->dtype, b = n->out[0]->dtype;
	if (!x->dtype || !a || !b)
		return false;
	if (!is_exact(x->dtype, a, b)) {
		gg_refused(p, n, "the first of the two casts loses what one cast would keep");
		return false;
	}
	if (x->dtype == b) {
		if (!to_input(p, n, x))
			return false;
	} else {
		if (!gg_apply(p, n))
			return false;
		gg_set_input(n, 0, x);
		gg_merge_loc(n, inner);
		again = true;
	}
	if (!inner->out[0]->nuses && !inner->nfollow)
		gg_remove_node(inner);
	return again;
}

static gg_node *inner_of(const gg_node *n)
{
	return strcmp(n->op->name, "Cast") ? NULL : made_by(gg_in(n, 0), "Cast");
}

/* Needs dtypes.
 * Breaks nothing. The inner Cast stays while others read it. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		for (gg_node *inner; (inner = inner_of(n)) && skip_inner(p, n, inner);)
			;
	}
	return true;
}

const gg_pass gg_pass_casts = {
    .name = "casts",
    .help = "a Cast of a Cast becomes one Cast, or none, where the result is the same to the bit",
    .explain =
        "Cast(Cast(x, a), b) => Cast(x, b), or x when b is its dtype, where a holds every value of x's\n"
        "dtype (f16 or bf16 in f32, i32 in f64, u8 in f16), or all three are integers and b is no wider "
        "than\n"
        "a. Refused where the first cast rounds or cuts: f32 -> f16 -> f32 stays, as does f64 -> f32 -> "
        "f16,\n"
        "which rounds twice.",
    .ops = "Cast",
    .pipeline = "inference:25",
    .exact = true,
    .run = run,
};
