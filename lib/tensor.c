/* Shapes: by value, compared and combined dim by dim. */
#include "tensor.h"
#include <string.h>

const gg_shape gg_shape_unknown = {.rank = -1};

gg_shape gg_shape_of(int rank, const gg_dim *dim)
{
	gg_shape s = {.rank = rank};
	if (rank > GG_MAX_RANK)
		gg_bug("a shape of rank %d", rank);
	for (int i = 0; i < rank; i++)
		s.dim[i] = dim[i];
	return s;
}

bool gg_shape_known(const gg_shape *s)
{
	for (int i = 0; i < s->rank; i++)
		if (!gg_dim_known(s->dim[i]))
			return false;
	return s->rank >= 0;
}

bool gg_shape_eq(const gg_shape *a, const gg_shape *b)
{
	if (a->rank != b->rank)
		return false;
	for (int i = 0; i < a->rank; i++)
		if (a->dim[i] != b->dim[i])
			return false;
	return true;
}

/* The product of the dims, -1 when one is not a number or it does not fit. */
static int64_t count(const gg_shape *s)
{
	int64_t n = 1;
	bool fits = true;
	if (!gg_shape_known(s))
		return -1;
	for (int i = 0; i < s->rank; i++) {
		if (s->dim[i] == 0)
			return 0;
		fits = fits && !__builtin_mul_overflow(n, s->dim[i], &n);
	}
	return fits ? n : -1;
}

int64_t gg_shape_count(const gg_shape *s) { return count(s); }

gg_dim gg_shape_count_dim(const gg_shape *s, int from, int to)
{
	gg_dim n = 1;
	for (int i = from; i < to; i++)
		n = gg_dim_mul(n, s->dim[i]);
	return n;
}

/* One axis. A symbol beside a number above 1 must be 1 or that number; two symbols that are not
 * known to be equal are equal or one of them is 1. */
static bool broadcast_dim(gg_dim a, gg_dim b, gg_dim *out)
{
	if (a == b || b == 1)
		*out = a;
	else if (a == 1)
		*out = b;
	else if (gg_dim_known(a) && gg_dim_known(b))
		return false;
	else
		*out = gg_dim_known(a) ? a : gg_dim_known(b) ? b : gg_dim_max(a, b);
	return true;
}

bool gg_broadcast(const gg_shape *a, const gg_shape *b, gg_shape *out)
{
	if (a->rank < 0 || b->rank < 0) {
		*out = gg_shape_unknown;
		return true;
	}
	gg_shape s = {.rank = a->rank > b->rank ? a->rank : b->rank};
	for (int i = 0; i < s.rank; i++) {
		int ia = i - (s.rank - a->rank), ib = i - (s.rank - b->rank);
		if (!broadcast_dim(ia < 0 ? 1 : a->dim[ia], ib < 0 ? 1 : b->dim[ib], &s.dim[i]))
			return false;
	}
	*out = s;
	return true;
}

char *gg_shape_str(gg_arena *a, const gg_shape *s)
{
	gg_buf b = {0};
	gg_buf_str(&b, s->rank < 0 ? "[*" : "[");
	for (int i = 0; i < s->rank; i++) {
		gg_buf_str(&b, i ? "," : "");
		gg_buf_str(&b, gg_dim_str(s->dim[i]));
	}
	gg_buf_str(&b, "]");
	char *text = gg_strdup(a, b.p);
	gg_buf_fini(&b);
	return text;
}

int64_t gg_count(const gg_tensor *t) { return count(&t->shape); }

size_t gg_nbytes(const gg_tensor *t)
{
	int64_t n = count(&t->shape);
	return n < 0 ? 0 : (size_t)n * gg_dtype_size(t->dtype);
}

bool gg_size_of(gg_dtype t, const gg_shape *s, int64_t *out_bytes)
{
	int64_t n = count(s);
	return n >= 0 && !__builtin_mul_overflow(n, (int64_t)gg_dtype_size(t), out_bytes);
}
