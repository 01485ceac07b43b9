#include "intmatmul.h"
#include <math.h>

enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, Y_SCALE, Y_ZERO };

static bool infer(gg_infer *f)
{
	const gg_shape *a = &f->in[A].shape, *b = &f->in[B].shape;
	gg_info first = f->in[1];
	f->in[1] = f->in[B]; /* where the rule for products looks */
	bool good = gg_infer_matmul(f);
	f->in[1] = first;
	const gg_shape *y = &f->out[0].shape;
	return good && along_fits(f, A_SCALE, "scale of a", a, true) &&
	       along_fits(f, A_ZERO, "zero point of a", a, true) &&
	       along_fits(f, B_SCALE, "scale of b", b, false) &&
	       along_fits(f, B_ZERO, "zero point of b", b, false) &&
	       along_fits(f, Y_SCALE, "scale of y", y, true) &&
	       along_fits(f, Y_ZERO, "zero point of y", y, true);
}

/* A parameter read along the indices of y. */
typedef struct reader {
	gg_tensor t;
	int64_t stride[GG_MAX_RANK];
} reader;

static reader read_along(const gg_tensor *t, const gg_shape *y, bool rows)
{
	reader r = {.t = along(*t, rows)};
	gg_bcast_strides(&r.t.shape, y, r.stride);
	return r;
}

static double at(const reader *r, const gg_shape *y, const int64_t *idx)
{
	int64_t k = 0;
	for (int i = 0; i < y->rank; i++)
		k += idx[i] * r->stride[i];
	return gg_get_f64(&r->t, k);
}

static bool eval(gg_eval *e)
{
	gg_tensor *y = &e->out[0], acc = *y;
	const gg_shape *s = &y->shape;
	int64_t idx[GG_MAX_RANK] = {0}, k = 0;
	gg_tensor a = less_zero(e, e->in[A], &e->in[A_ZERO], true),
	          b = less_zero(e, e->in[B], &e->in[B_ZERO], false);
	acc.dtype = GG_I64;
	acc.data = gg_alloc_n(e->a, (size_t)gg_count(y), sizeof(int64_t));
	gg_matmul(&a, &b, &acc);
	reader sa = read_along(&e->in[A_SCALE], s, true), sb = read_along(&e->in[B_SCALE], s, false);
	reader sy = read_along(&e->in[Y_SCALE], s, true), zy = read_along(&e->in[Y_ZERO], s, true);
	double lo = y->dtype == GG_I8 ? -128 : 0, hi = y->dtype == GG_I8 ? 127 : 255;
	for (bool more = gg_count(y) > 0; more; more = gg_next_index(s, idx), k++) {
		double v = (double)gg_get_i64(&acc, k) *
		           (at(&sa, s, idx) * at(&sb, s, idx) / at(&sy, s, idx));
		v = rint(v) + at(&zy, s, idx);
		gg_set_f64(y, k, v < lo ? lo : v > hi ? hi : v);
	}
	return true;
}

#define SCALES (GG_DT(GG_F32) | GG_DT(GG_F16) | GG_DT(GG_BF16))
const gg_op gg_op_QLinearMatMul = {.name = "QLinearMatMul",
                                   .doc = "matrix product of quantised matrices, quantised again",
                                   .min_in = 8,
                                   .max_in = 8,
                                   .min_out = 1,
                                   .max_out = 1,
                                   .in = {{GG_BYTES, 'A'},
                                          {SCALES, 'S'},
                                          {GG_BYTES, 'A'},
                                          {GG_BYTES, 'B'},
                                          {SCALES, 'S'},
                                          {GG_BYTES, 'B'},
                                          {SCALES, 'S'},
                                          {GG_BYTES, 'Y'}},
                                   .out = {{GG_BYTES, 'Y'}},
                                   .infer = infer,
                                   .eval = eval};
