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

static inline bool eval_blocks(gg_eval *e, bool to_wide)
{
	const gg_tensor *x = &e->in[0];
	gg_tensor *y = &e->out[0];
	const gg_shape *wide = to_wide ? &y->shape : &x->shape;
	int64_t b = gg_get_int(e->n, "blocksize");
	int64_t n = wide->dim[0], c = wide->dim[1], h = wide->dim[2] / b, w = wide->dim[3] / b, hw = h * w;
	bool dcr = !strcmp(gg_get_string(e->n, "mode"), "DCR");
	/* indices:                     n            c                        h      row      w  column */
	int64_t dim[] = {n, c, h, b, w, b};
	int64_t deep[] = {c * b * b * hw,   dcr ? hw : b * b * hw, w, (dcr ? b * c : b) * hw, 1,
	                  dcr ? c * hw : hw};
	int64_t flat[] = {c * b * b * hw, b * b * hw, b * w * b, w * b, b, 1};
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
