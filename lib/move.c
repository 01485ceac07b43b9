#include "move.h"
#include <string.h>

typedef struct axis {
	int64_t n, from, to; /* strides in bytes */
} axis;

/* Drops axes of one element and joins neighbours that are one run in both; -1: nothing to do. */
static int collapse(int rank, const int64_t *dim, const int64_t *from, const int64_t *to, int64_t size,
                    axis *ax)
{
	int n = 0;
	for (int i = 0; i < rank; i++)
		if (dim[i] == 0)
			return -1;
	for (int i = 0; i < rank; i++) {
		if (dim[i] == 1)
			continue;
		axis a = {dim[i], from[i] * size, to[i] * size}, *p = n ? &ax[n - 1] : NULL;
		if (p && p->from == a.n * a.from && p->to == a.n * a.to)
			*p = (axis){p->n * a.n, a.from, a.to};
		else
			ax[n++] = a;
	}
	return n;
}

/* Elements are copied by memcpy of a constant size: one load and store, whatever the alignment. */
#define TILE 16
#define PLANE(SIZE) \
	static void plane##SIZE(axis p, axis q, const char *src, char *dst) \
	{ \
		for (int64_t i = 0; i < p.n; i += TILE) \
			for (int64_t j = 0; j < q.n; j += TILE) { \
				int64_t ni = p.n - i < TILE ? p.n - i : TILE; \
				int64_t nj = q.n - j < TILE ? q.n - j : TILE; \
				for (int64_t a = i; a < i + ni; a++) { \
					const char *s = src + a * p.from + j * q.from; \
					char *d = dst + a * p.to + j * q.to; \
					for (int64_t b = 0; b < nj; b++) \
						memcpy(d + b * q.to, s + b * q.from, SIZE); \
				} \
			} \
	}
PLANE(1)
PLANE(2)
PLANE(4)
PLANE(8)

/* Two axes; q is the inner one of dst. */
static void plane(size_t size, axis p, axis q, const char *src, char *dst)
{
	if (q.from == (int64_t)size && q.to == (int64_t)size) {
		for (int64_t i = 0; i < p.n; i++)
			memcpy(dst + i * p.to, src + i * p.from, (size_t)q.n * size);
		return;
	}
	switch (size) {
	case 1:
		plane1(p, q, src, dst);
		return;
	case 2:
		plane2(p, q, src, dst);
		return;
	case 4:
		plane4(p, q, src, dst);
		return;
	case 8:
		plane8(p, q, src, dst);
		return;
	}
	gg_bug("elements of %zu bytes", size);
}

void gg_move(size_t size, int rank, const int64_t *dim, const void *src, const int64_t *from, void *dst,
             const int64_t *to)
{
	axis ax[GG_MOVE_RANK], p = {1, 0, 0}, q;
	int64_t at[GG_MOVE_RANK] = {0};
	int n = collapse(rank, dim, from, to, (int64_t)size, ax), k;
	if (n < 0)
		return;
	q = n ? ax[--n] : (axis){1, (int64_t)size, (int64_t)size};
	/* A short run is one larger element. */
	if (n && q.from == (int64_t)size && q.to == (int64_t)size && (q.n == 2 || q.n == 4) &&
	    (size_t)q.n * size <= 8) {
		size *= (size_t)q.n;
		q = ax[--n];
	}
	/* Where dst runs across src, the axis along which src runs is tiled with it. */
	for (k = n - 1; k > 0 && q.from != (int64_t)size && ax[k].from != (int64_t)size;)
		k--;
	if (n && (q.from == (int64_t)size || ax[k].from != (int64_t)size))
		k = n - 1;
	if (n) {
		p = ax[k];
		memmove(&ax[k], &ax[k + 1], (size_t)(--n - k) * sizeof *ax);
	}
	const char *s = src;
	char *d = dst;
	for (;;) {
		plane(size, p, q, s, d);
		int i = n - 1;
		for (; i >= 0 && ++at[i] == ax[i].n; i--) {
			at[i] = 0;
			s -= (ax[i].n - 1) * ax[i].from;
			d -= (ax[i].n - 1) * ax[i].to;
		}
		if (i < 0)
			return;
		s += ax[i].from;
		d += ax[i].to;
	}
}

void gg_move_fill(size_t size, void *dst, const void *value, int64_t n)
{
	const int64_t zero = 0, one = 1;
	gg_move(size, 1, &n, value, &zero, dst, &one);
}

int64_t gg_span(const gg_shape *s, int from, int to)
{
	uint64_t n = 1; /* beside a dim of 0 the others may be anything */
	for (int i = from; i < to; i++)
		n *= (uint64_t)s->dim[i];
	return (int64_t)n;
}

void gg_strides(const gg_shape *s, int64_t *stride)
{
	for (int i = 0; i < s->rank; i++)
		stride[i] = gg_span(s, i + 1, s->rank);
}

/* ---- rules ----------------------------------------------------------------------------------- */

const int64_t *gg_want_ints(gg_infer *f, int i, int *n)
{
	if (i >= f->nin)
		return NULL;
	const gg_tensor *t = gg_want(f, i);
	if (t) {
		int64_t count = gg_count(t), *v = gg_alloc_n(f->a, (size_t)count + 1, sizeof *v);
		if (count > 0)
			gg_load_i64(t->dtype, t->data, 0, count, v);
		*n = (int)count;
		return v;
	}
	const gg_dim *d = gg_want_dims(f, i, n);
	for (int j = 0; d && j < *n; j++)
		if (!gg_dim_number(d[j]))
			return NULL;
	return d;
}

bool gg_want_axes(gg_infer *f, int i, int rank, bool *known, uint32_t *bits)
{
	int n, axis;
	const int64_t *v = rank < 0 ? NULL : gg_want_ints(f, i, &n);
	*known = v != NULL;
	*bits = 0;
	for (int j = 0; v && j < n; j++) {
		if (!gg_axis(f, "axis", v[j], rank, &axis))
			return false;
		if (*bits >> axis & 1)
			return gg_fail(f, "axis %lld is given twice", (long long)v[j]);
		*bits |= 1u << axis;
	}
	return true;
}

static bool is_small(const gg_info *t)
{
	int64_t n = gg_shape_known(&t->shape) ? gg_shape_count(&t->shape) : -1;
	return n >= 0 && n <= GG_MAX_CONTENT;
}

/* Input i as a tensor of i64 whose elements are dims, or as it is. */
static bool as_tensor(gg_infer *f, int i, bool moved, gg_tensor *t)
{
	const gg_info *in = &f->in[i];
	int n;
	if (in->dtype == GG_NONE)
		return true;
	if (!is_small(in))
		return false;
	const gg_tensor *data = moved ? NULL : gg_want(f, i);
	if (data) {
		*t = *data;
		return true;
	}
	const gg_dim *d = GG_DT(in->dtype) & (GG_INDICES | GG_DT(GG_BOOL)) ? gg_want_dims(f, i, &n) : NULL;
	for (int j = 0; d && !moved && j < n; j++)
		if (!gg_dim_number(d[j]))
			return false;
	*t = (gg_tensor){GG_I64, in->shape, (void *)d};
	return d && n == gg_shape_count(&in->shape);
}

void gg_move_content(gg_infer *f, unsigned moved)
{
	gg_diag silent = {.silent = true};
	gg_eval e = {.n = f->n, .d = &silent, .a = f->a, .nin = f->nin, .nout = f->nout};
	if (!(GG_DT(f->out[0].dtype) & GG_INDICES))
		return;
	e.in = gg_alloc_n(f->a, (size_t)f->nin + 1, sizeof *e.in);
	e.out = gg_alloc_n(f->a, (size_t)f->nout + 1, sizeof *e.out);
	for (int i = 0; i < f->nout; i++) {
		if (!is_small(&f->out[i]))
			return;
		e.out[i] = (gg_tensor){GG_I64, f->out[i].shape,
		                       gg_alloc(f->a, GG_MAX_CONTENT * sizeof(gg_dim))};
	}
	for (int i = 0; i < f->nin; i++)
		if (!as_tensor(f, i, moved >> i & 1, &e.in[i]))
			return;
	if (f->n->op->eval(&e))
		for (int i = 0; i < f->nout; i++)
			f->out[i].content = e.out[i].data;
}

void gg_view_content(gg_infer *f)
{
	gg_tensor t = {0};
	if (GG_DT(f->in[0].dtype) & GG_INDICES && is_small(&f->out[0]) && as_tensor(f, 0, true, &t))
		f->out[0].content = t.data;
}

void gg_unknown_dims(gg_infer *f, int out, int rank)
{
	f->out[out].shape.rank = rank;
	for (int i = 0; i < rank; i++)
		f->out[out].shape.dim[i] = gg_unknown_dim(f, out, i);
}

/* ---- kernels --------------------------------------------------------------------------------- */

bool gg_eval_copy(gg_eval *e)
{
	size_t n = gg_nbytes(&e->out[0]);
	if (n != gg_nbytes(&e->in[0]))
		return gg_fail(e, "input has %lld elements, output %lld", (long long)gg_count(&e->in[0]),
		               (long long)gg_count(&e->out[0]));
	if (n && e->out[0].data != e->in[0].data)
		memcpy(e->out[0].data, e->in[0].data, n);
	return true;
}

int64_t *gg_eval_ints(gg_eval *e, int i)
{
	int64_t n = gg_count(&e->in[i]), *v = gg_alloc_n(e->a, (size_t)n + 1, sizeof *v);
	if (n > 0)
		gg_load_i64(e->in[i].dtype, e->in[i].data, 0, n, v);
	return v;
}

int64_t gg_eval_int(gg_eval *e, int i, int64_t absent)
{
	return i < e->nin && e->in[i].dtype != GG_NONE && e->in[i].data ? gg_get_i64(&e->in[i], 0) : absent;
}

bool gg_eval_indices(gg_eval *e, int64_t *v, int64_t count, int64_t n)
{
	for (int64_t i = 0; i < count; i++) {
		if (v[i] < -n || v[i] >= n)
			return gg_fail(e, "index %lld is outside [%lld, %lld]", (long long)v[i],
			               (long long)-n, (long long)n - 1);
		v[i] += v[i] < 0 ? n : 0;
	}
	return true;
}
