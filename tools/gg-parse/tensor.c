/* TensorProto: bytes that stay in the file, or typed fields that are packed into the graph. */
#include "onnx.h"
#include <stdlib.h>
#include <string.h>

static const char *name_or(const char *name, const char *other) { return name && *name ? name : other; }

bool onnx_tensor_type(gg_diag *d, const onnx_TensorProto *t, const char *what, gg_dtype *dtype, gg_shape *s)
{
	size_t rank = t->dims ? t->dims->n : 0;
	int64_t bytes;
	*dtype = gg_dtype_from_onnx(t->data_type);
	if (!t->data_type)
		return gg_error(d, GG_MALFORMED, "tensor '%s' has no dtype", what);
	if (!*dtype)
		return gg_error(d, GG_UNSUPPORTED, "tensor '%s' has ONNX dtype %d, which is not supported",
		                what, (int)t->data_type);
	if (rank > GG_MAX_RANK)
		return gg_error(d, GG_UNSUPPORTED, "tensor '%s' has rank %zu, at most %d is supported", what,
		                rank, GG_MAX_RANK);
	*s = gg_shape_of(0, NULL);
	EACH (int64_t, dim, t->dims) {
		if (*dim < 0)
			return gg_error(d, GG_MALFORMED, "tensor '%s' has the size %lld in axis %d", what,
			                (long long)*dim, s->rank);
		s->dim[s->rank++] = *dim;
	}
	if (!gg_size_of(*dtype, s, &bytes))
		return gg_error(d, GG_MALFORMED, "tensor '%s' is larger than memory can be", what);
	return true;
}

/* ---- typed fields -------------------------------------------------------------------------- */
/* Which field holds a dtype: ONNX puts every narrow type, and the bits of f16 and smaller, into int32_data.
 */
static const struct onnx_list *typed_field(const onnx_TensorProto *t, gg_dtype dtype)
{
	switch (dtype) {
	case GG_F32:
	case GG_C64:
		return t->float_data;
	case GG_F64:
		return t->double_data;
	case GG_I64:
		return t->int64_data;
	case GG_U32:
	case GG_U64:
		return t->uint64_data;
	case GG_STRING:
		return t->string_data;
	default:
		return t->int32_data;
	}
}

/* Low bytes of each number: the list holds 64-bit ones. The machine is little-endian, as ONNX is. */
static void narrow(const struct onnx_list *l, size_t size, char *out)
{
	for (size_t i = 0; i < l->n; i++)
		memcpy(out + i * size, (const int64_t *)l->v + i, size);
}

static gg_data *pack_strings(const onnx_file *f, const struct onnx_list *l, const char *what)
{
	const char **s = gg_xcalloc(l->n + 1, sizeof *s);
	size_t i = 0;
	EACH (struct onnx_bytes, b, l) {
		if (b->n && memchr(b->p, 0, b->n)) {
			gg_error(f->d, GG_UNSUPPORTED, "tensor '%s': a string with a NUL byte in it", what);
			free(s);
			return NULL;
		}
		s[i++] = gg_intern_n(b->p, b->n);
	}
	gg_data *data = gg_data_inline(f->m, s, (int64_t)(l->n * sizeof *s));
	free(s);
	return data;
}

static gg_data *pack_typed(const onnx_file *f, const onnx_TensorProto *t, const char *what, gg_dtype dtype,
                           int64_t count)
{
	static const struct onnx_list none;
	const struct onnx_list *l = typed_field(t, dtype);
	int bits = gg_dtype_bits(dtype);
	size_t want = (size_t)count * (dtype == GG_C64 ? 2 : 1);
	if (bits == 4)
		want = (want + 1) / 2;
	l = l ? l : &none;
	if (l->n != want) {
		gg_error(f->d, GG_MALFORMED,
		         "tensor '%s' has %zu elements of data, its shape and dtype %s want %zu", what, l->n,
		         gg_dtype_name(dtype), want);
		return NULL;
	}
	if (dtype == GG_STRING)
		return pack_strings(f, l, what);
	if (dtype == GG_F32 || dtype == GG_F64 || dtype == GG_C64)
		return gg_data_inline(f->m, l->v, (int64_t)gg_packed_bytes(dtype, count));
	size_t size = bits < 8 ? 1 : (size_t)bits / 8;
	char *p = gg_xmalloc(l->n * size + 1);
	narrow(l, size, p);
	gg_data *data = gg_data_inline(f->m, p, (int64_t)(l->n * size));
	free(p);
	return data;
}

/* ---- external data --------------------------------------------------------------------------- */
static const char *entry(const onnx_TensorProto *t, const char *key)
{
	EACH (onnx_StringStringEntryProto, e, t->external_data)
		if (e->key && !strcmp(e->key, key))
			return name_or(e->value, "");
	return NULL;
}

static gg_data *external(const onnx_file *f, const onnx_TensorProto *t, const char *what, const gg_shape *s,
                         gg_dtype dtype)
{
	const char *file = entry(t, "location"), *off = entry(t, "offset"), *len = entry(t, "length");
	int64_t at = 0, want = (int64_t)gg_packed_bytes(dtype, gg_shape_count(s)), have = want;
	if (!file || !*file || (off && !gg_parse_int(off, &at)) || (len && !gg_parse_int(len, &have))) {
		gg_error(f->d, GG_MALFORMED,
		         "tensor '%s': its external data has no location, or no number as offset or length",
		         what);
		return NULL;
	}
	if (dtype == GG_STRING) {
		gg_error(f->d, GG_MALFORMED, "tensor '%s': strings cannot be external data", what);
		return NULL;
	}
	if (have != want) {
		gg_arena a = {0};
		gg_error(
		    f->d, GG_MALFORMED,
		    "tensor '%s': its shape %s and dtype %s take %lld bytes, but its length in '%s' is %lld",
		    what, gg_shape_str(&a, s), gg_dtype_name(dtype), (long long)want, file, (long long)have);
		gg_arena_fini(&a);
		return NULL;
	}
	return gg_data_file(f->d, f->m, what, file, at, want);
}

/* ---- whole tensors --------------------------------------------------------------------------- */
/* Shapes, axes and other small numbers mean something to most tools; the weights file need not be
 * there for them. */
enum { SMALL = 256 };

gg_data *onnx_tensor_data(const onnx_file *f, const onnx_TensorProto *t, const char *what)
{
	gg_dtype dtype;
	gg_shape s;
	if (!onnx_tensor_type(f->d, t, what, &dtype, &s))
		return NULL;
	if (t->data_location == 1)
		return external(f, t, what, &s, dtype);
	int64_t count = gg_shape_count(&s), want = (int64_t)gg_packed_bytes(dtype, count);
	const struct onnx_bytes *raw = t->raw_data;
	if (!raw || (!raw->n && count == 0))
		return pack_typed(f, t, what, dtype, count);
	if (dtype == GG_STRING || (int64_t)raw->n != want) {
		gg_arena a = {0};
		gg_error(f->d, GG_MALFORMED,
		         "tensor '%s' has %zu bytes of data, its shape %s and dtype %s take %lld", what,
		         raw->n, gg_shape_str(&a, &s), gg_dtype_name(dtype), (long long)want);
		gg_arena_fini(&a);
		return NULL;
	}
	if (!f->file || want <= SMALL)
		return gg_data_inline(f->m, raw->p, want);
	return gg_data_file(f->d, f->m, what, f->file, raw->p - f->p, want);
}

gg_tensor *onnx_tensor_load(const onnx_file *f, const onnx_TensorProto *t, const char *what)
{
	/* A constant of a graph that is not kept: it knows how to map, unpack and check. */
	gg_dtype dtype;
	gg_shape s;
	gg_data *data = onnx_tensor_data(f, t, what);
	if (!data || !onnx_tensor_type(f->d, t, what, &dtype, &s))
		return NULL;
	gg_value *v = gg_add_const(gg_graph_new(f->m, NULL), GG_CONST, what, dtype, &s, data);
	gg_tensor *out = gg_alloc(&f->m->arena, sizeof *out);
	if (!gg_value_tensor(f->d, v, out))
		return NULL;
	void *copy = gg_alloc(&f->m->arena, gg_nbytes(out));
	if (gg_nbytes(out))
		memcpy(copy, out->data, gg_nbytes(out));
	out->data = copy;
	return out;
}

/* Position of element k: indices are flat, or one row of coordinates each. -1: outside. */
static int64_t place(const gg_tensor *index, const gg_shape *s, int64_t k)
{
	if (index->shape.rank == 1)
		return gg_get_i64(index, k);
	int64_t at = 0;
	for (int j = 0; j < s->rank; j++) {
		int64_t i = gg_get_i64(index, k * s->rank + j);
		if (i < 0 || i >= s->dim[j])
			return -1;
		at = at * s->dim[j] + i;
	}
	return at;
}

gg_tensor *onnx_sparse_load(const onnx_file *f, const onnx_SparseTensorProto *t, const char *what)
{
	onnx_TensorProto type = {.data_type = t->values ? t->values->data_type : 0, .dims = t->dims};
	gg_tensor *out = gg_alloc(&f->m->arena, sizeof *out);
	if (!onnx_tensor_type(f->d, &type, what, &out->dtype, &out->shape))
		return NULL;
	gg_tensor *v = onnx_tensor_load(f, t->values, what);
	gg_tensor *index = v && t->indices ? onnx_tensor_load(f, t->indices, what) : NULL;
	if (!index)
		return v    ? gg_error(f->d, GG_MALFORMED, "sparse tensor '%s' has no indices", what),
		       NULL : NULL;
	int64_t n = gg_count(v), total = gg_shape_count(&out->shape);
	bool flat = index->shape.rank == 1 && index->shape.dim[0] == n;
	bool rows = index->shape.rank == 2 && index->shape.dim[0] == n &&
	            index->shape.dim[1] == out->shape.rank;
	if (index->dtype != GG_I64 || (!flat && !rows)) {
		gg_error(f->d, GG_MALFORMED, "sparse tensor '%s': its indices do not fit its %lld values",
		         what, (long long)n);
		return NULL;
	}
	if (total > (int64_t)1 << 28) {
		gg_error(f->d, GG_UNSUPPORTED, "sparse tensor '%s' has %lld elements: too many to make dense",
		         what, (long long)total);
		return NULL;
	}
	size_t size = gg_dtype_size(out->dtype);
	out->data = gg_alloc(&f->m->arena, gg_nbytes(out));
	for (int64_t k = 0; k < n; k++) {
		int64_t at = place(index, &out->shape, k);
		if (at < 0 || at >= total) {
			gg_error(f->d, GG_MALFORMED, "sparse tensor '%s': index %lld lies outside its shape",
			         what, (long long)k);
			return NULL;
		}
		memcpy((char *)out->data + (size_t)at * size, (const char *)v->data + (size_t)k * size, size);
	}
	return out;
}
