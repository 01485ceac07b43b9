/* The shape rule and the kernel of all reductions; the ops are rows in op/Reduce*.c. */
#include "op/reduce.h"

enum { BLOCK = 512 };

/* Which axes are reduced, as bits; *known false when the axes are not known. */
static bool reduced_axes(gg_infer *f, int rank, bool *known, uint32_t *bits)
{
	uint32_t all = rank > 0 ? (1u << rank) - 1 : 0;
	bool given = f->nin > 1 && f->in[1].dtype != GG_NONE, noop = gg_get_int(f->n, "noop_with_empty_axes");
	*known = true;
	*bits = 0;
	if (given && !gg_want_axes(f, 1, rank, known, bits))
		return false;
	if (*known && !*bits && !noop)
		*bits = all;
	return true;
}

bool gg_reduce_infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape;
	gg_shape *out = &f->out[0].shape;
	bool keep = gg_get_int(f->n, "keepdims"), known;
	uint32_t bits;
	f->out[0].dtype = f->in[0].dtype;
	if (s->rank < 0)
		return true;
	if (!reduced_axes(f, s->rank, &known, &bits))
		return false;
	if (!known) {
		const gg_shape *axes = &f->in[1].shape;
		if (keep)
			gg_unknown_dims(f, 0, s->rank);
		else if (axes->rank == 1 && axes->dim[0] > 0 && axes->dim[0] <= s->rank)
			gg_unknown_dims(f, 0, s->rank - (int)axes->dim[0]);
		return true;
	}
	out->rank = 0;
	for (int i = 0; i < s->rank; i++) {
		if (!(bits >> i & 1))
			out->dim[out->rank++] = s->dim[i];
		else if (keep)
			out->dim[out->rank++] = 1;
	}
	return true;
}

static gg_wide least(gg_dtype t)
{
	return gg_dtype_class(t) == 'I' ? INT64_MIN >> (64 - gg_dtype_bits(t)) : 0;
}

static gg_wide most(gg_dtype t)
{
	int bits = gg_dtype_class(t) == 'I' ? gg_dtype_bits(t) - 1 : t == GG_BOOL ? 1 : gg_dtype_bits(t);
	return ((gg_wide)1 << bits) - 1;
}

static int64_t fold_ints(const gg_reduction *r, gg_dtype t, const void *src, int64_t off, int64_t n)
{
	int64_t v[BLOCK];
	gg_wide a = r->istart;
	if (r->by_order)
		a = r->istart < 0 ? least(t) : most(t);
	for (int64_t at = 0; at < n; at += BLOCK) {
		int64_t k = n - at < BLOCK ? n - at : BLOCK;
		gg_load_i64(t, src, off + at, k, v);
		a = r->istep(a, v, k, t == GG_U64);
	}
	return (int64_t)r->iend(a, n);
}

static double fold_floats(const gg_reduction *r, gg_dtype t, const void *src, int64_t off, int64_t n)
{
	double v[BLOCK], a = r->start;
	if (r->row) {
		r->row(t, src, off, n, &a);
		return a;
	}
	for (int64_t at = 0; at < n; at += BLOCK) {
		int64_t k = n - at < BLOCK ? n - at : BLOCK;
		gg_load_f64(t, src, off + at, k, v);
		a = r->step(a, v, k);
	}
	return r->end(a, n);
}

/* x with the axes in `bits` behind the others; x itself where they are there already. */
static const void *rows_of(gg_eval *e, const gg_tensor *x, uint32_t bits)
{
	int64_t stride[GG_MAX_RANK], dim[GG_MAX_RANK], from[GG_MAX_RANK], to[GG_MAX_RANK];
	int n = 0;
	bool moved = false;
	gg_strides(&x->shape, stride);
	for (int reduced = 0; reduced < 2; reduced++)
		for (int i = 0; i < x->shape.rank; i++) {
			if ((int)(bits >> i & 1) != reduced)
				continue;
			moved |= n != i && x->shape.dim[i] != 1;
			dim[n] = x->shape.dim[i];
			from[n++] = stride[i];
		}
	if (!moved || gg_count(x) == 0)
		return x->data;
	gg_shape order = gg_shape_of(n, dim);
	gg_strides(&order, to);
	void *rows = gg_alloc(e->a, gg_nbytes(x));
	gg_move(gg_dtype_size(x->dtype), n, dim, x->data, from, rows, to);
	return rows;
}

bool gg_reduce_eval(gg_eval *e, const gg_reduction *r)
{
	gg_tensor *x = &e->in[0], *y = &e->out[0];
	gg_infer f = {.n = e->n, .d = e->d, .a = e->a, .nin = e->nin, .nout = 1, .tensors = true};
	int64_t count = 1, rows = gg_count(y);
	uint32_t bits;
	bool known;
	f.in = gg_alloc_n(e->a, (size_t)e->nin, sizeof *f.in);
	for (int i = 0; i < e->nin; i++)
		f.in[i] = (gg_info){.dtype = e->in[i].dtype, .shape = e->in[i].shape, .data = &e->in[i]};
	if (!reduced_axes(&f, x->shape.rank, &known, &bits))
		return false;
	for (int i = 0; i < x->shape.rank; i++)
		count *= bits >> i & 1 ? x->shape.dim[i] : 1;
	const void *src = rows_of(e, x, bits);
	for (int64_t i = 0; i < rows; i++) {
		if (gg_dtype_class(x->dtype) == 'F') {
			double v = fold_floats(r, x->dtype, src, i * count, count);
			gg_store_f64(y->dtype, y->data, i, 1, &v);
		} else {
			int64_t v = fold_ints(r, x->dtype, src, i * count, count);
			gg_store_i64(y->dtype, y->data, i, 1, &v);
		}
	}
	return true;
}
