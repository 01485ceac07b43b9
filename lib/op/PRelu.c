#include "pointwise.h"
#include "grad.h"

static double f(double x, double y, const double *attr) { return x < 0 ? x * y : x; }
static int64_t i(int64_t x, int64_t y, const double *attr)
{
	return x < 0 ? (int64_t)((uint64_t)x * (uint64_t)y) : x;
}
static int64_t u(int64_t x, int64_t y, const double *attr) { return x; }
static bool eval(gg_eval *e) { return gg_map2(e, f, e->in[0].dtype == GG_U64 ? u : i, 0); }

static bool infer(gg_infer *f)
{
	const gg_shape *x = &f->in[0].shape, *slope = &f->in[1].shape;
	gg_shape both;
	f->out[0].shape = *x;
	if (x->rank < 0 || slope->rank < 0)
		return true;
	bool good = slope->rank <= x->rank && gg_broadcast(x, slope, &both);
	for (int k = 0; good && k < x->rank; k++)
		good = !gg_dim_known(x->dim[k]) || !gg_dim_known(both.dim[k]) || both.dim[k] == x->dim[k];
	return good || gg_fail(f, "slope has shape %s, which cannot be broadcast to %s", gg_str(f, slope),
	                       gg_str(f, x));
}

GG_GRAD(grad)
{
	gg_value *x = IN(0), *below = OP("Less", x, NUM(dy, 0));
	if (gg_grad_wanted(x))
		gg_give(t, x, gg_put_where(t, below, OP("Mul", dy, IN(1)), dy));
	if (gg_grad_wanted(IN(1)))
		gg_give_like(t, n, IN(1), gg_grad_masked(t, below, OP("Mul", dy, x), true));
}

#define TYPES (GG_FLOATS | GG_DT(GG_I32) | GG_DT(GG_I64) | GG_DT(GG_U32) | GG_DT(GG_U64))
const gg_op gg_op_PRelu = {GG_POINTWISE_OP(PRelu, "x, or slope * x below 0", 2, 0),
                           .in = {{TYPES, 'T'}, {TYPES, 'T'}},
                           .out = {{TYPES, 'T'}},
                           .infer = infer,
                           .eval = eval,
                           .grad = grad,
                           .expr = "x < 0 ? x * y : x"};
