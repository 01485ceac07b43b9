/* The gradient rules: one short function an op, and the table at the end. */
#include "pass/grad.h"
#include <math.h>

#define IN(i) gg_in(n, i)
#define OUT n->out[0]
#define OP(op, a, b) train_op(t, op, a, b)
#define RULE(name) static void name(train *t, gg_node *n, gg_value *dy)

/* ---- pointwise ------------------------------------------------------------------------------ */
RULE(add)
{
	for (int i = 0; i < gg_nargs(n); i++)
		if (grad_wanted(IN(i)))
			give(t, IN(i), like_input(t, n, dy, IN(i)));
}

RULE(sub)
{
	if (grad_wanted(IN(0)))
		give(t, IN(0), like_input(t, n, dy, IN(0)));
	if (grad_wanted(IN(1)))
		give(t, IN(1), like_input(t, n, OP("Neg", dy, 0), IN(1)));
}

RULE(mul)
{
	for (int i = 0; i < 2; i++)
		if (grad_wanted(IN(i)))
			give(t, IN(i), like_input(t, n, OP("Mul", dy, IN(1 - i)), IN(i)));
}

RULE(divide)
{
	gg_value *g = OP("Div", dy, IN(1));
	if (grad_wanted(IN(0)))
		give(t, IN(0), like_input(t, n, g, IN(0)));
	if (grad_wanted(IN(1)))
		give(t, IN(1), like_input(t, n, OP("Neg", OP("Mul", g, OUT), 0), IN(1)));
}

RULE(neg) { give(t, IN(0), OP("Neg", dy, 0)); }
RULE(same) { give(t, IN(0), dy); }
RULE(cast) { give(t, IN(0), train_cast(t, dy, (gg_dtype)IN(0)->dtype)); }
RULE(exponential) { give(t, IN(0), OP("Mul", dy, OUT)); }
RULE(logarithm) { give(t, IN(0), OP("Div", dy, IN(0))); }
RULE(absolute) { give(t, IN(0), OP("Mul", dy, OP("Sign", IN(0), 0))); }
RULE(root) { give(t, IN(0), OP("Div", OP("Mul", dy, grad_const(t, dy, 0.5)), OUT)); }
RULE(softplus) { give(t, IN(0), OP("Mul", dy, OP("Sigmoid", IN(0), 0))); }

RULE(hyperbolic)
{
	gg_value *slope = OP("Sub", grad_const(t, dy, 1), OP("Mul", OUT, OUT));
	give(t, IN(0), OP("Mul", dy, slope));
}

RULE(sigmoid)
{
	gg_value *slope = OP("Mul", OUT, OP("Sub", grad_const(t, dy, 1), OUT));
	give(t, IN(0), OP("Mul", dy, slope));
}

/* 0 at 0. */
RULE(relu) { give(t, IN(0), OP("ReluGrad", dy, OUT)); }

RULE(relu_grad) { give(t, IN(0), OP("ReluGrad", dy, IN(1))); }

RULE(leaky)
{
	gg_value *positive = OP("Greater", IN(0), grad_const(t, OUT, 0));
	gg_value *low = OP("Mul", dy, grad_const(t, dy, gg_get_float(n, "alpha")));
	give(t, IN(0), positive ? train_select(t, positive, dy, low) : 0);
}

RULE(sine) { give(t, IN(0), OP("Mul", dy, OP("Cos", IN(0), 0))); }
RULE(cosine) { give(t, IN(0), OP("Neg", OP("Mul", dy, OP("Sin", IN(0), 0)), 0)); }
RULE(reciprocal) { give(t, IN(0), OP("Neg", OP("Mul", dy, OP("Mul", OUT, OUT)), 0)); }
RULE(expand) { give(t, IN(0), like_input(t, n, dy, IN(0))); }

/* exp(-x^2) k */
static gg_value *bell(train *t, gg_value *x, double k)
{
	gg_value *e = OP("Exp", OP("Neg", OP("Mul", x, x), 0), 0);
	return OP("Mul", e, grad_const(t, x, k));
}

RULE(error_function) { give(t, IN(0), OP("Mul", dy, bell(t, IN(0), 2 / sqrt(acos(-1))))); }

/* x Phi(x): Phi(x) + x phi(x); the other form by the chain rule. */
RULE(gelu)
{
	gg_value *x = IN(0), *half = grad_const(t, x, 0.5), *one = grad_const(t, x, 1), *slope;
	if (!strcmp(gg_get_string(n, "approximate"), "tanh")) {
		gg_value *x2 = OP("Mul", x, x), *c = grad_const(t, x, sqrt(2 / acos(-1)));
		gg_value *in = OP("Mul", OP("Add", OP("Mul", x2, grad_const(t, x, 0.044715)), one),
		                  OP("Mul", x, c));
		gg_value *h = OP("Tanh", in, 0),
		         *inner = OP("Add", OP("Mul", x2, grad_const(t, x, 0.134145)), one);
		gg_value *bend = OP("Mul", OP("Sub", one, OP("Mul", h, h)), OP("Mul", inner, c));
		slope = OP("Mul", OP("Add", OP("Add", one, h), OP("Mul", x, bend)), half);
	} else {
		gg_value *scaled = OP("Mul", x, grad_const(t, x, sqrt(0.5)));
		gg_value *phi = OP("Mul", OP("Add", OP("Erf", scaled, 0), one), half);
		slope = OP("Add", phi, OP("Mul", x, bell(t, scaled, 1 / sqrt(2 * acos(-1)))));
	}
	give(t, x, OP("Mul", dy, slope));
}

RULE(power)
{
	gg_value *x = IN(0), *e = train_cast(t, IN(1), (gg_dtype)IN(0)->dtype);
	if (grad_wanted(x)) {
		gg_value *less = OP("Pow", x, OP("Sub", e, grad_const(t, x, 1)));
		give(t, x, like_input(t, n, OP("Mul", dy, OP("Mul", less, e)), x));
	}
	if (grad_wanted(IN(1)))
		give(t, IN(1), like_input(t, n, OP("Mul", dy, OP("Mul", OUT, OP("Log", x, 0))), IN(1)));
}

static gg_value *masked(train *t, gg_value *test, gg_value *dy, bool yes)
{
	gg_value *zero = grad_const(t, dy, 0);
	return test && zero ? train_select(t, test, yes ? dy : zero, yes ? zero : dy) : 0;
}

RULE(where)
{
	for (int i = 1; i < 3; i++)
		if (grad_wanted(IN(i)))
			give(t, IN(i), like_input(t, n, masked(t, IN(0), dy, i == 1), IN(i)));
}

/* 1 between the limits and on them. */
RULE(clip)
{
	gg_value *inside = OP("Equal", OUT, IN(0));
	if (grad_wanted(IN(1)) || grad_wanted(IN(2)))
		grad_lacks(t, n, "of its limits");
	else
		give(t, IN(0), masked(t, inside, dy, true));
}

/* a where 0 < a x + b < 1 */
static gg_value *ramp(train *t, gg_value *x, double a, double b)
{
	gg_value *v = OP("Add", OP("Mul", x, grad_const(t, x, a)), grad_const(t, x, b));
	gg_value *in = OP("And", OP("Greater", v, grad_const(t, x, 0)), OP("Less", v, grad_const(t, x, 1)));
	return in ? OP("Mul", train_cast(t, in, (gg_dtype)x->dtype), grad_const(t, x, a)) : 0;
}

RULE(hard_sigmoid)
{
	give(t, IN(0), OP("Mul", dy, ramp(t, IN(0), gg_get_float(n, "alpha"), gg_get_float(n, "beta"))));
}

/* x times HardSigmoid with 1/6 and 1/2 */
RULE(hard_swish)
{
	gg_value *x = IN(0), *h = x ? train_make(t, "HardSigmoid", 1, &x, 0) : 0;
	if (h)
		gg_set_attr_float(h->producer, "alpha", 1 / 6.f);
	h = train_done(t, h);
	give(t, x, OP("Mul", dy, OP("Add", h, OP("Mul", x, ramp(t, x, 1 / 6.0, 0.5)))));
}

RULE(swish)
{
	gg_value *x = IN(0), *a = grad_const(t, x, gg_get_float(n, "alpha")), *one = grad_const(t, x, 1);
	gg_value *ax = OP("Mul", x, a), *s = OP("Sigmoid", ax, 0);
	gg_value *slope = OP("Mul", s, OP("Add", one, OP("Mul", ax, OP("Sub", one, s))));
	give(t, x, OP("Mul", dy, slope));
}

/* Where the mask lets through, divided by what is kept. */
RULE(dropout)
{
	gg_tensor ratio, mode;
	gg_value *r = IN(1), *training = IN(2);
	bool on = training && gg_is_const(training) && gg_value_tensor(t->p->d, training, &mode) &&
	          gg_get_f64(&mode, 0) != 0;
	if (training && !gg_is_const(training)) {
		grad_lacks(t, n, "whether it trains is not constant");
		return;
	}
	if (!on) {
		give(t, IN(0), dy);
		return;
	}
	if ((r && (!gg_is_const(r) || !gg_value_tensor(t->p->d, r, &ratio))) || !gg_out(n, 1)) {
		grad_lacks(t, n, "its ratio is not constant, or it has no mask");
		return;
	}
	double keep = 1 - (r ? gg_get_f64(&ratio, 0) : 0.5);
	gg_value *through = train_cast(t, gg_out(n, 1), (gg_dtype)dy->dtype);
	give(t, IN(0), OP("Mul", OP("Mul", dy, through), grad_const(t, dy, keep > 0 ? 1 / keep : 0)));
}

/* ---- shapes ----------------------------------------------------------------------------------- */
RULE(reshape) { give(t, IN(0), as_shape(t, dy, IN(0))); }

RULE(turn)
{
	int64_t back[GG_MAX_RANK];
	const gg_attr *perm = gg_find_attr(n, "perm");
	int r = IN(0)->shape.rank;
	if (r < 0) {
		grad_lacks(t, n, "the rank of its input is not known");
		return;
	}
	for (int i = 0; i < r; i++)
		back[perm ? perm->ints[i] : r - 1 - i] = i;
	give(t, IN(0), transpose(t, dy, r, back));
}

/* Of a reduction: dy with the reduced axes as axes of size 1. */
static gg_value *with_axes(train *t, gg_node *n, gg_value *dy)
{
	gg_tensor axes;
	gg_value *a = IN(1);
	if (gg_get_int(n, "keepdims") || !dy || dy->shape.rank == 0)
		return dy;
	if (!a || !gg_is_const(a) || !gg_value_tensor(t->p->d, a, &axes)) {
		grad_lacks(t, n, "its axes are not constant");
		return 0;
	}
	return OP("Unsqueeze", dy, a);
}

static gg_value *spread(train *t, gg_node *n, gg_value *dy)
{
	dy = with_axes(t, n, dy);
	return dy ? OP("Expand", dy, shape_of(t, IN(0))) : 0;
}

RULE(reduce_sum) { give(t, IN(0), spread(t, n, dy)); }

RULE(reduce_mean)
{
	gg_value *each = OP("Div", count_of(t, OUT), count_of(t, IN(0)));
	give(t, IN(0), spread(t, n, OP("Mul", dy, each)));
}

RULE(global_mean)
{
	gg_value *each = OP("Div", count_of(t, OUT), count_of(t, IN(0)));
	give(t, IN(0), OP("Expand", OP("Mul", dy, each), shape_of(t, IN(0))));
}

static bool axis_of(train *t, gg_node *n, const gg_value *v, int64_t *axis)
{
	int r = v->shape.rank;
	*axis = gg_get_int(n, "axis");
	*axis += *axis < 0 ? r : 0;
	if (r < 0)
		grad_lacks(t, n, "the rank of its input is not known");
	return !t->bad;
}

RULE(concat)
{
	int64_t axis, from = 0;
	if (!axis_of(t, n, OUT, &axis))
		return;
	for (int i = 0; i < gg_nargs(n); i++) {
		gg_dim size = IN(i)->shape.dim[axis];
		int64_t to = from + size;
		if (!gg_dim_known(size)) {
			grad_lacks(t, n, "the size of an input is not known");
			return;
		}
		gg_value *in[] = {dy, grad_ints(t, 1, &from), grad_ints(t, 1, &to), grad_ints(t, 1, &axis)};
		if (grad_wanted(IN(i)))
			give(t, IN(i), train_done(t, train_make(t, "Slice", 4, in, 0)));
		from = to;
	}
}

/* What nobody read has the gradient 0. */
RULE(split)
{
	gg_value **part = gg_alloc_n(&t->p->scratch, (size_t)n->nout, sizeof *part);
	int64_t axis;
	if (!axis_of(t, n, IN(0), &axis))
		return;
	for (int i = 0; i < n->nout; i++) {
		gg_value *v = n->out[i];
		if (!v) {
			grad_lacks(t, n, "an output is absent");
			return;
		}
		part[i] = grad_of(v) ? grad_of(v) : OP("Mul", v, grad_const(t, v, 0));
	}
	gg_value *y = train_make(t, "Concat", n->nout, part, 0);
	if (y)
		gg_set_attr_int(y->producer, "axis", axis);
	give(t, IN(0), train_done(t, y));
}

/* Elements of a constant integer input; false: it is none. */
static bool const_ints(train *t, gg_value *v, int64_t *out, int *count)
{
	gg_tensor x;
	if (!v || !gg_is_const(v) || !gg_value_tensor(t->p->d, v, &x) || gg_count(&x) > GG_MAX_RANK * 2)
		return false;
	*count = (int)gg_count(&x);
	for (int i = 0; i < *count; i++)
		out[i] = gg_get_i64(&x, i);
	return true;
}

/* Zeros around dy. */
RULE(slice)
{
	int64_t from[2 * GG_MAX_RANK], axis[2 * GG_MAX_RANK], step[2 * GG_MAX_RANK],
	    pad[2 * GG_MAX_RANK] = {0};
	int count, naxis = 0, nstep = 0, r = IN(0)->shape.rank;
	bool good = r >= 0 && const_ints(t, IN(1), from, &count);
	good = good && (!IN(3) || const_ints(t, IN(3), axis, &naxis)) &&
	       (!IN(4) || const_ints(t, IN(4), step, &nstep));
	for (int i = 0; good && i < count; i++) {
		int64_t k = naxis ? axis[i] : i;
		k += k < 0 ? r : 0;
		gg_dim whole = IN(0)->shape.dim[k], part = OUT->shape.dim[k];
		good = gg_dim_known(whole) && gg_dim_known(part) && (!nstep || step[i] == 1);
		from[i] += from[i] < 0 ? whole : 0;
		pad[k] = from[i] < 0 ? 0 : from[i] > whole ? whole : from[i];
		pad[r + k] = whole - pad[k] - part;
	}
	if (good)
		give(t, IN(0), OP("Pad", dy, grad_ints(t, 2 * r, pad)));
	else
		grad_lacks(t, n, "it is not constant, of known sizes and with steps of 1");
}

RULE(pad)
{
	int64_t pads[2 * GG_MAX_RANK], to[GG_MAX_RANK], axis[GG_MAX_RANK];
	int count, r = IN(0)->shape.rank;
	bool good = r >= 0 && !IN(3) && !strcmp(gg_get_string(n, "mode"), "constant") &&
	            const_ints(t, IN(1), pads, &count) && count == 2 * r && !grad_wanted(IN(2));
	for (int i = 0; good && i < r; i++) {
		good = gg_dim_known(IN(0)->shape.dim[i]) && pads[i] >= 0 && pads[r + i] >= 0;
		to[i] = pads[i] + IN(0)->shape.dim[i];
		axis[i] = i;
	}
	if (!good) {
		grad_lacks(t, n, "it is not of constants, by a constant number, of known sizes");
		return;
	}
	gg_value *in[] = {dy, grad_ints(t, r, pads), grad_ints(t, r, to), grad_ints(t, r, axis)};
	give(t, IN(0), train_done(t, train_make(t, "Slice", 4, in, 0)));
}

/* Rows are added where they came from, with the axis in front. */
RULE(gather)
{
	static const int64_t last[] = {-1};
	int64_t axis, front[GG_MAX_RANK], back[GG_MAX_RANK], move[GG_MAX_RANK];
	gg_value *x = IN(0), *index = train_cast(t, IN(1), GG_I64);
	int r = x->shape.rank, q = IN(1)->shape.rank;
	if (!axis_of(t, n, x, &axis))
		return;
	if (q < 0 || r + q - 1 > GG_MAX_RANK) {
		grad_lacks(t, n, "the rank of its indices is not known");
		return;
	}
	for (int i = 0, at = 1; i < r; i++) {
		front[i == axis ? 0 : at++] = i;
		back[i] = i < axis ? i + 1 : i == axis ? 0 : i;
	}
	for (int i = 0; i < r + q - 1; i++)
		move[i] = i < q ? axis + i : i < q + axis ? i - q : i;
	gg_value *like = transpose(t, x, r, front);
	gg_value *zero = like ? OP("Expand", grad_const(t, x, 0), shape_of(t, like)) : 0;
	gg_value *in[] = {zero, OP("Unsqueeze", index, grad_ints(t, 1, last)),
	                  transpose(t, dy, r + q - 1, move)};
	gg_value *y = train_make(t, "ScatterND", 3, in, 0);
	if (y)
		gg_set_attr_string(y->producer, "reduction", "add");
	give(t, x, transpose(t, train_done(t, y), r, back));
}

/* ---- products --------------------------------------------------------------------------------- */
RULE(matmul)
{
	gg_value *a = IN(0), *b = IN(1);
	if (a->shape.rank < 2 || b->shape.rank < 2) {
		grad_lacks(t, n, "an operand is a vector, or of unknown rank");
		return;
	}
	if (grad_wanted(a))
		give(t, a, like_input(t, n, OP("MatMul", dy, swap_axes(t, b, false)), a));
	if (grad_wanted(b))
		give(t, b, like_input(t, n, OP("MatMul", swap_axes(t, a, false), dy), b));
}

static gg_value *times_attr(train *t, gg_node *n, const char *name, gg_value *g)
{
	float x = gg_get_float(n, name);
	return x == 1 || !g ? g : OP("Mul", g, grad_const(t, g, x));
}

RULE(gemm)
{
	gg_value *a = IN(0), *b = IN(1), *c = IN(2), *g = times_attr(t, n, "alpha", dy);
	bool ta = gg_get_int(n, "transA"), tb = gg_get_int(n, "transB");
	if (grad_wanted(a)) {
		gg_value *d = OP("MatMul", g, tb ? b : swap_axes(t, b, false));
		give(t, a, ta ? swap_axes(t, d, false) : d);
	}
	if (grad_wanted(b)) {
		gg_value *d = tb ? OP("MatMul", swap_axes(t, g, false), ta ? swap_axes(t, a, false) : a)
		                 : OP("MatMul", ta ? a : swap_axes(t, a, false), g);
		give(t, b, d);
	}
	if (grad_wanted(c))
		give(t, c, like_input(t, n, times_attr(t, n, "beta", dy), c));
}

/* ---- convolutions ------------------------------------------------------------------------------- */
/* A primitive of two tensors and the shape of its result, with the attributes of n. */
static gg_value *like_node(train *t, gg_node *n, const char *op, gg_value *a, gg_value *b, gg_value *like)
{
	gg_value *in[] = {a, b, known_shape(t, like)};
	gg_value *y = train_make(t, op, 3, in, 0);
	if (y)
		gg_copy_attrs(y->producer, n);
	return train_done(t, y);
}

/* The sum over all axes but channels. */
static gg_value *channel_sum(train *t, gg_value *v)
{
	int64_t axis[GG_MAX_RANK];
	int count = 0;
	for (int i = 0; v && i < v->shape.rank; i++)
		if (i != 1)
			axis[count++] = i;
	return v ? reduce(t, "ReduceSum", v, count, axis, false) : 0;
}

RULE(conv)
{
	if (grad_wanted(IN(2)))
		give(t, IN(2), channel_sum(t, dy));
	if (grad_wanted(IN(1)))
		give(t, IN(1), like_node(t, n, "ConvWeightGrad", dy, IN(0), IN(1)));
	if (grad_wanted(IN(0)))
		give(t, IN(0), like_node(t, n, "ConvInputGrad", dy, IN(1), IN(0)));
}

/* Both are linear in both of their operands. */
RULE(conv_input_grad)
{
	gg_value *y = grad_wanted(IN(0)) ? train_make(t, "Conv", 2, (gg_value *[]){dy, IN(1)}, 0) : 0;
	if (y)
		gg_copy_attrs(y->producer, n);
	give(t, IN(0), train_done(t, y));
	if (grad_wanted(IN(1)))
		give(t, IN(1), like_node(t, n, "ConvWeightGrad", IN(0), dy, IN(1)));
}

RULE(conv_weight_grad)
{
	gg_value *y = grad_wanted(IN(0)) ? train_make(t, "Conv", 2, (gg_value *[]){IN(1), dy}, 0) : 0;
	if (y)
		gg_copy_attrs(y->producer, n);
	give(t, IN(0), train_done(t, y));
	if (grad_wanted(IN(1)))
		give(t, IN(1), like_node(t, n, "ConvInputGrad", IN(0), dy, IN(1)));
}

static gg_value *with_attrs(train *t, gg_node *n, const char *op, gg_value *a, gg_value *b)
{
	gg_value *y = train_make(t, op, 2, (gg_value *[]){a, b}, 0);
	for (int i = 0; y && i < n->nattr; i++)
		if (gg_op_attr(y->producer->op, n->attr[i].name))
			gg_set_attr(y->producer, &n->attr[i]);
	return train_done(t, y);
}

RULE(max_pool) { give(t, IN(0), with_attrs(t, n, "MaxPoolGrad", dy, IN(0))); }
RULE(average_pool) { give(t, IN(0), with_attrs(t, n, "AveragePoolGrad", dy, known_shape(t, IN(0)))); }

/* ---- normalisation ------------------------------------------------------------------------------ */
/* Per-channel v as [1,C,1,...]. */
static gg_value *channels(train *t, gg_value *v, const gg_value *x)
{
	int64_t dim[GG_MAX_RANK];
	for (int i = 0; i < x->shape.rank; i++)
		dim[i] = i == 1 ? -1 : 1;
	return v ? train_op(t, "Reshape", v, grad_ints(t, x->shape.rank, dim)) : 0;
}

/* A node with several outputs, of which those of the wanted inputs are there; output i is input
 * which[i]'s. */
static gg_node *several(train *t, gg_node *n, const char *op, int nin, gg_value *const *in, const int *which)
{
	static const char *const base[] = {"gradient", "gradient.scale", "gradient.bias"};
	const char *name[3];
	if (t->bad)
		return 0;
	for (int i = 0; i < 3; i++)
		name[i] = i == 0 || grad_wanted(IN(which[i])) ? gg_fresh_name(t->g, base[i]) : 0;
	gg_node *k = gg_add_node(t->g, t->at, gg_op_find(op), nin, in, name[2] ? 3 : name[1] ? 2 : 1, name);
	for (int i = 0; i < n->nattr; i++)
		if (gg_op_attr(k->op, n->attr[i].name))
			gg_set_attr(k, &n->attr[i]);
	t->bad = !gg_infer_node(t->p->d, k);
	return t->bad ? 0 : k;
}

static void give_several(train *t, gg_node *n, gg_node *k, const int *which)
{
	for (int i = 0; k && i < k->nout; i++)
		if (k->out[i])
			give(t, IN(which[i]), k->out[i]);
}

RULE(batch_norm)
{
	static const int which[] = {0, 1, 2};
	bool training = gg_get_int(n, "training_mode");
	gg_value *in[] = {dy, IN(0), IN(1), IN(3), IN(4)};
	give_several(t, n, several(t, n, "BatchNormGrad", training ? 3 : 5, in, which), which);
}

/* x normalised over some axes, times scale, plus bias; scale and bias broadcast with x. */
static void normalised(train *t, gg_node *n, gg_value *dy, int count, const int64_t *over, gg_value *scale)
{
	gg_value *x = IN(0);
	gg_value *d = OP("Sub", x, reduce(t, "ReduceMean", x, count, over, true));
	gg_value *var = reduce(t, "ReduceMean", OP("Mul", d, d), count, over, true);
	var = OP("Add", var, train_number(t, "grad.epsilon", (gg_dtype)x->dtype, gg_get_float(n, "epsilon")));
	gg_value *inverse = OP("Reciprocal", OP("Sqrt", var, 0), 0), *hat = OP("Mul", d, inverse);
	for (int i = 1; i < 3; i++) {
		gg_value *part = i == 1 ? OP("Mul", dy, hat) : dy;
		if (grad_wanted(IN(i)))
			give(t, IN(i), scale == IN(1) ? like_input(t, n, part, IN(i)) : channel_sum(t, part));
	}
	if (!grad_wanted(x))
		return;
	gg_value *g = OP("Mul", dy, scale), *mean = reduce(t, "ReduceMean", g, count, over, true);
	gg_value *along = OP("Mul", hat, reduce(t, "ReduceMean", OP("Mul", g, hat), count, over, true));
	give(t, x, OP("Mul", OP("Sub", OP("Sub", g, mean), along), inverse));
}

/* A bias of another shape than the scale's is no business of the primitive's. */
RULE(layer_norm)
{
	static const int which[] = {0, 1, 2};
	gg_value *in[] = {dy, IN(0), IN(1)}, *bias = IN(2);
	bool apart = bias && grad_wanted(bias) && !gg_shape_eq(&bias->shape, &IN(1)->shape);
	gg_node *k = several(t, n, "LayerNormGrad", 3, in, which);
	for (int i = 0; k && i < k->nout; i++)
		if (k->out[i] && !(apart && i == 2))
			give(t, IN(i), k->out[i]);
	if (apart)
		give(t, bias, like_input(t, n, dy, bias));
}

RULE(instance_norm)
{
	int64_t over[GG_MAX_RANK];
	int count = 0;
	for (int i = 2; i < IN(0)->shape.rank; i++)
		over[count++] = i;
	if (count)
		normalised(t, n, dy, count, over, channels(t, IN(1), IN(0)));
	else
		grad_lacks(t, n, "the rank of its input is not known");
}

RULE(softmax) { give(t, IN(0), with_attrs(t, n, "SoftmaxGrad", dy, OUT)); }
RULE(log_softmax) { give(t, IN(0), with_attrs(t, n, "LogSoftmaxGrad", dy, OUT)); }

/* ---- losses with labels ------------------------------------------------------------------------- */
/* The labels as rows of 0 and 1 along axis 1, and what each sample counts for: *each is a value to
 * multiply dy by, with an axis of size 1 there. Labels to be ignored count for nothing. */
static gg_value *one_hot(train *t, gg_node *n, gg_value **each, gg_value *dy)
{
	static const int64_t one[] = {1};
	gg_value *x = IN(0), *labels = IN(1);
	const gg_attr *skip = gg_find_attr(n, "ignore_index");
	gg_dtype type = (gg_dtype)x->dtype, index = (gg_dtype)labels->dtype;
	bool mean = !strcmp(gg_get_string(n, "reduction"), "mean");
	gg_value *counts = 0, *total;
	if (IN(2) || !gg_dim_known(x->shape.dim[1])) {
		grad_lacks(t, n, IN(2) ? "weights of classes" : "the number of classes is not known");
		return 0;
	}
	if (skip) {
		gg_value *no = OP("Equal", labels, train_number(t, "grad.ignored", index, (double)skip->i));
		counts = train_cast(t, OP("Not", no, 0), type);
		labels = no ? train_select(t, no, train_number(t, "grad.label", index, 0), labels) : 0;
	}
	total = counts ? train_all(t, "ReduceSum", counts) : train_cast(t, OP("Size", labels, 0), type);
	*each = mean ? OP("Div", dy, total) : dy;
	if (*each && (*each)->shape.rank > 0)
		*each = OP("Unsqueeze", *each, grad_ints(t, 1, one));
	if (counts)
		*each = OP("Mul", *each, OP("Unsqueeze", counts, grad_ints(t, 1, one)));
	gg_tensor off_on = {.dtype = type, .shape = {.rank = 1, .dim = {2}}};
	double room[2] = {0};
	off_on.data = room;
	gg_set_f64(&off_on, 0, 0);
	gg_set_f64(&off_on, 1, 1);
	gg_value *in[] = {labels, train_number(t, "grad.classes", GG_I64, (double)x->shape.dim[1]),
	                  gg_add_tensor(t->g, "grad.hot", &off_on)};
	gg_value *y = train_make(t, "OneHot", 3, in, 0);
	if (y)
		gg_set_attr_int(y->producer, "axis", 1);
	return train_done(t, y);
}

RULE(cross_entropy)
{
	gg_value *x = IN(0), *each = 0, *hot = one_hot(t, n, &each, dy);
	gg_value *p = hot ? train_make(t, "Softmax", 1, &x, 0) : 0;
	if (p)
		gg_set_attr_int(p->producer, "axis", 1);
	give(t, x, OP("Mul", OP("Sub", train_done(t, p), hot), each));
}

RULE(nll)
{
	gg_value *each = 0, *hot = one_hot(t, n, &each, dy);
	give(t, IN(0), OP("Neg", OP("Mul", hot, each), 0));
}

/* ---- the table ------------------------------------------------------------------------------------ */
static const struct {
	const char *op;
	grad_rule *rule;
} rules[] = {
    {"Abs", absolute},
    {"Add", add},
    {"AddN", add},
    {"AveragePool", average_pool},
    {"BatchNormalization", batch_norm},
    {"Cast", cast},
    {"Clip", clip},
    {"Concat", concat},
    {"Conv", conv},
    {"ConvInputGrad", conv_input_grad},
    {"ConvWeightGrad", conv_weight_grad},
    {"Cos", cosine},
    {"Div", divide},
    {"Dropout", dropout},
    {"Erf", error_function},
    {"Exp", exponential},
    {"Expand", expand},
    {"Flatten", reshape},
    {"Gather", gather},
    {"Gelu", gelu},
    {"Gemm", gemm},
    {"GlobalAveragePool", global_mean},
    {"HardSigmoid", hard_sigmoid},
    {"HardSwish", hard_swish},
    {"InstanceNormalization", instance_norm},
    {"Identity", same},
    {"LayerNormalization", layer_norm},
    {"LeakyRelu", leaky},
    {"Log", logarithm},
    {"LogSoftmax", log_softmax},
    {"MatMul", matmul},
    {"MaxPool", max_pool},
    {"Mul", mul},
    {"Neg", neg},
    {"NegativeLogLikelihoodLoss", nll},
    {"Pad", pad},
    {"Pow", power},
    {"Reciprocal", reciprocal},
    {"ReduceMean", reduce_mean},
    {"ReduceSum", reduce_sum},
    {"Relu", relu},
    {"ReluGrad", relu_grad},
    {"Reshape", reshape},
    {"Sigmoid", sigmoid},
    {"Sin", sine},
    {"Slice", slice},
    {"Softmax", softmax},
    {"SoftmaxCrossEntropyLoss", cross_entropy},
    {"Softplus", softplus},
    {"Split", split},
    {"Sqrt", root},
    {"Squeeze", reshape},
    {"Sub", sub},
    {"Sum", add},
    {"Swish", swish},
    {"Tanh", hyperbolic},
    {"Transpose", turn},
    {"Unsqueeze", reshape},
    {"Where", where},
};

grad_rule *grad_find_rule(const char *op)
{
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
		if (!strcmp(rules[i].op, op))
			return rules[i].rule;
	return 0;
}
