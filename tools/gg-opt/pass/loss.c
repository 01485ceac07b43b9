#include "match.h"
#include "../train.h"
#include <math.h>
#include <stdlib.h>

typedef struct lossy {
	train t;
	gg_value *p; /* the prediction */
	const char *target, *reduction;
	int64_t axis;
} lossy;

#define OP(op, a, b) train_op(&k->t, op, a, b)

static gg_value *new_input(lossy *k, gg_dtype type, const gg_shape *s)
{
	if (gg_find_value(k->t.b.g, k->target)) {
		gg_error(k->t.p->d, GG_MALFORMED,
		         "the name '%s' is taken: the graph has such a value already", k->target);
		k->t.b.bad = true;
		return 0;
	}
	return gg_add_input(k->t.b.g, gg_intern(k->target), type, s);
}

static gg_value *like_prediction(lossy *k) { return new_input(k, (gg_dtype)k->p->dtype, &k->p->shape); }

static gg_value *reduced(lossy *k, gg_value *v)
{
	return train_all(&k->t, strcmp(k->reduction, "sum") ? "ReduceMean" : "ReduceSum", v);
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

/* log(1 + exp(x)) - x y */
static gg_value *bce(lossy *k)
{
	gg_value *y = like_prediction(k), *xy = y ? OP("Mul", k->p, y) : 0;
	return xy ? reduced(k, OP("Sub", OP("Softplus", k->p, 0), xy)) : 0;
}

/* Classes along axis 1, where the op wants them. */
static gg_value *classes(lossy *k, const char *op)
{
	gg_shape s = k->p->shape, labels = {.rank = s.rank - 1};
	int64_t perm[GG_MAX_RANK], axis = k->axis < 0 ? k->axis + s.rank : k->axis, skip;
	const char *ignore = gg_pass_option(k->t.p, "ignore_index");
	int at = 0;
	if (s.rank < 2 || axis < 0 || axis >= s.rank) {
		k->t.b.bad = !gg_error(
		    k->t.p->d, GG_USAGE,
		    "pass 'loss': the prediction '%s' has rank %d, no classes along axis %lld", k->p->name,
		    s.rank, (long long)k->axis);
		return 0;
	}
	for (int i = 0; i < s.rank; i++)
		if (i != axis) {
			labels.dim[at] = s.dim[i];
			perm[at == 0 ? at++ : ++at] = i;
		}
	perm[1] = axis;
	gg_value *x = k->p, *y = new_input(k, GG_I64, &labels);
	if (axis != 1 && y) {
		x = train_make(&k->t, "Transpose", 1, &x, 0);
		if (x)
			gg_set_attr_ints(x->producer, "perm", s.rank, perm);
		x = train_done(&k->t, x);
	}
	gg_value *loss = x && y ? train_make(&k->t, op, 2, (gg_value *[]){x, y}, 0) : 0;
	if (loss)
		gg_set_attr_string(loss->producer, "reduction", k->reduction);
	if (loss && ignore && gg_parse_int(ignore, &skip))
		gg_set_attr_int(loss->producer, "ignore_index", skip);
	return train_done(&k->t, loss);
}

/* A part s of each label spread over all classes. */
static gg_value *smoothed(lossy *k, gg_value *loss, double s)
{
	gg_value *x = gg_in(loss->producer, 0), *p = train_make(&k->t, "LogSoftmax", 1, &x, 0);
	bool sum = !strcmp(k->reduction, "sum");
	if (s > 1 || gg_pass_option(k->t.p, "ignore_index") || !gg_dim_known(x->shape.dim[1])) {
		k->t.b.bad = !gg_error(
		    k->t.p->d, GG_UNSUPPORTED,
		    "pass 'loss': label_smoothing is at most 1, with a known number of classes and without "
		    "ignore_index");
		return 0;
	}
	if (p)
		gg_set_attr_int(p->producer, "axis", 1);
	gg_dtype type = (gg_dtype)x->dtype;
	double part = sum ? s / (double)x->shape.dim[1] : s;
	p = reduced(k, train_done(&k->t, p));
	p = p ? OP("Mul", p, train_number(&k->t, "smooth.part", type, part)) : 0;
	loss = OP("Mul", loss, train_number(&k->t, "smooth.rest", type, 1 - s));
	return p && loss ? OP("Sub", loss, p) : 0;
}

static gg_value *cross_entropy(lossy *k)
{
	gg_value *loss = classes(k, "SoftmaxCrossEntropyLoss");
	double s = train_option(&k->t, "label_smoothing", 0);
	return loss && s > 0 ? smoothed(k, loss, s) : loss;
}

static gg_value *nll(lossy *k) { return classes(k, "NegativeLogLikelihoodLoss"); }

static const struct {
	const char *name;
	gg_value *(*make)(lossy *k);
	const char *options; /* those that not every kind has */
} kinds[] = {{"softmax_cross_entropy", cross_entropy, "axis label_smoothing ignore_index"},
             {"nll", nll, "axis ignore_index"},
             {"mse", mse, ""},
             {"l1", l1, ""},
             {"huber", huber, "delta"},
             {"bce_with_logits", bce, ""}};

static bool check_kind(gg_pass_run *p, size_t kind)
{
	static const char *const some[] = {"axis", "label_smoothing", "ignore_index", "delta"};
	const char *ignore = gg_pass_option(p, "ignore_index"), *delta = gg_pass_option(p, "delta");
	int64_t label;
	double d;
	for (size_t i = 0; i < sizeof some / sizeof *some; i++)
		if (gg_pass_option(p, some[i]) && !strstr(kinds[kind].options, some[i]))
			return gg_error(p->d, GG_USAGE, "pass 'loss': %s has no option '%s'",
			                kinds[kind].name, some[i]);
	if (ignore && !gg_parse_int(ignore, &label))
		return gg_error(p->d, GG_USAGE, "pass 'loss': ignore_index takes a whole number, not '%s'",
		                ignore);
	return !delta || (gg_parse_float(delta, &d) && d > 0) ||
	       gg_error(p->d, GG_USAGE, "pass 'loss': delta takes a number above 0, not '%s'", delta);
}

/* ---- training mode ------------------------------------------------------------------------------ */
static bool is_state(const gg_graph *g, const gg_value *v)
{
	for (size_t i = 0; i < g->nstate; i++)
		if (g->state[i]->param == v)
			return true;
	return false;
}

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
		if (in[i + 2]->kind == GG_PARAM && !is_state(t->b.g, in[i + 2]))
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

/* Fused normalisations are plain ones again, which have a gradient. */
static bool training_mode(train *t)
{
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
		return gg_error(p->d, GG_USAGE,
		                "pass 'loss': target=NAME, the input to compare with, is missing");
	if (strcmp(k->reduction, "mean") && strcmp(k->reduction, "sum"))
		return gg_error(p->d, GG_USAGE, "pass 'loss': reduction is mean or sum, not '%s'",
		                k->reduction);
	if (axis && !gg_parse_int(axis, &k->axis))
		return gg_error(p->d, GG_USAGE, "pass 'loss': axis takes a number, not '%s'", axis);
	k->p = input ? gg_find_value(g, input) : g->nout ? g->out[0]->value : 0;
	if (!k->p)
		return gg_error(p->d, GG_USAGE, "pass 'loss': the graph has no value '%s'",
		                input ? input : "to predict");
	if (gg_dtype_class((gg_dtype)k->p->dtype) != 'F' || k->p->shape.rank < 0)
		return gg_error(p->d, GG_UNSUPPORTED,
		                "pass 'loss': the prediction '%s' is not floating, or of unknown rank",
		                k->p->name);
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
		return gg_error(p->d, GG_USAGE,
		                "pass 'loss': no kind of loss is named '%s'; see gg-opt --explain=loss",
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
        "softmax_cross_entropy: -log softmax(x)[label];  nll: -x[label], of log-probabilities\n"
        "mse: (x - y)^2;  l1: |x - y|;  bce_with_logits: log(1 + exp(x)) - x y\n"
        "huber: (x - y)^2 / 2 up to delta, then delta (|x - y| - delta / 2)\n"
        "label_smoothing=s: (1-s) of the cross entropy and s of the mean over all classes of -log "
        "softmax(x)\n"
        "reduced to the scalar output 'loss'. The target becomes an input: class ids i64 of the prediction's "
        "shape "
        "without its\n"
        "axis of classes, the last one unless `axis` says otherwise, or a tensor like the prediction.\n"
        "BatchNormalization takes the statistics of the batch, with the running ones as state; Dropout "
        "drops.",
    .pipeline = "",
    .options =
        "kind=NAME: softmax_cross_entropy, nll, mse, l1, huber or bce_with_logits; target=NAME: the new "
        "input; input=NAME: the "
        "prediction (the first output); axis=K: of the classes (-1); reduction=mean|sum: (mean); "
        "delta=X: huber: (1); label_smoothing=X: (0); ignore_index=N: a "
        "label that counts for nothing",
    .interface = true,
    .run = run,
};
