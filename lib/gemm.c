/* Matrix products for reference kernels: blocks converted to double (or int64_t) and multiplied
 * where the caches hold them. Rows of a block of b are padded with zeros to full width, so that
 * the inner loop has a fixed length, which compilers turn into vectors. */
#include "opkit.h"
#include <stdlib.h>
#include <string.h>

enum { BI = 32, BJ = 128, BK = 64 };

/* One product routine per number type; LOAD reads a run of elements. MUL_ADD works on unsigned
 * integers, where wrapping is defined. */
#define GEMM(NAME, T, W, LOAD) \
	static void pack_##NAME(const gg_mat *a, int64_t r, int64_t nr, int64_t c, int64_t nc, T *dst, \
	                        int64_t ld) \
	{ \
		T line[BJ]; \
		for (int64_t i = 0; !a->trans && i < nr; i++) \
			LOAD(a->t->dtype, a->t->data, a->off + (r + i) * a->ld + c, nc, dst + i * ld); \
		for (int64_t j = 0; a->trans && j < nc; j++) { \
			LOAD(a->t->dtype, a->t->data, a->off + (c + j) * a->ld + r, nr, line); \
			for (int64_t i = 0; i < nr; i++) \
				dst[i * ld + j] = line[i]; \
		} \
	} \
	/* row += a[0..k) times the rows of b, four at a time */ \
	static void rows_##NAME(int64_t k, const T *a, const T *b, T *row) \
	{ \
		for (; k >= 4; k -= 4, a += 4, b += 4 * BJ) { \
			W a0 = (W)a[0], a1 = (W)a[1], a2 = (W)a[2], a3 = (W)a[3]; \
			for (int j = 0; j < BJ; j++) \
				row[j] = (T)((W)row[j] + a0 * (W)b[j] + a1 * (W)b[j + BJ] + \
				             a2 * (W)b[j + 2 * BJ] + a3 * (W)b[j + 3 * BJ]); \
		} \
		for (; k > 0; k--, a++, b += BJ) \
			for (int j = 0; j < BJ; j++) \
				row[j] = (T)((W)row[j] + (W)a[0] * (W)b[j]); \
	} \
	void gg_gemm_##NAME(int64_t m, int64_t n, int64_t k, gg_mat a, gg_mat b, T *c) \
	{ \
		T *ab = malloc_block((BI * BK + BK * BJ + BJ) * sizeof(T)), *bb = ab + BI * BK, \
		  *row = bb + BK * BJ; \
		for (int64_t j = 0; j < n; j += BJ) { \
			int64_t nj = least(n - j, BJ); \
			for (int64_t l = 0; l < k; l += BK) { \
				int64_t nl = least(k - l, BK); \
				memset(bb, 0, BK *BJ * sizeof(T)); \
				pack_##NAME(&b, l, nl, j, nj, bb, BJ); \
				for (int64_t i = 0; i < m; i++) { \
					if (i % BI == 0) \
						pack_##NAME(&a, i, least(m - i, BI), l, nl, ab, BK); \
					memset(row, 0, BJ * sizeof(T)); \
					memcpy(row, c + i * n + j, (size_t)nj * sizeof(T)); \
					rows_##NAME(nl, ab + i % BI * BK, bb, row); \
					memcpy(c + i * n + j, row, (size_t)nj * sizeof(T)); \
				} \
			} \
		} \
		free(ab); \
	}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static void *malloc_block(size_t n) { return gg_xaligned(n); }

GEMM(f64, double, double, gg_load_f64)
GEMM(i64, int64_t, uint64_t, gg_load_i64)

/* ---- NumPy's matmul --------------------------------------------------------------------------- */

/* A vector is a row on the left and a column on the right: its missing dim is put in, to be taken
 * out of the result. */
typedef struct product {
	gg_shape a, b; /* rank 2 or more */
	gg_shape batch;
	gg_dim m, n, ka, kb;
} product;

static bool make_product(const gg_shape *a, const gg_shape *b, product *p)
{
	p->a = *a;
	p->b = *b;
	if (a->rank == 1)
		p->a = (gg_shape){2, {1, a->dim[0]}};
	if (b->rank == 1)
		p->b = (gg_shape){2, {b->dim[0], 1}};
	p->m = p->a.dim[p->a.rank - 2];
	p->ka = p->a.dim[p->a.rank - 1];
	p->kb = p->b.dim[p->b.rank - 2];
	p->n = p->b.dim[p->b.rank - 1];
	gg_shape ba = gg_shape_of(p->a.rank - 2, p->a.dim), bb = gg_shape_of(p->b.rank - 2, p->b.dim);
	return gg_broadcast(&ba, &bb, &p->batch);
}

bool gg_infer_matmul(gg_infer *f)
{
	const gg_shape *a = &f->in[0].shape, *b = &f->in[1].shape;
	gg_shape *out = &f->out[0].shape;
	product p;
	if (a->rank == 0 || b->rank == 0)
		return gg_fail(f, "inputs %s: a matrix product takes no scalar", gg_input_names(f, 0, 1));
	if (a->rank < 0 || b->rank < 0)
		return true;
	bool batches_fit = make_product(a, b, &p);
	if (gg_dim_known(p.ka) && gg_dim_known(p.kb) && p.ka != p.kb)
		return gg_fail(f, "inputs %s have shapes %s and %s: inner sizes %lld and %lld differ",
		               gg_input_names(f, 0, 1), gg_str(f, a), gg_str(f, b), (long long)p.ka,
		               (long long)p.kb);
	if (!batches_fit)
		return gg_fail(
		    f, "inputs %s have shapes %s and %s: their batch dims cannot be broadcast together",
		    gg_input_names(f, 0, 1), gg_str(f, a), gg_str(f, b));
	*out = p.batch;
	if (a->rank > 1)
		out->dim[out->rank++] = p.m;
	if (b->rank > 1)
		out->dim[out->rank++] = p.n;
	return true;
}

static void store(gg_tensor *out, int64_t at, int64_t n, const void *acc, bool floats)
{
	if (floats)
		gg_store_f64(out->dtype, out->data, at, n, acc);
	else
		gg_store_i64(out->dtype, out->data, at, n, acc);
}

void gg_matmul(const gg_tensor *a, const gg_tensor *b, gg_tensor *out)
{
	product p;
	int64_t idx[GG_MAX_RANK] = {0}, sa[GG_MAX_RANK], sb[GG_MAX_RANK], at = 0;
	bool floats = gg_dtype_class(a->dtype) == 'F';
	if (!gg_count(out))
		return;
	make_product(&a->shape, &b->shape, &p);
	if (p.b.rank == 2) { /* one b for all: one tall product */
		p.m *= gg_span(&p.batch, 0, p.batch.rank);
		p.batch.rank = 0;
	}
	gg_shape ba = gg_shape_of(p.a.rank - 2, p.a.dim), bb = gg_shape_of(p.b.rank - 2, p.b.dim);
	gg_bcast_strides(&ba, &p.batch, sa);
	gg_bcast_strides(&bb, &p.batch, sb);
	size_t bytes = (size_t)(p.m * p.n) * sizeof(double);
	void *acc = gg_xaligned(bytes);
	do {
		gg_mat ma = {a, 0, p.ka, false}, mb = {b, 0, p.n, false};
		for (int i = 0; i < p.batch.rank; i++) {
			ma.off += idx[i] * sa[i] * p.m * p.ka;
			mb.off += idx[i] * sb[i] * p.ka * p.n;
		}
		memset(acc, 0, bytes);
		if (floats)
			gg_gemm_f64(p.m, p.n, p.ka, ma, mb, acc);
		else
			gg_gemm_i64(p.m, p.n, p.ka, ma, mb, acc);
		store(out, at, p.m * p.n, acc, floats);
		at += p.m * p.n;
	} while (gg_next_index(&p.batch, idx));
	free(acc);
}
