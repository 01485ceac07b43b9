/* Tensors: dtypes, dims that may be symbols, shapes, and host buffers.
 *
 * A tensor in memory is row-major and contiguous. A shape is a value: copy it.
 * A tensor struct does not own its data; who made the buffer frees it. */
#ifndef GG_TENSOR_H
#define GG_TENSOR_H

#include "diag.h"
#include "mem.h"

typedef enum gg_dtype {
	GG_NONE = 0, /* absent or not yet known */
#define X(id, name, bits, cls, onnx, npy) GG_##id,
#include "dtype.inc"
#undef X
	GG_DTYPES
} gg_dtype;

const char *gg_dtype_name(gg_dtype t);     /* "f32" */
gg_dtype gg_dtype_find(const char *name);  /* GG_NONE when unknown */
gg_dtype gg_dtype_from_onnx(int64_t code); /* GG_NONE when unknown */
int gg_dtype_onnx(gg_dtype t);
const char *gg_dtype_npy(gg_dtype t);
int gg_dtype_bits(gg_dtype t);
char gg_dtype_class(gg_dtype t);  /* 'F' 'I' 'U' 'B' 'C' 'S' */
size_t gg_dtype_size(gg_dtype t); /* bytes of one element in memory */

/* Sets of dtypes, as op schemas use them. */
typedef uint32_t gg_dtypes;
#define GG_DT(t) (1u << (t))
#define GG_FLOATS (GG_DT(GG_F64) | GG_DT(GG_F32) | GG_DT(GG_F16) | GG_DT(GG_BF16))
#define GG_SIGNED (GG_DT(GG_I64) | GG_DT(GG_I32) | GG_DT(GG_I16) | GG_DT(GG_I8))
#define GG_UNSIGNED (GG_DT(GG_U64) | GG_DT(GG_U32) | GG_DT(GG_U16) | GG_DT(GG_U8))
#define GG_INTS (GG_SIGNED | GG_UNSIGNED)
#define GG_NUMBERS (GG_FLOATS | GG_INTS)
#define GG_INDICES (GG_DT(GG_I64) | GG_DT(GG_I32))
#define GG_ANY 0xfffffffeu

/* Dims. A number >= 0, or (negative) the handle of an interned expression over
 * symbols, kept in a canonical form so that equal expressions are equal handles.
 * A symbol whose name starts with '?' stands for a size that depends on data. */
typedef int64_t gg_dim;
#define gg_dim_known(d) ((d) >= 0)
/* In contents (the -1 of a Reshape) numbers may be negative; handles lie below all of them. */
#define gg_dim_number(d) ((d) > -((gg_dim)1 << 40))
gg_dim gg_dim_sym(const char *name);
gg_dim gg_dim_add(gg_dim a, gg_dim b);
gg_dim gg_dim_sub(gg_dim a, gg_dim b);
gg_dim gg_dim_mul(gg_dim a, gg_dim b);
gg_dim gg_dim_div(gg_dim a, gg_dim b); /* floor; b must not be 0 */
gg_dim gg_dim_ceildiv(gg_dim a, gg_dim b);
gg_dim gg_dim_max(gg_dim a, gg_dim b);
gg_dim gg_dim_min(gg_dim a, gg_dim b);
const char *gg_dim_symbol(gg_dim d);           /* the name of a bare symbol, interned, else NULL */
bool gg_dim_is_symbol(gg_dim d);               /* a bare symbol */
bool gg_dim_natural(gg_dim d);                 /* surely not negative */
bool gg_dim_from_data(gg_dim d);               /* hangs on data: a symbol in it starts with '?' */
const char *gg_dim_str(gg_dim d);              /* canonical text, interned: "2*N+1" */
bool gg_dim_parse(const char *s, gg_dim *out); /* reads gg_dim_str's text */
typedef struct gg_binding {
	const char *sym; /* interned */
	int64_t value;
} gg_binding;
gg_dim gg_dim_bind(gg_dim d, const gg_binding *b, size_t n); /* what is unbound stays */
/* Calls f for every symbol in d. */
void gg_dim_symbols(gg_dim d, void (*f)(const char *sym, void *arg), void *arg);

#define GG_MAX_RANK 12
typedef struct gg_shape {
	int rank; /* -1: not known */
	gg_dim dim[GG_MAX_RANK];
} gg_shape;
extern const gg_shape gg_shape_unknown;
gg_shape gg_shape_of(int rank, const gg_dim *dim);
bool gg_shape_known(const gg_shape *s); /* rank and every dim are numbers */
bool gg_shape_eq(const gg_shape *a, const gg_shape *b);
/* Elements: an expression where a dim is; -1 when the shape's numbers are not all known. */
int64_t gg_shape_count(const gg_shape *s);
gg_dim gg_shape_count_dim(const gg_shape *s, int from, int to); /* product of dims [from,to) */
/* NumPy broadcasting into *out; false when the shapes do not go together. */
bool gg_broadcast(const gg_shape *a, const gg_shape *b, gg_shape *out);
char *gg_shape_str(gg_arena *a, const gg_shape *s); /* "[N,3,224,224]", "[*]" when unknown */

typedef struct gg_tensor {
	gg_dtype dtype;
	gg_shape shape; /* all numbers */
	void *data;     /* NULL when the tensor is absent (an optional input) or empty */
} gg_tensor;
int64_t gg_count(const gg_tensor *t);
size_t gg_nbytes(const gg_tensor *t);              /* in memory */
size_t gg_packed_bytes(gg_dtype t, int64_t count); /* in files: 4-bit types packed */
/* Overflow-checked: false when count*size does not fit in an int64_t. */
bool gg_size_of(gg_dtype t, const gg_shape *s, int64_t *out_bytes);

/* Conversion with exact rounding (nearest even), block by block: how the reference
 * kernels read and write every float type. Integers convert too (exact up to 2^53
 * in f64; use the i64 pair for integer kernels; stores wrap). */
void gg_load_f64(gg_dtype t, const void *src, int64_t off, int64_t n, double *dst);
void gg_store_f64(gg_dtype t, void *dst, int64_t off, int64_t n, const double *src);
void gg_load_i64(gg_dtype t, const void *src, int64_t off, int64_t n, int64_t *dst);
void gg_store_i64(gg_dtype t, void *dst, int64_t off, int64_t n, const int64_t *src);
double gg_get_f64(const gg_tensor *t, int64_t i);
void gg_set_f64(gg_tensor *t, int64_t i, double x);
int64_t gg_get_i64(const gg_tensor *t, int64_t i);
void gg_put_element(gg_buf *b, const gg_tensor *t, int64_t i); /* as text: "0.1", "1+2i", the string itself */
void gg_set_i64(gg_tensor *t, int64_t i, int64_t x);

uint16_t gg_f16_from(double x);
double gg_f16_to(uint16_t h);
uint16_t gg_bf16_from(double x);
double gg_bf16_to(uint16_t h);
uint8_t gg_f8e4m3_from(double x, bool saturate);
double gg_f8e4m3_to(uint8_t h);
uint8_t gg_f8e5m2_from(double x, bool saturate);
double gg_f8e5m2_to(uint8_t h);

/* Counter-based random numbers: element i of stream `seed`, the same on every machine. */
double gg_uniform(uint64_t seed, uint64_t i); /* in [0,1), 53 bits */
double gg_normal(uint64_t seed, uint64_t i);  /* mean 0, deviation 1 */
/* Element-wise fills used by the text form's initialisers and by gg-run --fill. */
void gg_fill_normal(gg_tensor *t, uint64_t seed, double mean, double std);
void gg_fill_uniform(gg_tensor *t, uint64_t seed, double lo, double hi);
void gg_fill_value(gg_tensor *t, double x);

#endif
