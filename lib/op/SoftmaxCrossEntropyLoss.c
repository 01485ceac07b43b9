#include "nll.h"

static bool infer(gg_infer *f)
{
	if (f->nout > 1)
		f->out[1].shape = f->in[0].shape;
	return infer_nll(f);
}

/* v along the classes, `inner` apart, becomes its LogSoftmax. */
static void log_softmax(double *v, int64_t n, int64_t inner)
{
	double top = -INFINITY, sum = 0;
	for (int64_t i = 0; i < n; i++)
		top = v[i * inner] > top ? v[i * inner] : top;
	for (int64_t i = 0; i < n; i++)
		sum += exp(v[i * inner] - top);
	sum = log(sum);
	for (int64_t i = 0; i < n; i++)
		v[i * inner] = v[i * inner] - top - sum;
}

static bool eval(gg_eval *e)
{
	const gg_shape *x = &e->in[0].shape;
	int64_t classes = x->dim[1], inner = gg_span(x, 2, x->rank), rows = x->dim[0] * inner;
	double *p = gg_doubles(&e->in[0]);
	for (int64_t i = 0; classes && i < rows; i++)
		log_softmax(p + i / inner * classes * inner + i % inner, classes, inner);
	if (gg_wanted(e, 1))
		gg_store_all(&e->out[1], p);
	bool good = eval_nll(e, p);
	free(p);
	return good;
}

static gg_value *over_classes(gg_builder *t, gg_value *y)
{
	if (y)
		gg_set_attr_int(y->producer, "axis", 1);
	return gg_put_done(t, y);
}

/* Of the loss, and of the log-probabilities. */
GG_GRAD(grad)
{
	gg_value *x = IN(0), *logs = gg_grad_out(n, 1), *each = 0;
	gg_value *hot = dy ? nll_one_hot(t, n, &each, dy) : 0;
	gg_value *p = hot ? over_classes(t, gg_put(t, "Softmax", 1, &x, 0)) : 0;
	if (p)
		gg_give(t, x, OP("Mul", OP("Sub", p, hot), each));
	if (logs)
		gg_give(t, x,
		        over_classes(t, gg_put(t, "LogSoftmaxGrad", 2, (gg_value *[]){logs, n->out[1]}, 0)));
}

const gg_op gg_op_SoftmaxCrossEntropyLoss = {.name = "SoftmaxCrossEntropyLoss",
                                             .doc = "negated log of the softmax at each label",
                                             .min_in = 2,
                                             .max_in = 3,
                                             .min_out = 1,
                                             .max_out = 2,
                                             GG_NLL_ATTRS,
                                             .in = {{GG_FLOATS, 'T'}, {GG_INDICES}, {GG_FLOATS, 'T'}},
                                             .out = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'T'}},
                                             .infer = infer,
                                             .eval = eval,
                                             .grad = grad};
