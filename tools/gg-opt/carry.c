#include "carry.h"
#include "../../lib/move.h"
#include <stdlib.h>

enum { SMALL = 1 << 18 }; /* elements of a constant that is transposed here and now */

typedef enum kind {
	NONE,
	AXIS,     /* attribute axis, on any input of the rank */
	REDUCE,   /* axes in input 1; may drop them */
	PAD,      /* pads in input 1, axes in input 3 */
	SLICE,    /* starts in input 1, axes in input 3 */
	MATMUL,   /* the last two axes stay, or change places: then the factors do too */
	TRAILING, /* attribute axis: from it on all stay */
	CHANNEL,  /* axes 0 and 1 stay */
	POINTWISE
} kind;

static kind kind_of(const gg_node *n)
{
	static const struct {
		const char *op;
		kind kind;
	} rows[] = {
	    {"Softmax", AXIS},
	    {"LogSoftmax", AXIS},
	    {"Hardmax", AXIS},
	    {"Concat", AXIS},
	    {"Split", AXIS},
	    {"ReduceL1", REDUCE},
	    {"ReduceL2", REDUCE},
	    {"ReduceLogSum", REDUCE},
	    {"ReduceLogSumExp", REDUCE},
	    {"ReduceMax", REDUCE},
	    {"ReduceMean", REDUCE},
	    {"ReduceMin", REDUCE},
	    {"ReduceProd", REDUCE},
	    {"ReduceSum", REDUCE},
	    {"ReduceSumSquare", REDUCE},
	    {"Pad", PAD},
	    {"Slice", SLICE},
	    {"MatMul", MATMUL},
	    {"Identity", POINTWISE},
	    {"LayerNormalization", TRAILING},
	    {"RMSNormalization", TRAILING},
	    {"InstanceNormalization", CHANNEL},
	    {"GroupNormalization", CHANNEL},
	};
	if (n->op->flags & GG_POINTWISE)
		return n->op->flags & (GG_RANDOM | GG_EFFECT) ? NONE : POINTWISE;
	enum { N = sizeof rows / sizeof *rows };
	static const gg_op *ops[N];
	int i = gg_op_row(n->op, ops, rows, N, sizeof *rows);
	return i >= 0 ? rows[i].kind : NONE;
}

/* Parameters of a graph that has states may change from step to step. */
static bool is_fixed(const gg_value *v)
{
	return v->kind == GG_CONST || (v->kind == GG_PARAM && v->graph->nstate == 0);
}

static bool is_small(const gg_value *v)
{
	int64_t n = v->data && gg_shape_known(&v->shape) ? gg_shape_count(&v->shape) : -1;
	return n >= 0 && n <= SMALL && v->dtype != GG_STRING && is_fixed(v);
}

static bool is_single(const gg_value *v)
{
	return gg_shape_known(&v->shape) && gg_shape_count(&v->shape) == 1;
}

/* A small integer constant as numbers; false: it is none. */
static bool numbers(const gg_value *v, int64_t *out, int *n)
{
	gg_diag silent = {.silent = true};
	gg_tensor t;
	if (!v || !v->data || v->dtype != GG_I64 || !is_small(v) ||
	    !gg_value_tensor(&silent, (gg_value *)v, &t) || gg_count(&t) > 2 * (int64_t)GG_MAX_RANK)
		return false;
	*n = (int)gg_count(&t);
	for (int i = 0; i < *n; i++)
		out[i] = gg_get_i64(&t, i);
	return true;
}

static int from_front(int64_t axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }

/* The axes that a reduction goes over, as bits. */
static bool reduced(const gg_node *n, int rank, uint32_t *bits)
{
	int64_t axes[2 * GG_MAX_RANK];
	int count = 0;
	*bits = 0;
	if (gg_in(n, 1) && !numbers(gg_in(n, 1), axes, &count))
		return false;
	for (int i = 0; i < count; i++)
		*bits |= 1u << from_front(axes[i], rank);
	if (!count && !gg_get_int(n, "noop_with_empty_axes"))
		*bits = (1u << rank) - 1;
	return true;
}

/* What is left after the reduced axes are dropped comes in the same order. */
static bool keeps_order(const perm *to, uint32_t dropped)
{
	int last = -1;
	for (int i = 0; i < to->n; i++) {
		if (dropped >> to->axis[i] & 1)
			continue;
		if (to->axis[i] < last)
			return false;
		last = to->axis[i];
	}
	return true;
}

/* Axes [from, n) stay where they are. */
static bool stays_from(const perm *to, int from)
{
	for (int i = from < 0 ? 0 : from; i < to->n; i++)
		if (to->axis[i] != i)
			return false;
	return true;
}

/* Every input is transposed too, or is a number, or a small constant that is made to fit. */
static bool operands(const gg_node *n, int rank, uint64_t *in)
{
	for (int i = 0; i < n->nin; i++) {
		const gg_value *v = n->in[i].value;
		if (!v || (is_single(v) && v->shape.rank <= rank && v->data))
			continue;
		if (v->shape.rank == rank && !is_small(v))
			*in |= (uint64_t)1 << i;
		else if ((v->shape.rank < 0 || v->shape.rank > rank || !is_small(v)) && v->shape.rank != 0)
			return false;
	}
	return true;
}

/* The last two axes change places: MatMul(a, b)^T = MatMul(b^T, a^T). */
static bool swaps(const perm *to)
{
	return to->n >= 2 && to->axis[to->n - 1] == to->n - 2 && to->axis[to->n - 2] == to->n - 1;
}

static bool matmul_carries(const gg_node *n, const perm *to, uint64_t *in)
{
	const gg_value *a = n->in[0].value, *b = n->in[1].value;
	*in = 1;
	if (a->shape.rank != to->n)
		return false;
	if (b->shape.rank == 2 && to->n > 2) /* rows of a, each on its own */
		return stays_from(to, to->n - 1) || (swaps(to) && is_small(b));
	*in = 3;
	return b->shape.rank == to->n && (stays_from(to, to->n - 2) || swaps(to));
}

bool gg_carries(const gg_node *n, const perm *to, uint64_t *in)
{
	int64_t list[2 * GG_MAX_RANK];
	int count, rank = to->n;
	uint32_t bits;
	const gg_value *x = gg_in(n, 0);
	kind k = kind_of(n);
	*in = 1;
	if (!k || n->ncap || n->nafter || n->nfollow || n->nin > 64 || !x || !gg_out(n, 0))
		return false;
	if (k == POINTWISE || (k == AXIS && !strcmp(n->op->name, "Concat"))) {
		*in = 0;
		return n->nout == 1 && n->out[0]->shape.rank == rank && operands(n, rank, in) && *in;
	}
	if (x->shape.rank != rank)
		return false;
	for (int i = 1; i < n->nout; i++)
		if (n->out[i] && n->out[i]->shape.rank != rank)
			return false;
	switch (k) {
	case AXIS:
		return true;
	case REDUCE:
		return reduced(n, rank, &bits) && (gg_get_int(n, "keepdims") || keeps_order(to, bits)) &&
		       (bits || gg_get_int(n, "keepdims"));
	case PAD:
		return numbers(gg_in(n, 1), list, &count) &&
		       (!gg_in(n, 3) || numbers(gg_in(n, 3), list, &count));
	case SLICE:
		return numbers(gg_in(n, 3), list, &count);
	case MATMUL:
		return matmul_carries(n, to, in);
	case TRAILING:
		return n->nout == 1 && stays_from(to, from_front(gg_get_int(n, "axis"), rank));
	default:
		return n->nout == 1 && rank > 2 && to->axis[0] == 0 && to->axis[1] == 1;
	}
}

/* ---- doing it ------------------------------------------------------------------------------- */

/* The constant with unit axes in front up to the rank, transposed. */
static gg_value *fitted(gg_pass_run *p, gg_value *v, const perm *to)
{
	gg_tensor t;
	int64_t xs[GG_MAX_RANK], from[GG_MAX_RANK], strides[GG_MAX_RANK];
	if (!gg_value_tensor(p->d, v, &t))
		return 0;
	gg_shape full = {.rank = to->n};
	for (int i = 0, extra = to->n - v->shape.rank; i < to->n; i++)
		full.dim[i] = i < extra ? 1 : v->shape.dim[i - extra];
	gg_tensor out = {t.dtype, {.rank = to->n}, gg_alloc(&p->scratch, gg_nbytes(&t))};
	gg_strides(&full, xs);
	for (int i = 0; i < to->n; i++) {
		out.shape.dim[i] = full.dim[to->axis[i]];
		from[i] = xs[to->axis[i]];
	}
	gg_strides(&out.shape, strides);
	gg_move(gg_dtype_size(t.dtype), to->n, out.shape.dim, t.data, from, out.data, strides);
	return gg_add_tensor(v->graph, gg_printf(&p->scratch, "%s.transposed", v->name), &out);
}

static bool fit_constants(gg_pass_run *p, gg_node *n, const perm *to)
{
	for (int i = 0; i < n->nin; i++) {
		gg_value *v = n->in[i].value;
		if (!v || !v->data || v->shape.rank == 0 || is_single(v) || !is_small(v))
			continue;
		gg_value *c = fitted(p, v, to);
		if (!c)
			return false;
		gg_set_input(n, i, c);
	}
	return true;
}

static void set_numbers(gg_pass_run *p, gg_node *n, int i, const char *what, int count, int64_t *v)
{
	gg_tensor t = {GG_I64, gg_shape_of(1, (gg_dim[]){count}), v};
	gg_value *c = gg_add_tensor(n->graph, gg_printf(&p->scratch, "%s.%s", n->out[0]->name, what), &t);
	gg_set_input(n, i, c);
}

/* axes in input i, mapped. */
static void map_axes(gg_pass_run *p, gg_node *n, int i, const perm *to)
{
	int64_t axes[2 * GG_MAX_RANK];
	int count;
	perm back = perm_inverse(to);
	if (!gg_in(n, i) || !numbers(gg_in(n, i), axes, &count))
		return;
	for (int k = 0; k < count; k++)
		axes[k] = back.axis[from_front(axes[k], to->n)];
	set_numbers(p, n, i, "axes", count, axes);
}

static void map_pads(gg_pass_run *p, gg_node *n, const perm *to)
{
	int64_t pads[2 * GG_MAX_RANK], mapped[2 * GG_MAX_RANK];
	int count;
	if (gg_in(n, 3)) {
		map_axes(p, n, 3, to);
		return;
	}
	numbers(gg_in(n, 1), pads, &count);
	for (int i = 0; i < to->n; i++) {
		mapped[i] = pads[to->axis[i]];
		mapped[to->n + i] = pads[to->n + to->axis[i]];
	}
	set_numbers(p, n, 1, "pads", 2 * to->n, mapped);
}

/* The factors change places, and a rank-2 one is transposed. */
static bool swap_factors(gg_pass_run *p, gg_node *n, const perm *to, uint64_t *in)
{
	static const perm flip = {2, {1, 0}};
	gg_value *a = n->in[0].value, *b = n->in[1].value;
	if (b->shape.rank == 2 && to->n > 2 && !(b = fitted(p, b, &flip)))
		return false;
	gg_set_input(n, 0, b);
	gg_set_input(n, 1, a);
	*in = *in == 1 ? 2 : *in;
	return true;
}

bool gg_carry(gg_pass_run *p, gg_node *n, const perm *to, uint64_t *in)
{
	perm back = perm_inverse(to);
	switch (kind_of(n)) {
	case POINTWISE:
		return fit_constants(p, n, to);
	case AXIS:
		gg_set_attr_int(n, "axis", back.axis[from_front(gg_get_int(n, "axis"), to->n)]);
		return strcmp(n->op->name, "Concat") || fit_constants(p, n, to);
	case MATMUL:
		return !swaps(to) || swap_factors(p, n, to, in);
	case REDUCE:
		map_axes(p, n, 1, to);
		return true;
	case SLICE:
		map_axes(p, n, 3, to);
		return true;
	case PAD:
		map_pads(p, n, to);
		return true;
	default:
		return true;
	}
}
