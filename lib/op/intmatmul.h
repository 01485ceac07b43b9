/* What products of quantised matrices share: zero points and scales that are one for all, one for
 * each row (of the left matrix) or one for each column (of the right). */
#ifndef GG_OP_INTMATMUL_H
#define GG_OP_INTMATMUL_H

#include "opkit.h"

#define GG_BYTES (GG_DT(GG_I8) | GG_DT(GG_U8))

/* A vector of a left matrix has one element for each row. */
static inline gg_tensor along(gg_tensor t, bool rows)
{
	if (rows && t.shape.rank == 1 && t.shape.dim[0] != 1)
		t.shape = (gg_shape){2, {t.shape.dim[0], 1}};
	if (t.shape.rank == 1 && t.shape.dim[0] == 1)
		t.shape.rank = 0;
	return t;
}

/* Parameter `i` fits a matrix of shape `of`: rules call it. */
static inline bool along_fits(gg_infer *f, int i, const char *what, const gg_shape *of, bool rows)
{
	gg_shape s = along((gg_tensor){.shape = i < f->nin ? f->in[i].shape : gg_shape_unknown}, rows).shape,
	         both;
	if (s.rank < 0 || of->rank < 0)
		return true;
	bool good = s.rank <= of->rank && gg_broadcast(of, &s, &both);
	for (int k = 0; good && k < of->rank; k++)
		good = !gg_dim_known(of->dim[k]) || !gg_dim_known(both.dim[k]) || of->dim[k] == both.dim[k];
	return good || gg_fail(f, "%s has shape %s, which does not fit %s", what, gg_str(f, &f->in[i].shape),
	                       gg_str(f, of));
}

static int64_t minus(int64_t x, int64_t y, const double *attr) { return x - y; }

/* x - zero as i64, in scratch memory. */
static inline gg_tensor less_zero(gg_eval *e, gg_tensor x, const gg_tensor *zero, bool rows)
{
	int64_t none = 0;
	gg_tensor nothing = {GG_I64, {.rank = 0}, &none}, pair[2] = {x, zero ? along(*zero, rows) : nothing},
	          out = x;
	gg_eval sub = *e;
	out.dtype = GG_I64;
	out.data = gg_alloc_n(e->a, (size_t)gg_count(&x), sizeof(int64_t));
	sub.in = pair;
	sub.out = &out;
	gg_map2(&sub, 0, minus, 0);
	return out;
}

#endif
