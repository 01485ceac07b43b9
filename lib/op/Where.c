#include "opkit.h"
#include "grad.h"
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

/* n elements, each input stepping by its own stride. */
static void row(size_t size, int64_t n, char *to, const uint8_t *c, const char *x, const char *y,
                const int64_t *step)
{
	for (int64_t k = 0; k < n; k++, to += size)
		pick(size, to,
		     c[k * step[0]] ? x + k * step[1] * (int64_t)size : y + k * step[2] * (int64_t)size);
}

/* The condition as bytes: shape rules run this on contents, where it is of another dtype. */
static const uint8_t *condition(gg_eval *e)
{
	const gg_tensor *c = &e->in[0];
	int64_t n = gg_count(c);
	if (c->dtype == GG_BOOL)
		return c->data;
	uint8_t *bytes = gg_alloc(e->a, (size_t)n);
	for (int64_t i = 0; i < n; i++)
		bytes[i] = gg_get_i64(c, i) != 0;
	return bytes;
}

static bool eval(gg_eval *e)
{
	gg_tensor *out = &e->out[0];
	gg_shape outer = out->shape;
	size_t size = gg_dtype_size(out->dtype);
	int64_t stride[3][GG_MAX_RANK], idx[GG_MAX_RANK] = {0}, step[3] = {0}, n = 1;
	char *to = out->data;
	for (int i = 0; i < 3; i++)
		gg_bcast_strides(&e->in[i].shape, &out->shape, stride[i]);
	if (outer.rank > 0) {
		n = outer.dim[--outer.rank];
		for (int i = 0; i < 3; i++)
			step[i] = stride[i][outer.rank];
	}
	const uint8_t *c = condition(e);
	for (bool more = gg_count(out) > 0; more; more = gg_next_index(&outer, idx), to += (size_t)n * size) {
		int64_t at[3] = {0};
		for (int i = 0; i < 3; i++)
			for (int k = 0; k < outer.rank; k++)
				at[i] += idx[k] * stride[i][k];
		row(size, n, to, c + at[0], (const char *)e->in[1].data + at[1] * (int64_t)size,
		    (const char *)e->in[2].data + at[2] * (int64_t)size, step);
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

GG_GRAD(grad)
{
	for (int i = 1; i < 3; i++)
		if (gg_grad_wanted(IN(i)))
			gg_give_like(t, n, IN(i), gg_grad_masked(t, IN(0), dy, i == 1));
}

const gg_op gg_op_Where = {.name = "Where",
                           .doc = "x where the condition holds, else y; broadcast",
                           .min_in = 3,
                           .max_in = 3,
                           .min_out = 1,
                           .max_out = 1,
                           .flags = GG_POINTWISE | GG_INPLACE | GG_MOVES,
                           .in = {{GG_DT(GG_BOOL)}, {GG_ANY, 'T'}, {GG_ANY, 'T'}},
                           .out = {{GG_ANY, 'T'}},
                           .infer = infer,
                           .eval = eval,
                           .grad = grad,
                           .expr = "x != 0 ? y : z"};
