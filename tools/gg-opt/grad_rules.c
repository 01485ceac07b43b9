/* The gradient rules: one short function an op, and the table at the end. */
#include "pass/grad.h"

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
RULE(relu)
{
	gg_value *positive = OP("Greater", OUT, grad_const(t, OUT, 0));
	give(t, IN(0), OP("Mul", dy, train_cast(t, positive, (gg_dtype)OUT->dtype)));
}

RULE(leaky)
{
	gg_value *positive = OP("Greater", IN(0), grad_const(t, OUT, 0));
	gg_value *low = OP("Mul", dy, grad_const(t, dy, gg_get_float(n, "alpha")));
	give(t, IN(0), positive ? train_select(t, positive, dy, low) : 0);
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

/* ---- convolutions: the gradients are convolutions too ------------------------------------------ */
typedef struct window {
	int n;
	int64_t stride[GG_MAX_RANK], dilation[GG_MAX_RANK], pad[2 * GG_MAX_RANK], kernel[GG_MAX_RANK];
} window;

static int64_t element(const gg_node *n, const char *name, int i, int64_t or)
{
	const gg_attr *a = gg_find_attr(n, name);
	return a && i < a->n ? a->ints[i] : or ;
}

static bool read_window(train *t, gg_node *n, window *w)
{
	const char *pad = gg_get_string(n, "auto_pad");
	w->n = IN(0)->shape.rank - 2;
	if (gg_get_int(n, "group") != 1)
		grad_lacks(t, n, "more than one group");
	else if (strcmp(pad, "NOTSET") && strcmp(pad, "VALID"))
		grad_lacks(t, n, "auto_pad other than NOTSET and VALID");
	else if (w->n < 1)
		grad_lacks(t, n, "the rank of its input is not known");
	for (int i = 0; !t->bad && i < w->n; i++) {
		w->stride[i] = element(n, "strides", i, 1);
		w->dilation[i] = element(n, "dilations", i, 1);
		w->pad[i] = element(n, "pads", i, 0);
		w->pad[w->n + i] = element(n, "pads", w->n + i, 0);
		w->kernel[i] = IN(1)->shape.dim[2 + i];
		if (!gg_dim_known(IN(0)->shape.dim[2 + i]) || !gg_dim_known(w->kernel[i]))
			grad_lacks(t, n, "a spatial size is not known");
	}
	return !t->bad;
}

static gg_value *conv_input(train *t, gg_node *n, const window *w, gg_value *dy)
{
	int64_t rest[GG_MAX_RANK];
	for (int i = 0; i < w->n; i++)
		rest[i] = IN(0)->shape.dim[2 + i] -
		          ((OUT->shape.dim[2 + i] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] +
		           1 - w->pad[i] - w->pad[w->n + i]);
	gg_value *y = train_make(t, "ConvTranspose", 2, (gg_value *[]){dy, IN(1)}, 0);
	if (y) {
		gg_set_attr_ints(y->producer, "strides", w->n, w->stride);
		gg_set_attr_ints(y->producer, "dilations", w->n, w->dilation);
		gg_set_attr_ints(y->producer, "pads", 2 * w->n, w->pad);
		gg_set_attr_ints(y->producer, "output_padding", w->n, rest);
	}
	return train_done(t, y);
}

/* Batch and channels change places: x [C,N,..] by dy [M,N,..] gives [C,M,..], of which the first
 * elements are the weight's. */
static gg_value *conv_weight(train *t, gg_node *n, const window *w, gg_value *dy)
{
	int64_t start[GG_MAX_RANK] = {0}, axis[GG_MAX_RANK];
	gg_value *x = swap_axes(t, IN(0), true), *d = swap_axes(t, dy, true), *in[4];
	gg_value *y = x && d ? train_make(t, "Conv", 2, (gg_value *[]){x, d}, 0) : 0;
	if (y) {
		gg_set_attr_ints(y->producer, "strides", w->n, w->dilation);
		gg_set_attr_ints(y->producer, "dilations", w->n, w->stride);
		gg_set_attr_ints(y->producer, "pads", 2 * w->n, w->pad);
	}
	y = swap_axes(t, train_done(t, y), true);
	if (!y || gg_shape_eq(&y->shape, &IN(1)->shape))
		return y;
	for (int i = 0; i < w->n; i++)
		axis[i] = 2 + i;
	in[0] = y;
	in[1] = grad_ints(t, w->n, start);
	in[2] = grad_ints(t, w->n, w->kernel);
	in[3] = grad_ints(t, w->n, axis);
	return train_done(t, train_make(t, "Slice", 4, in, 0));
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
	window w;
	if (!read_window(t, n, &w))
		return;
	if (grad_wanted(IN(2)))
		give(t, IN(2), channel_sum(t, dy));
	if (grad_wanted(IN(1)))
		give(t, IN(1), conv_weight(t, n, &w, dy));
	if (grad_wanted(IN(0)))
		give(t, IN(0), conv_input(t, n, &w, dy));
}

/* Each element goes where the greatest of its window was. */
RULE(max_pool)
{
	int64_t flat[] = {-1};
	gg_value *x = IN(0), *again[2], *in[3];
	const char *name[] = {gg_fresh_name(t->g, OUT->name),
	                      gg_fresh_name(t->g, gg_printf(&t->p->scratch, "%s.where", OUT->name))};
	if (t->bad)
		return;
	gg_node *k = gg_add_node(t->g, n, n->op, 1, &x, 2, name);
	gg_copy_attrs(k, n);
	gg_merge_loc(k, n);
	if (!gg_infer_node(t->p->d, k)) {
		t->bad = true;
		return;
	}
	again[0] = OP("Reshape", k->out[1], grad_ints(t, 1, flat));
	again[1] = OP("Reshape", dy, grad_ints(t, 1, flat));
	in[0] = OP("Mul", OP("Reshape", x, grad_ints(t, 1, flat)), grad_const(t, x, 0));
	in[1] = again[0];
	in[2] = again[1];
	gg_value *y = train_make(t, "ScatterElements", 3, in, 0);
	if (y)
		gg_set_attr_string(y->producer, "reduction", "add");
	give(t, x, as_shape(t, train_done(t, y), x));
}

/* ---- normalisation ------------------------------------------------------------------------------ */
/* Per-channel v as [1,C,1,...]. */
static gg_value *channels(train *t, gg_value *v, const gg_value *x)
{
	int64_t dim[GG_MAX_RANK];
	for (int i = 0; i < x->shape.rank; i++)
		dim[i] = i == 1 ? -1 : 1;
	return v ? train_op(t, "Reshape", v, grad_ints(t, x->shape.rank, dim)) : 0;
}

static gg_value *mean_of(train *t, gg_value *v)
{
	int64_t axis[GG_MAX_RANK];
	int count = 0;
	for (int i = 0; v && i < v->shape.rank; i++)
		if (i != 1)
			axis[count++] = i;
	return v ? reduce(t, "ReduceMean", v, count, axis, true) : 0;
}

RULE(batch_norm)
{
	gg_value *x = IN(0);
	bool training = gg_get_int(n, "training_mode");
	if (x->shape.rank < 2) {
		grad_lacks(t, n, "the rank of its input is not known");
		return;
	}
	gg_value *mean = training ? mean_of(t, x) : channels(t, IN(3), x);
	gg_value *d = OP("Sub", x, mean);
	gg_value *var = training ? mean_of(t, OP("Mul", d, d)) : channels(t, IN(4), x);
	var = OP("Add", var, train_number(t, "grad.epsilon", (gg_dtype)x->dtype, gg_get_float(n, "epsilon")));
	gg_value *inverse = OP("Reciprocal", OP("Sqrt", var, 0), 0), *hat = OP("Mul", d, inverse);
	if (grad_wanted(IN(1)))
		give(t, IN(1), channel_sum(t, OP("Mul", dy, hat)));
	if (grad_wanted(IN(2)))
		give(t, IN(2), channel_sum(t, dy));
	if (!grad_wanted(x))
		return;
	gg_value *g = OP("Mul", dy, channels(t, IN(1), x));
	if (training) {
		gg_value *along = OP("Mul", hat, mean_of(t, OP("Mul", g, hat)));
		g = OP("Sub", OP("Sub", g, mean_of(t, g)), along);
	}
	give(t, x, OP("Mul", g, inverse));
}

RULE(softmax)
{
	int64_t axis[] = {gg_get_int(n, "axis")};
	gg_value *dot = reduce(t, "ReduceSum", OP("Mul", dy, OUT), 1, axis, true);
	give(t, IN(0), OP("Mul", OUT, OP("Sub", dy, dot)));
}

RULE(log_softmax)
{
	int64_t axis[] = {gg_get_int(n, "axis")};
	gg_value *sum = reduce(t, "ReduceSum", dy, 1, axis, true);
	give(t, IN(0), OP("Sub", dy, OP("Mul", OP("Exp", OUT, 0), sum)));
}

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
    {"BatchNormalization", batch_norm},
    {"Cast", cast},
    {"Conv", conv},
    {"Div", divide},
    {"Dropout", dropout},
    {"Exp", exponential},
    {"Flatten", reshape},
    {"Gemm", gemm},
    {"GlobalAveragePool", global_mean},
    {"Identity", same},
    {"LeakyRelu", leaky},
    {"Log", logarithm},
    {"LogSoftmax", log_softmax},
    {"MatMul", matmul},
    {"MaxPool", max_pool},
    {"Mul", mul},
    {"Neg", neg},
    {"NegativeLogLikelihoodLoss", nll},
    {"ReduceMean", reduce_mean},
    {"ReduceSum", reduce_sum},
    {"Relu", relu},
    {"Reshape", reshape},
    {"Sigmoid", sigmoid},
    {"Softmax", softmax},
    {"SoftmaxCrossEntropyLoss", cross_entropy},
    {"Softplus", softplus},
    {"Sqrt", root},
    {"Squeeze", reshape},
    {"Sub", sub},
    {"Sum", add},
    {"Tanh", hyperbolic},
    {"Transpose", turn},
    {"Unsqueeze", reshape},
};

grad_rule *grad_find_rule(const char *op)
{
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
		if (!strcmp(rules[i].op, op))
			return rules[i].rule;
	return 0;
}
