#include "../pass.h"
#include <math.h>
#include <string.h>

enum { MAX_WEIGHT = 64 << 10 }; /* bytes of a parameter that is read: what is larger would be mapped */

/* Questions, one per op: is the node's output 0 its input 0, bit for bit? */
static bool always(const gg_node *n) { return true; }

static bool is_inference_dropout(const gg_node *n)
{
	gg_value *training = gg_in(n, 2);
	if (gg_out(n, 1) && gg_out(n, 1)->uses)
		return false;
	if (!training)
		return true;
	gg_diag silent = {.silent = true};
	gg_tensor t;
	return gg_is_const(training) && gg_value_tensor(&silent, training, &t) && gg_count(&t) == 1 &&
	       !gg_get_i64(&t, 0);
}

static bool keeps_type(const gg_node *n)
{
	return n->in[0].value->dtype && n->in[0].value->dtype == n->out[0]->dtype;
}

static bool keeps_shape(const gg_node *n)
{
	const gg_shape *a = &n->in[0].value->shape, *b = &n->out[0]->shape;
	return a->rank >= 0 && gg_shape_eq(a, b);
}

static bool keeps_order(const gg_node *n)
{
	const gg_attr *perm = gg_get_list(n, "perm");
	int rank = n->in[0].value->shape.rank;
	if (!perm)
		return rank == 0 || rank == 1;
	for (int i = 0; i < perm->n; i++)
		if (perm->ints[i] != i)
			return false;
	return true;
}

static bool has_one_input(const gg_node *n) { return gg_nargs(n) == 1; }

/* The whole of its input when no size is lost and every step is 1. */
static bool takes_all(const gg_node *n)
{
	gg_value *steps = gg_in(n, 4);
	gg_diag silent = {.silent = true};
	gg_tensor t;
	if (!keeps_shape(n))
		return false;
	if (!steps)
		return true;
	if (!gg_is_const(steps) || !gg_value_tensor(&silent, steps, &t))
		return false;
	for (int64_t i = 0; i < gg_count(&t); i++)
		if (gg_get_i64(&t, i) != 1)
			return false;
	return true;
}

/* Zeros everywhere: a crop and a pad could cancel in size and still shift. */
static bool pads_nothing(const gg_node *n)
{
	gg_value *pads = gg_in(n, 1);
	gg_diag silent = {.silent = true};
	gg_tensor t;
	if (!gg_is_const(pads) || !gg_value_tensor(&silent, pads, &t))
		return false;
	for (int64_t i = 0; i < gg_count(&t); i++)
		if (gg_get_i64(&t, i))
			return false;
	return true;
}

/* What changes nothing as the second number of the op: 1 of * and /, in every format; 0 of -; of + a 0 of
 * integers and the -0.0 of floats, as -0.0 + 0.0 is 0.0. */
static bool is_neutral(const gg_node *n, const gg_tensor *t)
{
	const char *op = n->op->name;
	double one = !strcmp(op, "Mul") || !strcmp(op, "Div");
	bool minus = !strcmp(op, "Add") && gg_dtype_class(t->dtype) == 'F';
	for (int64_t i = 0; i < gg_count(t); i++) {
		double x = gg_get_f64(t, i);
		if (x != one || (bool)signbit(x) != minus)
			return false;
	}
	return gg_count(t) > 0;
}

/* By a small constant. */
static bool does_nothing(const gg_node *n)
{
	gg_diag silent = {.silent = true};
	gg_value *v = n->in[1].value;
	gg_tensor t;
	return keeps_shape(n) && gg_is_const(v) && v->data->len <= 64 && gg_value_tensor(&silent, v, &t) &&
	       is_neutral(n, &t);
}

static const struct row {
	const char *op;
	bool (*is_identity)(const gg_node *n);
} rows[] = {
    {"Identity", always},       {"Dropout", is_inference_dropout},
    {"Cast", keeps_type},       {"CastLike", keeps_type},
    {"Reshape", keeps_shape},   {"Flatten", keeps_shape},
    {"Squeeze", keeps_shape},   {"Unsqueeze", keeps_shape},
    {"Expand", keeps_shape},    {"Tile", keeps_shape},
    {"Pad", pads_nothing},      {"Slice", takes_all},
    {"Transpose", keeps_order}, {"Concat", has_one_input},
    {"Sum", has_one_input},     {"Mean", has_one_input},
    {"Max", has_one_input},     {"Min", has_one_input},
    {"Mul", does_nothing},      {"Div", does_nothing},
    {"Add", does_nothing},      {"Sub", does_nothing},
    {"Load", always},           {"Depend", has_one_input},
};

static const struct row *row_of(const gg_node *n)
{
	enum { N = sizeof rows / sizeof *rows };
	static const gg_op *ops[N];
	int i = gg_op_row(n->op, ops, rows, N, sizeof *rows);
	return i >= 0 && n->in[0].value && n->out[0] ? &rows[i] : 0;
}

static bool is_identity(const gg_node *n)
{
	const struct row *r = row_of(n);
	return r && r->is_identity(n);
}

/* By a parameter that no run updates, with weights=1. */
static bool weight_does_nothing(gg_pass_run *p, const gg_node *n)
{
	const struct row *r = row_of(n);
	gg_value *v = gg_in(n, 1);
	int64_t bytes;
	gg_tensor t;
	return r && r->is_identity == does_nothing && v->kind == GG_PARAM && !v->updated && keeps_shape(n) &&
	       gg_size_of((gg_dtype)v->dtype, &v->shape, &bytes) && bytes <= MAX_WEIGHT &&
	       gg_value_tensor(p->d, v, &t) && is_neutral(n, &t);
}

static bool is_view(const gg_node *n)
{
	static const char *const ops[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze"};
	for (size_t i = 0; n && i < sizeof ops / sizeof *ops; i++)
		if (!strcmp(n->op->name, ops[i]))
			return true;
	return false;
}

/* Reshape of Reshape, and the like: the inner ones do not matter when the outer one copies no dim
 * of its input (its shape is all numbers, or it is Flatten-free -1 of a known count). */
static bool skips_inner_views(gg_pass_run *p, gg_node *n)
{
	gg_value *x = gg_in(n, 0);
	if (strcmp(n->op->name, "Reshape") || !gg_in(n, 1) || !gg_shape_known(&n->out[0]->shape))
		return false;
	while (x && is_view(x->producer) && gg_apply(p, n))
		x = x->producer->in[0].value;
	if (!x || x == gg_in(n, 0))
		return false;
	/* the target is written out: 0 would copy a dim of another input now */
	int rank = n->out[0]->shape.rank;
	gg_tensor t = {GG_I64, gg_shape_of(1, (gg_dim[]){rank}), n->out[0]->shape.dim};
	gg_set_input(n, 1, gg_add_tensor(n->graph, gg_printf(&p->scratch, "%s.shape", n->out[0]->name), &t));
	gg_set_attr_int(n, "allowzero", 1);
	gg_set_input(n, 0, x);
	return true;
}

static void remove_identity(gg_pass_run *p, gg_node *n)
{
	gg_value *x = n->in[0].value, *y = n->out[0];
	if (!gg_can_replace(y, x)) {
		gg_refused(p, n, "its result is a declared output, and its input has a name to keep");
		return;
	}
	if (!gg_apply(p, n))
		return;
	if (x->producer)
		gg_merge_loc(x->producer, n);
	gg_replace_value(y, x);
	gg_remove_node(n);
}

/* Needs shapes.
 * Breaks nothing. Bodies may then return what they were given. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	const char *weights = gg_pass_option(p, "weights");
	if (weights && strcmp(weights, "1"))
		return gg_error(p->d, GG_USAGE, "pass 'identity': option 'weights' takes 1, not '%s'",
		                weights);
	for (gg_node *n = g->first, *next; n; n = next) {
		next = n->next;
		if (is_identity(n) || (weights && weight_does_nothing(p, n)) ||
		    (skips_inner_views(p, n) && is_identity(n)))
			remove_identity(p, n);
	}
	return true;
}

const gg_pass gg_pass_identity = {
    .name = "identity",
    .help = "remove nodes whose result is their input, and views of views",
    .explain =
        "Identity, Dropout in inference mode, Cast to the same dtype, Reshape, Flatten, Squeeze, "
        "Unsqueeze, Expand,\n"
        "Tile, Pad and Slice that keep the shape, Transpose that keeps the order, Concat, Sum, Mean, "
        "Max and Min of\n"
        "one input, Load, Depend that waits for nothing, x * 1, x / 1, x - 0, and x + 0 of integers (of "
        "floats it turns\n"
        "-0.0 into 0.0, so it stays; x + -0.0 goes), where the number is a constant. With weights=1 it "
        "may be a parameter,\n"
        "which has the value that it has now for ever then: training does not find it.\n"
        "A Reshape of a Reshape, Flatten, Squeeze or Unsqueeze reads the inner one's input when its "
        "own shape is\n"
        "all numbers. Casts that round stay. A node between two declared names stays.",
    .pipeline = "common:20",
    .options = "weights=1: also what parameters of up to 64 KB say: x * 1",
    .exact = true,
    .run = run,
};
