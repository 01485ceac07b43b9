#include "match.h"
#include "../train.h"
#include <math.h>
#include <stdlib.h>

typedef struct lossy {
	train t;
	gg_value *p; /* the prediction */
	const char *target, *reduction;
	int64_t axis;
	double smooth;
} lossy;

#define OP(op, a, b) train_op(&k->t, op, a, b)
#define NUM(like, x) gg_put_like(&k->t.b, like, x)

static gg_value *new_input(lossy *k, const char *name, gg_dtype type, const gg_shape *s)
{
	if (gg_find_value(k->t.b.g, name)) {
		gg_error(k->t.p->d, GG_MALFORMED,
		         "the name '%s' is taken: the graph has such a value already", name);
		k->t.b.bad = true;
		return 0;
	}
	return gg_add_input(k->t.b.g, gg_intern(name), type, s);
}

static gg_value *like_prediction(lossy *k)
{
	return new_input(k, k->target, (gg_dtype)k->p->dtype, &k->p->shape);
}

static bool reduction_is(const lossy *k, const char *how) { return !strcmp(k->reduction, how); }

static gg_value *reduced(lossy *k, gg_value *v)
{
	return reduction_is(k, "none")
	           ? v
	           : train_all(&k->t, reduction_is(k, "sum") ? "ReduceSum" : "ReduceMean", v);
}

static gg_value *wrong(lossy *k, gg_status how, const char *what)
{
	if (!k->t.b.bad)
		gg_error(k->t.p->d, how, "%s", what);
	k->t.b.bad = true;
	return 0;
}

/* An option's numbers as a constant, a scalar where it is one; NULL: it has none. */
static gg_value *numbers(lossy *k, const char *option, const char *text)
{
	char *copy = gg_printf(&k->t.p->scratch, "%s", text), *rest = 0;
	int64_t n = 0;
	gg_tensor v = {.dtype = (gg_dtype)k->p->dtype};
	double x;
	v.data = gg_alloc_n(&k->t.p->scratch, strlen(text) + 1, sizeof(double));
	for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(0, ",", &rest)) {
		if (!gg_parse_float(word, &x))
			return 0;
		gg_set_f64(&v, n++, x);
	}
	if (n > 1)
		v.shape = (gg_shape){.rank = 1, .dim = {n}};
	return n ? gg_add_tensor(k->t.b.g, option, &v) : 0;
}

/* Weights: numbers, or a value of the graph, or for want of it a new input of the shape `like`. */
static gg_value *weights(lossy *k, const char *option, const gg_shape *like)
{
	const char *text = gg_pass_option(k->t.p, option);
	gg_value *v = text ? numbers(k, option, text) : 0;
	v = v || !text ? v : gg_find_value(k->t.b.g, text);
	if (text && !v && like)
		v = new_input(k, text, (gg_dtype)k->p->dtype, like);
	if (text && !v)
		return wrong(k, GG_USAGE,
		             gg_printf(&k->t.p->scratch,
		                       "%s takes numbers or the name of a value, and '%s' is neither", option,
		                       text));
	if (v && v->dtype != k->p->dtype)
		return wrong(k, GG_MALFORMED,
		             gg_printf(&k->t.p->scratch, "'%s' is %s, the prediction %s", v->name,
		                       gg_dtype_name((gg_dtype)v->dtype),
		                       gg_dtype_name((gg_dtype)k->p->dtype)));
	return v;
}

/* ---- kinds ------------------------------------------------------------------------------------ */
static gg_value *mse(lossy *k)
{
	gg_value *y = like_prediction(k), *d = y ? OP("Sub", k->p, y) : 0;
	return d ? reduced(k, OP("Mul", d, d)) : 0;
}

static gg_value *l1(lossy *k)
{
	gg_value *y = like_prediction(k), *d = y ? OP("Sub", k->p, y) : 0;
	return d ? reduced(k, OP("Abs", d, 0)) : 0;
}

/* q (|d| - q / 2), q the smaller of |d| and delta */
static gg_value *huber(lossy *k)
{
	gg_value *y = like_prediction(k), *a = y ? OP("Abs", OP("Sub", k->p, y), 0) : 0;
	double delta = gg_pass_option(k->t.p, "delta") ? train_option(&k->t, "delta", 1) : 1;
	if (!a || k->t.b.bad)
		return 0;
	gg_dtype type = (gg_dtype)a->dtype;
	gg_value *in[] = {a, train_number(&k->t, "huber.zero", type, 0),
	                  train_number(&k->t, "huber.delta", type, delta)};
	gg_value *q = train_done(&k->t, train_make(&k->t, "Clip", 3, in, 0));
	gg_value *half = q ? OP("Mul", q, train_number(&k->t, "huber.half", type, 0.5)) : 0;
	return half ? reduced(k, OP("Mul", q, OP("Sub", a, half))) : 0;
}

/* log(1 + exp(x)) - x y; with weights the op that has them. */
static gg_value *bce(lossy *k)
{
	gg_value *y = like_prediction(k), *w = weights(k, "weight", &k->p->shape);
	gg_value *pos = weights(k, "pos_weight", 0);
	if (!y || k->t.b.bad)
		return 0;
	if (!w && !pos)
		return reduced(k, OP("Sub", OP("Softplus", k->p, 0), OP("Mul", k->p, y)));
	gg_value *in[] = {k->p, y, w, pos};
	const char *name = gg_fresh_name(k->t.b.g, "bce");
	gg_node *n = gg_add_node(k->t.b.g, 0, gg_op_find("BCEWithLogitsLoss"), pos ? 4 : 3, in, 1, &name);
	return reduced(k, train_done(&k->t, n->out[0]));
}

/* The axis of classes, from the front; false: the prediction has none. */
static bool class_axis(lossy *k)
{
	int r = k->p->shape.rank;
	k->axis += k->axis < 0 ? r : 0;
	if (r < 2 || k->axis < 0 || k->axis >= r)
		k->t.b.bad = !gg_error(k->t.p->d, GG_USAGE,
		                       "the prediction '%s' has rank %d, no classes along axis %lld",
		                       k->p->name, r, (long long)(k->axis < 0 ? k->axis - r : k->axis));
	return !k->t.b.bad;
}

/* The weights of classes, one for each; NULL: none are given. */
static gg_value *class_weights(lossy *k)
{
	gg_value *w = weights(k, "weight", 0);
	gg_dim classes = k->p->shape.dim[k->axis];
	if (w && (w->shape.rank != 1 ||
	          (gg_dim_known(classes) && gg_dim_known(w->shape.dim[0]) && w->shape.dim[0] != classes)))
		return wrong(k, GG_MALFORMED, "weight has not one number for each class");
	return w;
}

/* A vector along the axis of classes of x. */
static gg_value *along(lossy *k, gg_value *v, const gg_value *x, int64_t axis)
{
	int64_t dim[GG_MAX_RANK];
	for (int i = 0; i < x->shape.rank; i++)
		dim[i] = i == axis ? -1 : 1;
	return OP("Reshape", v, gg_put_ints(&k->t.b, x->shape.rank, dim));
}

static gg_value *log_softmax(lossy *k, gg_value *x, int64_t axis)
{
	gg_value *y = train_make(&k->t, "LogSoftmax", 1, &x, 0);
	if (y)
		gg_set_attr_int(y->producer, "axis", axis);
	return train_done(&k->t, y);
}

/* The targets as an input: class ids, of the prediction's shape without classes. *x gets the prediction
 * with classes along axis 1, where the ops want them. */
static gg_value *ids(lossy *k, gg_value **x)
{
	gg_shape s = k->p->shape, labels = {.rank = s.rank - 1};
	int64_t perm[GG_MAX_RANK];
	int at = 0;
	for (int i = 0; i < s.rank; i++)
		if (i != k->axis) {
			labels.dim[at] = s.dim[i];
			perm[at == 0 ? at++ : ++at] = i;
		}
	perm[1] = k->axis;
	*x = k->axis == 1 ? k->p : gg_put_permute(&k->t.b, k->p, s.rank, perm);
	return new_input(k, k->target, GG_I64, &labels);
}

/* What each sample counts for: its class's weight, nothing where it is ignored; NULL: 1 each. */
static gg_value *counts(lossy *k, gg_value *labels, gg_value *w)
{
	const char *ignore = gg_pass_option(k->t.p, "ignore_index");
	int64_t skip = 0;
	gg_value *kept = 0;
	if (ignore && gg_parse_int(ignore, &skip)) {
		gg_value *no = OP("Equal", labels, train_number(&k->t, "ignored", GG_I64, (double)skip));
		kept = train_cast(&k->t, OP("Not", no, 0), (gg_dtype)k->p->dtype);
		labels = train_select(&k->t, no, train_number(&k->t, "label", GG_I64, 0), labels);
	}
	w = w ? OP("Gather", w, labels) : 0;
	return w && kept ? OP("Mul", w, kept) : w ? w : kept;
}

/* 1-s of the loss, and s of the mean over all classes of the weighted -log softmax. */
static gg_value *smoothed(lossy *k, gg_value *loss, gg_value *logs, gg_value *labels, gg_value *w)
{
	static const int64_t one[] = {1};
	gg_value *x = gg_in(loss->producer, 0), *each = w ? OP("Mul", logs, along(k, w, x, 1)) : logs;
	gg_value *sum = gg_put_reduce(&k->t.b, "ReduceSum", each, 1, one, false), *all;
	gg_value *kept = counts(k, labels, 0), *weight = counts(k, labels, w);
	sum = kept ? OP("Mul", sum, kept) : sum;
	all = reduced(k, sum);
	if (weight && reduction_is(k, "mean"))
		all = OP("Div", train_all(&k->t, "ReduceSum", sum), train_all(&k->t, "ReduceSum", weight));
	all = OP("Mul", all, NUM(x, k->smooth / (double)x->shape.dim[1]));
	return OP("Sub", OP("Mul", loss, NUM(x, 1 - k->smooth)), all);
}

static gg_value *classes(lossy *k, const char *op)
{
	const char *ignore = gg_pass_option(k->t.p, "ignore_index"), *name[2] = {0};
	gg_graph *g = k->t.b.g;
	gg_value *w = class_axis(k) ? class_weights(k) : 0, *x = 0, *y = k->t.b.bad ? 0 : ids(k, &x);
	int64_t skip;
	if (!x || !y)
		return 0;
	name[0] = gg_fresh_name(g, "hard_loss");
	name[1] = k->smooth > 0 ? gg_fresh_name(g, "logs") : 0;
	gg_node *n = gg_add_node(g, 0, gg_op_find(op), w ? 3 : 2, (gg_value *[]){x, y, w}, name[1] ? 2 : 1,
	                         name);
	gg_set_attr_string(n, "reduction", k->reduction);
	if (ignore && gg_parse_int(ignore, &skip))
		gg_set_attr_int(n, "ignore_index", skip);
	gg_value *loss = train_done(&k->t, n->out[0]);
	return loss && k->smooth > 0 ? smoothed(k, loss, n->out[1], y, w) : loss;
}

/* -sum of y log softmax(x) over the classes, y a distribution. */
static gg_value *distributions(lossy *k)
{
	gg_value *w = class_axis(k) ? class_weights(k) : 0, *y = k->t.b.bad ? 0 : like_prediction(k);
	gg_value *logs = y ? log_softmax(k, k->p, k->axis) : 0;
	if (gg_pass_option(k->t.p, "ignore_index"))
		return wrong(k, GG_USAGE, "ignore_index goes with labels=index");
	if (k->smooth > 0 && y) {
		double part = k->smooth / (double)k->p->shape.dim[k->axis];
		y = OP("Add", OP("Mul", y, NUM(y, 1 - k->smooth)), NUM(y, part));
	}
	if (w && logs)
		logs = OP("Mul", logs, along(k, w, k->p, k->axis));
	gg_value *each = y && logs ? OP("Mul", y, logs) : 0;
	each = gg_put_reduce(&k->t.b, "ReduceSum", each, 1, &k->axis, false);
	return each ? reduced(k, OP("Neg", each, 0)) : 0;
}

static gg_value *cross_entropy(lossy *k)
{
	const char *labels = gg_pass_option(k->t.p, "labels");
	int r = k->p->shape.rank;
	int64_t axis = k->axis < 0 ? k->axis + r : k->axis;
	k->smooth = train_option(&k->t, "label_smoothing", 0);
	if (labels && strcmp(labels, "index") && strcmp(labels, "onehot"))
		return wrong(k, GG_USAGE, "labels are index or onehot");
	if (k->smooth > 1)
		return wrong(k, GG_USAGE, "label_smoothing is at most 1");
	if (k->smooth > 0 && axis >= 0 && axis < r && !gg_dim_known(k->p->shape.dim[axis]))
		return wrong(k, GG_UNSUPPORTED, "label_smoothing needs a known number of classes");
	return labels && !strcmp(labels, "onehot") ? distributions(k) : classes(k, "SoftmaxCrossEntropyLoss");
}

static gg_value *nll(lossy *k) { return classes(k, "NegativeLogLikelihoodLoss"); }

static const struct {
	const char *name;
	gg_value *(*make)(lossy *k);
	const char *options; /* those that not every kind has */
} kinds[] = {{"softmax_cross_entropy", cross_entropy, " axis label_smoothing ignore_index weight labels "},
             {"nll", nll, " axis ignore_index weight "},
             {"mse", mse, ""},
             {"l1", l1, ""},
             {"huber", huber, " delta "},
             {"bce_with_logits", bce, " weight pos_weight "}};

static bool check_kind(gg_pass_run *p, size_t kind)
{
	static const char *const some[] = {"axis",   "label_smoothing", "ignore_index", "delta",
	                                   "weight", "pos_weight",      "labels"};
	const char *ignore = gg_pass_option(p, "ignore_index"), *delta = gg_pass_option(p, "delta");
	int64_t label;
	double d;
	for (size_t i = 0; i < sizeof some / sizeof *some; i++)
		if (gg_pass_option(p, some[i]) &&
		    !strstr(kinds[kind].options, gg_printf(&p->scratch, " %s ", some[i])))
			return gg_error(p->d, GG_USAGE, "%s has no option '%s'", kinds[kind].name, some[i]);
	if (ignore && !gg_parse_int(ignore, &label))
		return gg_error(p->d, GG_USAGE, "ignore_index takes a whole number, not '%s'", ignore);
	return !delta || (gg_parse_float(delta, &d) && d > 0) ||
	       gg_error(p->d, GG_USAGE, "delta takes a number above 0, not '%s'", delta);
}

/* ---- training mode ------------------------------------------------------------------------------ */
/* Batch statistics, with the running ones as state. */
static bool train_norm(train *t, gg_node *n)
{
	gg_value *in[5];
	const char *name[3], *final = n->out[0]->name;
	for (int i = 0; i < 5; i++)
		in[i] = gg_in(n, i);
	name[0] = gg_fresh_name(t->b.g, final);
	for (int i = 1; i < 3; i++)
		name[i] = gg_fresh_name(t->b.g, in[i + 2]->name);
	gg_node *k = gg_add_node(t->b.g, n, n->op, 5, in, 3, name);
	gg_copy_attrs(k, n);
	gg_set_attr_int(k, "training_mode", 1);
	gg_merge_loc(k, n);
	if (!gg_infer_node(t->p->d, k))
		return false;
	for (int i = 0; i < n->nout && i < 3; i++)
		if (n->out[i])
			gg_replace_value(n->out[i], k->out[i]);
	gg_remove_node(n);
	if (k->out[0]->name != final)
		gg_rename(k->out[0], final);
	for (int i = 1; i < 3; i++)
		if (in[i + 2]->kind == GG_PARAM && !in[i + 2]->updated)
			gg_add_state(t->b.g, in[i + 2], k->out[i]);
	return true;
}

/* With its mask, which the gradient reads. */
static bool train_dropout(train *t, gg_node *n)
{
	gg_value *in[] = {gg_in(n, 0), gg_in(n, 1), train_number(t, "training", GG_BOOL, 1)};
	const char *final = n->out[0]->name;
	const char *name[] = {gg_fresh_name(t->b.g, final),
	                      gg_fresh_name(t->b.g, gg_printf(&t->p->scratch, "%s.mask", final))};
	gg_node *k = gg_add_node(t->b.g, n, n->op, 3, in, 2, name);
	gg_copy_attrs(k, n);
	gg_merge_loc(k, n);
	if (!gg_infer_node(t->p->d, k))
		return false;
	for (int i = 0; i < n->nout && i < 2; i++)
		if (n->out[i])
			gg_replace_value(n->out[i], k->out[i]);
	gg_remove_node(n);
	if (k->out[0]->name != final)
		gg_rename(k->out[0], final);
	return true;
}

/* State is written in the outermost graph alone, and a body that draws has no gradient. */
static void tell_bodies(train *t, const gg_graph *g)
{
	const gg_graph *b;
	for (const gg_node *n = g->first; n; n = n->next) {
		bool norm = gg_op_attr(n->op, "training_mode") && !gg_get_int(n, "training_mode");
		if (g->owner && (norm || !strcmp(n->op->name, "Dropout")))
			gg_note(t->p->d, "node '%s' (%s) is in a body: it stays as it is in training too",
			        gg_node_name(n), n->op->name);
		for (int i = 0; (b = gg_body(n, i)); i++)
			tell_bodies(t, b);
	}
}

/* Fused normalisations are plain ones again, which have a gradient. */
static bool training_mode(train *t)
{
	tell_bodies(t, t->b.g);
	for (gg_node *n = t->b.g->first, *next; n; n = next) {
		next = n->next;
		if (n->op->expand && gg_op_attr(n->op, "training_mode") && !n->op->expand(t->p->d, n))
			return false;
	}
	for (gg_node *n = t->b.g->first, *next; n; n = next) {
		next = n->next;
		if (!strcmp(n->op->name, "BatchNormalization") && !train_norm(t, n))
			return false;
		if (!strcmp(n->op->name, "Dropout") && !train_dropout(t, n))
			return false;
	}
	return true;
}

/* ---- the pass ------------------------------------------------------------------------------------- */
static bool take_options(gg_pass_run *p, gg_graph *g, lossy *k)
{
	const char *input = gg_pass_option(p, "input"), *axis = gg_pass_option(p, "axis");
	k->target = gg_pass_option(p, "target");
	k->reduction = gg_pass_option(p, "reduction");
	k->reduction = k->reduction ? k->reduction : "mean";
	k->axis = -1;
	if (!k->target)
		return gg_error(p->d, GG_USAGE, "target=NAME, the input to compare with, is missing");
	if (!reduction_is(k, "mean") && !reduction_is(k, "sum") && !reduction_is(k, "none"))
		return gg_error(p->d, GG_USAGE, "reduction is mean, sum or none, not '%s'", k->reduction);
	if (axis && !gg_parse_int(axis, &k->axis))
		return gg_error(p->d, GG_USAGE, "axis takes a number, not '%s'", axis);
	k->p = input ? gg_find_value(g, input) : g->nout ? g->out[0]->value : 0;
	if (!k->p)
		return gg_error(p->d, GG_USAGE, "the graph has no value '%s'", input ? input : "to predict");
	if (gg_dtype_class((gg_dtype)k->p->dtype) != 'F' || k->p->shape.rank < 0)
		return gg_error(p->d, GG_UNSUPPORTED,
		                "the prediction '%s' is not floating, or of unknown rank", k->p->name);
	if (gg_find_value(g, "loss"))
		return gg_error(p->d, GG_MALFORMED,
		                "the name 'loss' is taken: the graph has such a value already");
	return true;
}

/* Needs a forward graph.
 * Breaks the interface: adds an input and an output, and the state of running statistics. */
static bool run(gg_pass_run *p, gg_graph *g)
{
	lossy k = {.t = {.p = p, .b = {.d = p->d, .g = g}}};
	const char *kind = gg_pass_option(p, "kind");
	size_t i = 0, n = sizeof kinds / sizeof *kinds;
	if (g->owner)
		return true;
	while (i < n && (!kind || strcmp(kinds[i].name, kind)))
		i++;
	if (i == n)
		return gg_error(p->d, GG_USAGE, "no kind of loss is named '%s'; see gg-opt --explain=loss",
		                kind ? kind : "");
	if (!check_kind(p, i) || !take_options(p, g, &k))
		return false;
	if (!gg_apply(p, k.p->producer))
		return true;
	if (!training_mode(&k.t) || !take_options(p, g, &k))
		return false;
	gg_value *loss = kinds[i].make(&k);
	if (k.t.b.bad || !loss)
		return false;
	gg_rename(loss, "loss");
	gg_add_output(g, loss);
	return true;
}

const gg_pass gg_pass_loss = {
    .name = "loss",
    .help = "add a target and a loss to a forward graph, and put it in training mode",
    .explain =
        "softmax_cross_entropy: -log softmax(x)[label], or with labels=onehot -sum of y log softmax(x);\n"
        "nll: -x[label], of log-probabilities;  mse: (x - y)^2;  l1: |x - y|\n"
        "huber: (x - y)^2 / 2 up to delta, then delta (|x - y| - delta / 2)\n"
        "bce_with_logits: weight (pos_weight y log(1 + exp(-x)) + (1 - y) log(1 + exp(x)))\n"
        "label_smoothing=s: (1-s) of the cross entropy and s of the mean over all classes of -log "
        "softmax(x)\n"
        "weight: of softmax_cross_entropy and nll a factor for each class; the mean is then over the weights "
        "of "
        "the labels\n"
        "(with onehot over the samples). Of bce_with_logits a factor for each element. Numbers, as in "
        "weight='1,2,0.5', or the\n"
        "name of a value; a factor for each element may be a new input.\n"
        "Reduced to the scalar output 'loss'; reduction=none leaves a loss for each sample, which grad does "
        "not "
        "take.\n"
        "The target becomes an input: class ids i64 of the prediction's shape without its axis of classes, "
        "the "
        "last one unless\n"
        "`axis` says otherwise, or a tensor like the prediction. As in PyTorch, throughout.\n"
        "BatchNormalization takes the statistics of the batch, with the running ones as state; Dropout "
        "drops.",
    .pipeline = "",
    .options =
        "kind=NAME: softmax_cross_entropy, nll, mse, l1, huber or bce_with_logits; target=NAME: the new "
        "input; input=NAME: the "
        "prediction (the first output); axis=K: of the classes (-1); reduction=mean|sum|none: (mean); "
        "labels=index|onehot: (index); weight=NUMBERS|NAME: factors; pos_weight=NUMBERS|NAME: of "
        "bce_with_logits; "
        "delta=X: huber: (1); label_smoothing=X: (0); ignore_index=N: a "
        "label that counts for nothing",
    .interface = true,
    .run = run,
};
