#include "opkit.h"
#include <string.h>

static inline void pick(size_t size, void *dst, const void *src)
{
	switch (size) {
	case 1:
		memcpy(dst, src, 1);
		return;
	case 2:
		memcpy(dst, src, 2);
		return;
	case 4:
		memcpy(dst, src, 4);
		return;
	default:
		memcpy(dst, src, 8);
		return;
	}
}

static bool eval(gg_eval *e)
{
	gg_tensor *out = &e->out[0];
	const gg_shape *s = &out->shape;
	size_t size = gg_dtype_size(out->dtype);
	int64_t stride[3][GG_MAX_RANK], idx[GG_MAX_RANK] = {0};
	char *to = out->data;
	for (int i = 0; i < 3; i++)
		gg_bcast_strides(&e->in[i].shape, s, stride[i]);
	for (bool more = gg_count(out) > 0; more; more = gg_next_index(s, idx), to += size) {
		int64_t at[3] = {0};
		for (int i = 0; i < 3; i++)
			for (int k = 0; k < s->rank; k++)
				at[i] += idx[k] * stride[i][k];
		int side = gg_get_i64(&e->in[0], at[0]) ? 1 : 2;
		pick(size, to, (const char *)e->in[side].data + (size_t)at[side] * size);
	}
	return true;
}

static bool infer(gg_infer *f)
{
	if (!gg_infer_broadcast(f))
		return false;
	gg_move_content(f, 6);
	return true;
}

const gg_op gg_op_Where = {.name = "Where",
                           .doc = "x where the condition holds, else y; broadcast",
                           .min_in = 3,
                           .max_in = 3,
                           .min_out = 1,
                           .max_out = 1,
                           .flags = GG_POINTWISE | GG_INPLACE,
                           .in = {{GG_DT(GG_BOOL)}, {GG_ANY, 'T'}, {GG_ANY, 'T'}},
                           .out = {{GG_ANY, 'T'}},
                           .infer = infer,
                           .eval = eval,
                           .expr = "x != 0 ? y : z"};
