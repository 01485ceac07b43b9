/* DepthToSpace and SpaceToDepth: one shuffle, read either way.
 *
 *     deep  [N, b, b, C, H, W] (DCR)  or  [N, C, b, b, H, W] (CRD)
 *     wide  [N, C, H, b, W, b] */
#ifndef GG_OP_BLOCKS_H
#define GG_OP_BLOCKS_H

#include "move.h"
#include <string.h>

static inline bool infer_blocks(gg_infer *f, bool to_wide)
{
	const gg_shape *x = &f->in[0].shape;
	int64_t b = gg_get_int(f->n, "blocksize");
	const char *mode = gg_get_string(f->n, "mode");
	if (b < 1 || b > 1 << 20)
		return gg_fail(f, "attribute 'blocksize' is %lld, expected 1 to %d", (long long)b, 1 << 20);
	if (strcmp(mode, "DCR") && strcmp(mode, "CRD"))
		return gg_fail(f, "attribute 'mode' is '%s', expected DCR or CRD", mode);
	if (x->rank < 0)
		return true;
	if (x->rank != 4)
		return gg_fail(f, "input has rank %d, expected 4", x->rank);
	gg_shape *y = &f->out[0].shape;
	*y = *x;
	for (int i = 1; i < 4; i++) {
		int64_t k = i == 1 ? b * b : b;
		bool divide = (i == 1) == to_wide;
		if (divide && gg_dim_known(x->dim[i]) && x->dim[i] % k)
			return gg_fail(f, "axis %d has %lld elements, not a multiple of %lld", i,
			               (long long)x->dim[i], (long long)k);
		y->dim[i] = divide ? gg_dim_div(x->dim[i], k) : gg_dim_mul(x->dim[i], k);
	}
	return true;
}

/* The shuffle over n, c, h, row in the block, w, column in the block; by the strides of both sides' axes. */
static inline void blocks_of(const gg_node *n, const gg_shape *wide, const int64_t *d, const int64_t *w,
                             int64_t dim[6], int64_t deep[6], int64_t flat[6])
{
	int64_t b = gg_get_int(n, "blocksize"), c = wide->dim[1];
	bool dcr = !strcmp(gg_get_string(n, "mode"), "DCR");
	const int64_t all[3][6] = {
	    {wide->dim[0], c, wide->dim[2] / b, b, wide->dim[3] / b, b},
	    {d[0], (dcr ? 1 : b * b) * d[1], d[2], (dcr ? b * c : b) * d[1], d[3], (dcr ? c : 1) * d[1]},
	    {w[0], w[1], b * w[2], w[2], b * w[3], w[3]}};
	memcpy(dim, all[0], sizeof all[0]);
	memcpy(deep, all[1], sizeof all[1]);
	memcpy(flat, all[2], sizeof all[2]);
}

static inline bool eval_blocks(gg_eval *e, bool to_wide)
{
	const gg_tensor *x = &e->in[0], *y = &e->out[0], *wide = to_wide ? y : x;
	int64_t dim[6], deep[6], flat[6], d[GG_MAX_RANK], w[GG_MAX_RANK];
	gg_strides(to_wide ? &x->shape : &y->shape, d);
	gg_strides(&wide->shape, w);
	blocks_of(e->n, &wide->shape, d, w, dim, deep, flat);
	if (gg_count(x))
		gg_move(gg_dtype_size(x->dtype), 6, dim, x->data, to_wide ? deep : flat, y->data,
		        to_wide ? flat : deep);
	return true;
}

#define GG_BLOCKS(NAME, DOC, TO_WIDE, ...) \
	static bool infer(gg_infer *f) { return infer_blocks(f, TO_WIDE); } \
	static bool eval(gg_eval *e) { return eval_blocks(e, TO_WIDE); } \
	const gg_op gg_op_##NAME = { \
	    .name = #NAME, \
	    .doc = DOC, \
	    .min_in = 1, \
	    .max_in = 1, \
	    .min_out = 1, \
	    .max_out = 1, \
	    .attrs = (const gg_attr_spec[]){{"blocksize", GG_ATTR_INT, .required = true}, \
	                                    {"mode", GG_ATTR_STRING, .def = "\"DCR\""}, \
	                                    {0}}, \
	    .flags = GG_MOVES, \
	    .in = {{GG_ANY, 'T'}}, \
	    .out = {{GG_ANY, 'T'}}, \
	    .infer = infer, \
	    .eval = eval, \
	    __VA_ARGS__}

#endif
