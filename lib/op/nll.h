/* NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: the negated log-probability of each
 * element's class, weighted, and reduced. Input is [N, C, d...], labels are [N, d...]. */
#ifndef GG_OP_NLL_H
#define GG_OP_NLL_H

#include "grad.h"
#include "nnkit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static inline bool infer_nll(gg_infer *f)
{
	const gg_shape *x = &f->in[0].shape, *t = &f->in[1].shape;
	const char *how = gg_get_string(f->n, "reduction");
	bool none = !strcmp(how, "none");
	if (!none && strcmp(how, "mean") && strcmp(how, "sum"))
		return gg_fail(f, "attribute 'reduction' is '%s', expected none, mean or sum", how);
	if (x->rank >= 0 && x->rank < 2)
		return gg_fail(f, "input has rank %d, expected at least 2", x->rank);
	if (x->rank >= 0 && t->rank >= 0) {
		bool fits = t->rank == x->rank - 1;
		for (int i = 0; fits && i < t->rank; i++) {
			gg_dim a = t->dim[i], b = x->dim[i ? i + 1 : 0];
			fits = !gg_dim_known(a) || !gg_dim_known(b) || a == b;
		}
		if (!fits)
			return gg_fail(f, "labels have shape %s, which does not fit input %s", gg_str(f, t),
			               gg_str(f, x));
	}
	if (x->rank >= 0 && !gg_check_vector(f, 2, "weight", x->dim[1]))
		return false;
	f->out[0].shape = none ? *t : (gg_shape){.rank = 0};
	return true;
}

/* The loss from log-probabilities p; false: a label is no class. */
static inline bool eval_nll(gg_eval *e, const double *p)
{
	const gg_shape *x = &e->in[0].shape;
	const gg_attr *skip = gg_find_attr(e->n, "ignore_index");
	const char *how = gg_get_string(e->n, "reduction");
	bool none = !strcmp(how, "none");
	int64_t classes = x->dim[1], inner = gg_span(x, 2, x->rank), count = gg_count(&e->in[1]);
	double loss = 0, weights = 0;
	for (int64_t i = 0; i < count; i++) {
		int64_t c = gg_get_i64(&e->in[1], i);
		double one = 0, w = 0;
		if (!skip || c != skip->i) {
			if (c < 0 || c >= classes)
				return gg_fail(e, "label %lld, element %lld of '%s', is not a class of %lld",
				               (long long)c, (long long)i, e->n->in[1].value->name,
				               (long long)classes);
			w = gg_has(e, 2) ? gg_get_f64(&e->in[2], c) : 1;
			one = -w * p[(i / inner * classes + c) * inner + i % inner];
		}
		if (none)
			gg_set_f64(&e->out[0], i, one);
		loss += one;
		weights += w;
	}
	if (!none)
		gg_set_f64(&e->out[0], 0, strcmp(how, "mean") ? loss : loss / weights);
	return true;
}

/* The labels as rows of 0 and 1 along axis 1, and what each sample counts for: *each is a value to
 * multiply dy by, with an axis of size 1 there. Labels to be ignored count for nothing. */
static inline gg_value *nll_one_hot(gg_builder *t, gg_node *n, gg_value **each, gg_value *dy)
{
	static const int64_t one[] = {1};
	gg_value *x = IN(0), *labels = IN(1), *counts = 0, *total;
	const gg_attr *skip = gg_find_attr(n, "ignore_index");
	gg_dtype type = (gg_dtype)x->dtype, index = (gg_dtype)labels->dtype;
	double room[2] = {0};
	gg_tensor off_on = {.dtype = type, .shape = {.rank = 1, .dim = {2}}, .data = room};
	if (gg_grad_wanted(IN(2)) || x->shape.rank < 2 || !gg_dim_known(x->shape.dim[1])) {
		gg_grad_lacks(t, n,
		              IN(2) ? "of the weights of classes" : "the number of classes is not known");
		return 0;
	}
	if (skip) {
		gg_value *no = OP("Equal", labels, gg_put_number(t, "ignored", index, (double)skip->i));
		counts = gg_put_cast(t, OP("Not", no, 0), type);
		labels = gg_put_where(t, no, gg_put_number(t, "label", index, 0), labels);
	}
	if (IN(2)) {
		gg_value *w = OP("Gather", IN(2), labels);
		counts = counts ? OP("Mul", counts, w) : w;
	}
	total = counts ? gg_put_all(t, "ReduceSum", counts) : gg_put_cast(t, OP("Size", labels, 0), type);
	*each = !strcmp(gg_get_string(n, "reduction"), "mean") ? OP("Div", dy, total) : dy;
	if (*each && (*each)->shape.rank > 0)
		*each = OP("Unsqueeze", *each, gg_put_ints(t, 1, one));
	if (counts)
		*each = OP("Mul", *each, OP("Unsqueeze", counts, gg_put_ints(t, 1, one)));
	gg_set_f64(&off_on, 1, 1);
	gg_value *in[] = {labels, gg_put_number(t, "classes", GG_I64, (double)x->shape.dim[1]),
	                  gg_add_tensor(t->g, "hot", &off_on)};
	gg_value *y = gg_put(t, "OneHot", 3, in, 0);
	if (y)
		gg_set_attr_int(y->producer, "axis", 1);
	return gg_put_done(t, y);
}

#define GG_NLL_ATTRS \
	.attrs = (const gg_attr_spec[]) \
	{ \
		{"ignore_index", GG_ATTR_INT}, {"reduction", GG_ATTR_STRING, .def = "\"mean\""}, { 0 } \
	}

#endif
