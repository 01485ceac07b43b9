#include "pointwise.h"
#include "grad.h"

/* The result has x's dtype, y may have any other. */
static double f(double x, double y, const double *attr) { return pow(x, y); }

/* A negative exponent leaves the integer part of the fraction; 0 to a negative power is 0. */
static int64_t i(int64_t x, int64_t y, const double *attr)
{
	uint64_t r = 1, b = (uint64_t)x;
	if (y < 0)
		return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
	for (; y; y >>= 1, b *= b)
		r *= y & 1 ? b : 1;
	return (int64_t)r;
}

/* An exponent of u64 past the signed range: only its parity and size matter, and 63 bits keep both. */
static int64_t u(int64_t x, int64_t y, const double *attr) { return i(x, y < 0 ? y & INT64_MAX : y, attr); }

static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0];
	if (gg_dtype_class(x->dtype) == 'F' || gg_dtype_class(e->in[1].dtype) != 'F')
		return gg_map2(e, f, e->in[1].dtype == GG_U64 ? u : i, 0);
	/* Integer to a float power: in double, then toward zero. */
	int64_t n = gg_count(x);
	gg_tensor wide[2] = {*x, e->in[1]};
	gg_eval sub = *e;
	wide[0].dtype = GG_F64;
	wide[0].data = gg_alloc_n(e->a, (size_t)n, sizeof(double));
	gg_load_f64(x->dtype, x->data, 0, n, wide[0].data);
	sub.in = wide;
	return gg_map2(&sub, f, 0, 0);
}

GG_GRAD(grad)
{
	gg_value *x = IN(0), *e = gg_put_cast(t, IN(1), (gg_dtype)x->dtype);
	if (gg_grad_wanted(x)) {
		gg_value *less = OP("Pow", x, OP("Sub", e, NUM(x, 1)));
		gg_give_like(t, n, x, OP("Mul", dy, OP("Mul", less, e)));
	}
	if (gg_grad_wanted(IN(1)))
		gg_give_like(t, n, IN(1), OP("Mul", dy, OP("Mul", OUT, OP("Log", x, 0))));
}

#define BASES (GG_FLOATS | GG_DT(GG_I32) | GG_DT(GG_I64))
const gg_op gg_op_Pow = {GG_POINTWISE_OP(Pow, "x to the power of y, broadcast", 2, 0),
                         .in = {{BASES, 'T'}, {GG_NUMBERS}},
                         .out = {{BASES, 'T'}},
                         .infer = gg_infer_broadcast,
                         .eval = eval,
                         .grad = grad,
                         .expr = "pow(x, y)"};
