/* Transpose and Concat: moving elements, on all threads. */
#include "cpu.h"
#include "../move.h"
#include <string.h>

static bool run_transpose(gg_call *c)
{
	const gg_tensor *x = &c->in[0], *y = &c->out[0];
	const gg_attr *perm = gg_find_attr(c->node, "perm");
	int rank = x->shape.rank, split = 0;
	int64_t stride[GG_MAX_RANK], from[GG_MAX_RANK], to[GG_MAX_RANK], pieces = 1;
	size_t size = gg_dtype_size(x->dtype);
	if (!gg_count(x))
		return true;
	gg_strides(&x->shape, stride);
	gg_strides(&y->shape, to);
	for (int i = 0; i < rank; i++)
		from[i] = stride[perm ? gg_eval_axis(perm->ints[i], rank) : rank - 1 - i];
	while (split < rank && pieces < 4 * cpu_threads && gg_count(x) > 8192)
		pieces *= y->shape.dim[split++];
	char *out = (char *)cpu_out_begin(c, 1, (int[]){0});
#pragma omp parallel for num_threads(cpu_threads) if (pieces > 1)
	for (int64_t p = 0; p < pieces; p++) {
		int64_t s = 0, d = 0, at = p;
		for (int i = split; i-- > 0; at /= y->shape.dim[i]) {
			s += at % y->shape.dim[i] * from[i];
			d += at % y->shape.dim[i] * to[i];
		}
		gg_move(size, rank - split, y->shape.dim + split, (const char *)x->data + s * (int64_t)size,
		        from + split, out + d * (int64_t)size, to + split);
	}
	cpu_out_end(c, (float *)(void *)out);
	return true;
}
const gg_kernel cpu_transpose = {"cpu_transpose", 0, run_transpose, 0};

static int64_t product(const int64_t *dim, int from, int to)
{
	int64_t n = 1;
	for (int i = from; i < to; i++)
		n *= dim[i];
	return n;
}

/* The axis in the order of memory. */
static int physical_axis(int axis, int rank, gg_layout l)
{
	return l != GG_NHWC || rank < 3 || axis == 0 ? axis : axis == 1 ? rank - 1 : axis - 1;
}

static bool run_concat(gg_call *c)
{
	const gg_node *n = c->node;
	const gg_tensor *y = &c->out[0];
	int64_t dim[GG_MAX_RANK], part[GG_MAX_RANK];
	int rank = cpu_physical(&y->shape, c->out_layout[0], dim), reads[64];
	int axis = physical_axis(gg_eval_axis(gg_get_int(n, "axis"), rank), rank, c->out_layout[0]);
	size_t size = gg_dtype_size(y->dtype);
	int64_t outer = product(dim, 0, axis), whole = product(dim, axis, rank), at = 0;
	if (!gg_count(y))
		return true;
	for (int i = 0; i < 64; i++)
		reads[i] = i < c->nin ? i : -1;
	char *out = (char *)cpu_out_begin(c, 64, reads);
	for (int i = 0; i < gg_nargs(n); i++) {
		const gg_tensor *x = &c->in[cpu_slot(c, n, i)];
		cpu_physical(&x->shape, c->out_layout[0], part);
		int64_t len = product(part, axis, rank);
		const char *src = x->data;
#pragma omp parallel for num_threads(cpu_threads) if (outer > 1 && outer * len > 16384)
		for (int64_t o = 0; o < outer; o++)
			if (len)
				memcpy(out + (size_t)(o * whole + at) * size, src + (size_t)(o * len) * size,
				       (size_t)len * size);
		at += len;
	}
	cpu_out_end(c, (float *)(void *)out);
	return true;
}
const gg_kernel cpu_concat = {"cpu_concat", 0, run_concat, 0};
