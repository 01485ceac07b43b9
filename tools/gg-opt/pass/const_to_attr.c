#include "../pass.h"
#include <string.h>

/* The constant behind Depend and Load, which only say when. */
static gg_value *constant(const gg_node *n, int i)
{
	gg_value *v = gg_in(n, i);
	while (v && v->producer &&
	       (!strcmp(v->producer->op->name, "Depend") || !strcmp(v->producer->op->name, "Load")))
		v = v->producer->in[0].value;
	return gg_is_const(v) ? v : 0;
}

/* All elements are x, bit for bit: -0.0 is not 0. */
static bool all_are(gg_value *v, int64_t x)
{
	gg_diag silent = {.silent = true};
	gg_tensor t;
	if (v->dtype == GG_STRING || v->dtype == GG_C64 || !gg_shape_known(&v->shape) ||
	    gg_shape_count(&v->shape) > 64 || !gg_value_tensor(&silent, v, &t))
		return false;
	for (int64_t i = 0; i < gg_count(&t); i++) {
		double d = gg_get_f64(&t, i);
		if (d != (double)x || (d == 0 && __builtin_signbit(d)))
			return false;
	}
	return true;
}

static bool is_false(const gg_node *n, gg_value *v) { return all_are(v, 0); }
static bool is_one(const gg_node *n, gg_value *v) { return all_are(v, 1); }

/* The sizes that num_outputs gives: equal, the last ones less. */
static bool is_even(const gg_node *n, gg_value *v)
{
	gg_diag silent = {.silent = true};
	const gg_shape *s = &n->in[0].value->shape;
	gg_tensor t;
	if (s->rank < 0 || !gg_value_tensor(&silent, v, &t) || gg_count(&t) != n->nout)
		return false;
	int64_t axis = gg_get_int(n, "axis");
	axis += axis < 0 ? s->rank : 0;
	if (axis < 0 || axis >= s->rank)
		return false;
	gg_dim d = s->dim[axis];
	if (!gg_dim_known(d))
		return false;
	int64_t chunk = (d + n->nout - 1) / n->nout, left = d;
	for (int i = 0; i < n->nout; i++) {
		int64_t want = left < chunk ? left : chunk;
		if (gg_get_i64(&t, i) != want)
			return false;
		left -= want;
	}
	return true;
}

static void drop(gg_node *n, int i)
{
	gg_set_input(n, i, 0);
	while (n->nin && !n->in[n->nin - 1].value)
		gg_remove_input_slot(n, n->nin - 1);
}

static bool drop_split(gg_pass_run *p, gg_node *n)
{
	drop(n, 1);
	gg_set_attr_int(n, "num_outputs", n->nout);
	return gg_infer_node(p->d, n);
}

static bool drop_mode(gg_pass_run *p, gg_node *n)
{
	drop(n, 2);
	return true;
}

static bool drop_steps(gg_pass_run *p, gg_node *n)
{
	drop(n, 4);
	return true;
}

static bool like_to_cast(gg_pass_run *p, gg_node *n)
{
	const char *name = gg_fresh_name(n->graph, n->out[0]->name);
	gg_value *x = n->in[0].value, *y = n->out[0];
	gg_node *cast = gg_add_node(n->graph, n, gg_op_find("Cast"), 1, &x, 1, &name);
	gg_copy_attrs(cast, n);
	gg_set_attr_dtype(cast, "to", (gg_dtype)n->in[1].value->dtype);
	gg_merge_loc(cast, n);
	if (!gg_infer_node(p->d, cast))
		return false;
	gg_replace_value(y, cast->out[0]);
	gg_remove_node(n);
	return true;
}

static const struct {
	const char *op;
	int input;
	bool (*says)(const gg_node *n, gg_value *v); /* the constant says what the attribute or default can */
	bool (*act)(gg_pass_run *p, gg_node *n);
	const char *why; /* where it does not */
} rows[] = {
    {"Split", 1, is_even, drop_split, "the parts are not those that num_outputs gives"},
    {"Dropout", 2, is_false, drop_mode, "the mode is training"},
    {"Pad", 2, is_false, drop_mode, "the padding is not 0"},
    {"Slice", 4, is_one, drop_steps, "a step is not 1"},
};

static bool try_rows(gg_pass_run *p, gg_node *n)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		if (strcmp(rows[i].op, n->op->name) || !gg_in(n, rows[i].input))
			continue;
		gg_value *c = constant(n, rows[i].input);
		const char *why = !c ? "the input is not constant" : !rows[i].says(n, c) ? rows[i].why : 0;
		if (why)
			gg_refused(p, n, why);
		else if (gg_apply(p, n) && !rows[i].act(p, n))
			return false;
	}
	return true;
}

/* Needs shapes.
 * Breaks nothing. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		bool like = !strcmp(n->op->name, "CastLike") && n->in[1].value->dtype && n->out[0];
		if (like && !n->nfollow && gg_apply(p, n) && !like_to_cast(p, n))
			return false;
		if (!like && !try_rows(p, n))
			return false;
	}
	return true;
}

const gg_pass gg_pass_const_to_attr = {
    .name = "const_to_attr",
    .help = "constant inputs become attributes, or the default that they say",
    .explain = "Split(x, sizes) => Split(x){num_outputs}        sizes equal, the last ones less\n"
               "CastLike(x, t) => Cast(x){to}\n"
               "Dropout(x, r, false) => Dropout(x, r)\n"
               "Pad(x, p, 0) => Pad(x, p)\n"
               "Slice(x, b, e, a, 1) => Slice(x, b, e, a)\n"
               "Depend and Load around the constant are looked through. Refused where the input is not a "
               "constant,\nor says something else. -0.0 is not 0.",
    .ops = "Split CastLike Dropout Pad Slice",
    .pipeline = "common:40",
    .exact = true,
    .run = run,
};
