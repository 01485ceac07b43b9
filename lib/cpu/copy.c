/* Moving elements, on all threads: Transpose, Concat, Split, Slice, Gather, Where. */
#include "cpu.h"
#include "../move.h"
#include <string.h>

/* gg_move in pieces of the outer axes. */
static void move_all(size_t size, int rank, const int64_t *dim, const char *src, const int64_t *from,
                     char *dst, const int64_t *to)
{
	int64_t pieces = 1, count = 1;
	int split = 0;
	for (int i = 0; i < rank; i++)
		count *= dim[i];
	while (split < rank && pieces < 4 * cpu_threads && count > 8192)
		pieces *= dim[split++];
#pragma omp parallel for num_threads(cpu_threads) if (pieces > 1)
	for (int64_t p = 0; p < pieces; p++) {
		int64_t s = 0, d = 0, at = p;
		for (int i = split; i-- > 0; at /= dim[i]) {
			s += at % dim[i] * from[i];
			d += at % dim[i] * to[i];
		}
		gg_move(size, rank - split, dim + split, src + s * (int64_t)size, from + split,
		        dst + d * (int64_t)size, to + split);
	}
}

/* The axis in the order of memory. */
static int physical_axis(int axis, int rank, gg_layout l)
{
	return l != GG_NHWC || rank < 3 || axis == 0 ? axis : axis == 1 ? rank - 1 : axis - 1;
}

/* Values by axis to values by axis in the order of memory. */
static void to_physical(int rank, gg_layout l, int64_t *v)
{
	gg_shape s = {.rank = rank};
	memcpy(s.dim, v, (size_t)rank * sizeof *v);
	cpu_physical(&s, l, v);
}

static bool run_transpose(gg_call *c)
{
	const gg_tensor *x = &c->in[0], *y = &c->out[0];
	const gg_attr *perm = gg_find_attr(c->node, "perm");
	gg_layout lx = c->in_layout[0], ly = c->out_layout[0];
	int rank = x->shape.rank;
	int64_t stride[GG_MAX_RANK], from[GG_MAX_RANK], to[GG_MAX_RANK];
	gg_shape px = x->shape, py = y->shape;
	if (!gg_count(x))
		return true;
	cpu_physical(&x->shape, lx, px.dim);
	cpu_physical(&y->shape, ly, py.dim);
	gg_strides(&px, stride);
	gg_strides(&py, to);
	for (int i = 0; i < rank; i++) {
		int axis = perm ? gg_eval_axis(perm->ints[i], rank) : rank - 1 - i;
		from[i] = stride[physical_axis(axis, rank, lx)];
	}
	to_physical(rank, ly, from);
	char *out = (char *)cpu_out_begin(c, 1, (int[]){0});
	move_all(gg_dtype_size(x->dtype), rank, py.dim, x->data, from, out, to);
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

static bool run_split(gg_call *c)
{
	const gg_tensor *x = &c->in[0];
	int64_t dim[GG_MAX_RANK], part[GG_MAX_RANK], at = 0;
	gg_layout l = c->in_layout[0];
	int rank = cpu_physical(&x->shape, l, dim);
	int axis = physical_axis(gg_eval_axis(gg_get_int(c->node, "axis"), rank), rank, l);
	int64_t outer = product(dim, 0, axis), whole = product(dim, axis, rank);
	size_t size = gg_dtype_size(x->dtype);
	for (int i = 0; i < c->nout; i++) {
		const gg_tensor *y = &c->out[i];
		cpu_physical(&y->shape, l, part);
		int64_t len = product(part, axis, rank);
		if (at + len > whole)
			return gg_node_error(c->d, GG_MALFORMED, c->node,
			                     "split sizes add up to more than the axis has");
		if (y->dtype && outer && len)
			move_all(size, 2, (int64_t[]){outer, len}, (const char *)x->data + (size_t)at * size,
			         (int64_t[]){whole, 1}, y->data, (int64_t[]){len, 1});
		at += len;
	}
	return true;
}
const gg_kernel cpu_split = {"cpu_split", 0, run_split, 0};

static bool run_slice(gg_call *c)
{
	const gg_tensor *x = &c->in[0], *y = &c->out[0];
	gg_arena a = {0};
	gg_eval e = {
	    .n = c->node, .d = c->d, .a = &a, .nin = c->nin, .nout = c->nout, .in = c->in, .out = c->out};
	int64_t first[GG_MAX_RANK], step[GG_MAX_RANK], from[GG_MAX_RANK], to[GG_MAX_RANK], offset = 0;
	gg_shape px = x->shape, py = y->shape;
	gg_layout l = c->in_layout[0];
	size_t size = gg_dtype_size(x->dtype);
	bool ok = !gg_count(y) || gg_slice_bounds(&e, first, step);
	if (ok && gg_count(y)) {
		int rank = cpu_physical(&x->shape, l, px.dim);
		cpu_physical(&y->shape, l, py.dim);
		to_physical(rank, l, first);
		to_physical(rank, l, step);
		gg_strides(&px, from);
		gg_strides(&py, to);
		for (int i = 0; i < rank; i++) {
			offset += first[i] * from[i];
			from[i] *= step[i];
		}
		char *out = (char *)cpu_out_begin(c, 1, (int[]){0});
		move_all(size, rank, py.dim, (const char *)x->data + offset * (int64_t)size, from, out, to);
		cpu_out_end(c, (float *)(void *)out);
	}
	gg_arena_fini(&a);
	return ok;
}
const gg_kernel cpu_slice = {"cpu_slice", 0, run_slice, 0};

static bool run_gather(gg_call *c)
{
	const gg_tensor *x = &c->in[0], *y = &c->out[0];
	gg_arena a = {0};
	gg_eval e = {
	    .n = c->node, .d = c->d, .a = &a, .nin = c->nin, .nout = c->nout, .in = c->in, .out = c->out};
	int axis = gg_eval_axis(gg_get_int(c->node, "axis"), x->shape.rank);
	int64_t outer = gg_span(&x->shape, 0, axis), n = x->shape.dim[axis], count = gg_count(&c->in[1]);
	size_t row = (size_t)gg_span(&x->shape, axis + 1, x->shape.rank) * gg_dtype_size(x->dtype);
	int64_t *at = gg_eval_ints(&e, 1);
	bool ok = !gg_count(y) || gg_eval_indices(&e, at, count, n);
	if (ok && gg_count(y)) {
		char *out = (char *)cpu_out_begin(c, 2, (int[]){0, 1});
#pragma omp parallel for num_threads(cpu_threads) if (gg_nbytes(y) > 65536)
		for (int64_t i = 0; i < outer * count; i++)
			memcpy(out + (size_t)i * row,
			       (const char *)x->data + (size_t)(i / count * n + at[i % count]) * row, row);
		cpu_out_end(c, (float *)(void *)out);
	}
	gg_arena_fini(&a);
	return ok;
}
const gg_kernel cpu_gather = {"cpu_gather", 0, run_gather, 0};

/* Strides of an operand along the axes of the result, in the order of the result's memory. */
static void broadcast_strides(const gg_tensor *t, gg_layout l, const gg_shape *y, gg_layout to,
                              int64_t *stride)
{
	gg_shape p = t->shape;
	int64_t own[GG_MAX_RANK];
	int rank = cpu_physical(&t->shape, l, p.dim);
	gg_strides(&p, own);
	for (int i = 0; i < y->rank; i++)
		stride[i] = 0;
	for (int i = 0; i < rank; i++)
		if (t->shape.dim[i] != 1)
			stride[y->rank - rank + i] = own[physical_axis(i, rank, l)];
	to_physical(y->rank, to, stride);
}

#define PICK(type) \
	for (int64_t k = 0; k < n; k++) \
	((type *)to)[k] = cond[k * step[0]] ? ((const type *)x)[k * step[1]] : ((const type *)y)[k * step[2]]

static void pick(size_t size, int64_t n, void *to, const uint8_t *cond, const void *x, const void *y,
                 const int64_t *step)
{
	switch (size) {
	case 1:
		PICK(uint8_t);
		return;
	case 2:
		PICK(uint16_t);
		return;
	case 4:
		PICK(uint32_t);
		return;
	default:
		PICK(uint64_t);
	}
}

static bool run_where(gg_call *c)
{
	const gg_tensor *y = &c->out[0];
	int64_t stride[3][GG_MAX_RANK], dim[GG_MAX_RANK], step[3] = {0}, count = gg_count(y);
	int rank = cpu_physical(&y->shape, c->out_layout[0], dim);
	int64_t n = rank ? dim[rank - 1] : 1;
	size_t size = gg_dtype_size(y->dtype);
	if (!count)
		return true;
	for (int i = 0; i < 3; i++) {
		broadcast_strides(&c->in[i], c->in_layout[i], &y->shape, c->out_layout[0], stride[i]);
		step[i] = rank ? stride[i][rank - 1] : 0;
	}
	char *out = (char *)cpu_out_begin(c, 3, (int[]){0, 1, 2});
#pragma omp parallel for num_threads(cpu_threads) if (count > 16384)
	for (int64_t r = 0; r < count / n; r++) {
		int64_t at[3] = {0}, q = r;
		for (int i = rank - 1; i-- > 0; q /= dim[i])
			for (int k = 0; k < 3; k++)
				at[k] += q % dim[i] * stride[k][i];
		pick(size, n, out + (size_t)(r * n) * size, (const uint8_t *)c->in[0].data + at[0],
		     (const char *)c->in[1].data + at[1] * (int64_t)size,
		     (const char *)c->in[2].data + at[2] * (int64_t)size, step);
	}
	cpu_out_end(c, (float *)(void *)out);
	return true;
}
const gg_kernel cpu_where = {"cpu_where", 0, run_where, 0};
