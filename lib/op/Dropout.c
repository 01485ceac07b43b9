#include "opkit.h"
#include "grad.h"
#include <string.h>

static bool present(const gg_eval *e, int i) { return i < e->nin && e->in[i].dtype; }

/* Inference, or a ratio of 0: a copy, and a mask that keeps all. */
static bool keep_all(gg_eval *e)
{
	if (e->nout > 1 && e->out[1].dtype)
		gg_fill_value(&e->out[1], 1);
	return gg_eval_copy(e);
}

static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0];
	bool training = present(e, 2) && gg_get_i64(&e->in[2], 0);
	double ratio = present(e, 1) ? gg_get_f64(&e->in[1], 0) : 0.5;
	if (!training || ratio == 0)
		return keep_all(e);
	if (!(ratio > 0 && ratio < 1))
		return gg_fail(e, "ratio is %g, expected a number from 0 to below 1", ratio);
	uint64_t seed = gg_random_seed(e);
	int64_t n = gg_count(x);
	for (int64_t i = 0; i < n; i++) {
		bool keep = gg_uniform(seed, (uint64_t)i) >= ratio;
		gg_set_f64(&e->out[0], i, keep ? gg_get_f64(x, i) / (1 - ratio) : 0);
		if (e->nout > 1 && e->out[1].dtype)
			gg_set_i64(&e->out[1], i, keep);
	}
	return true;
}

static bool infer(gg_infer *f)
{
	static const char *const name[] = {"", "ratio", "training_mode"};
	for (int i = 1; i < f->nin; i++)
		if (f->in[i].dtype && f->in[i].shape.rank > 0 && gg_shape_known(&f->in[i].shape) &&
		    gg_shape_count(&f->in[i].shape) != 1)
			return gg_fail(f, "input '%s' has shape %s, expected a scalar", name[i],
			               gg_str(f, &f->in[i].shape));
	for (int i = 0; i < f->nout; i++)
		f->out[i].shape = f->in[0].shape;
	return true;
}

/* Where the mask lets through, divided by what is kept. */
GG_GRAD(grad)
{
	gg_tensor ratio, mode;
	gg_value *r = IN(1), *training = IN(2);
	bool on = training && gg_is_const(training) && gg_value_tensor(t->d, training, &mode) &&
	          gg_get_f64(&mode, 0) != 0;
	if (training && !gg_is_const(training)) {
		gg_grad_lacks(t, n, "whether it trains is not constant");
		return;
	}
	if (!on) {
		gg_give(t, IN(0), dy);
		return;
	}
	if ((r && (!gg_is_const(r) || !gg_value_tensor(t->d, r, &ratio))) || !gg_out(n, 1)) {
		gg_grad_lacks(t, n, "its ratio is not constant, or it has no mask");
		return;
	}
	double keep = 1 - (r ? gg_get_f64(&ratio, 0) : 0.5);
	gg_value *through = gg_put_cast(t, gg_out(n, 1), (gg_dtype)dy->dtype);
	gg_give(t, IN(0), OP("Mul", OP("Mul", dy, through), NUM(dy, keep > 0 ? 1 / keep : 0)));
}

#define TYPES (GG_FLOATS | GG_DT(GG_F8E4M3) | GG_DT(GG_F8E5M2))
const gg_op gg_op_Dropout = {.name = "Dropout",
                             .doc = "x with a random part of it 0 and the rest scaled up, in training",
                             .min_in = 1,
                             .max_in = 3,
                             .min_out = 1,
                             .max_out = 2,
                             .attrs = (const gg_attr_spec[]){{"seed", GG_ATTR_INT, false, 0}, {0}},
                             .flags = GG_RANDOM,
                             .in = {{TYPES, 'T'}, {TYPES}, {GG_DT(GG_BOOL)}},
                             .out = {{TYPES, 'T'}, {GG_DT(GG_BOOL)}},
                             .infer = infer,
                             .eval = eval,
                             .grad = grad};
