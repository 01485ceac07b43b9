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
                                             .eval = eval};
