/* ONNX TensorProto, as in input_0.pb: a reader for this one message. Values may stand in raw_data
 * or in the typed fields; repeated numbers may be packed or not. */
#include "npy.h"

#include <stdlib.h>
#include <string.h>

enum {
	DIMS = 1,
	TYPE,
	SEGMENT,
	FLOATS,
	INT32S,
	STRINGS,
	INT64S,
	NAME,
	RAW,
	DOUBLES,
	UINT64S,
	EXTERNAL = 13,
	LOCATION
};
enum { VARINT, FIXED64, BYTES, FIXED32 = 5 };

typedef struct pb {
	const uint8_t *p, *end;
	bool bad;
} pb;

typedef struct proto {
	gg_diag *d;
	const char *name;
	gg_shape shape;
	int64_t type;
	const uint8_t *raw;
	size_t raw_len;
	bool has_raw;
	gg_buf typed; /* 4- or 8-byte numbers, by the field they came in */
	int field;
	const char **string;
	size_t nstring, cap_string;
} proto;

static uint64_t varint(pb *r)
{
	uint64_t x = 0;

	for (int shift = 0; shift < 70; shift += 7) {
		if (r->p == r->end)
			break;
		if (shift < 64)
			x |= (uint64_t)(*r->p & 0x7f) << shift;
		if (!(*r->p++ & 0x80))
			return x;
	}
	r->bad = true;
	return 0;
}

static pb take(pb *r, uint64_t n)
{
	pb sub = {r->p, r->p};

	if (n > (uint64_t)(r->end - r->p)) {
		r->bad = true;
		n = 0;
	}
	sub.end = r->p += n;
	return sub;
}

static bool add_dim(proto *t, int64_t dim)
{
	if (dim < 0)
		return gg_error(t->d, GG_MALFORMED, "%s: negative size %lld", t->name, (long long)dim);
	if (t->shape.rank == GG_MAX_RANK)
		return gg_error(t->d, GG_UNSUPPORTED, "%s: more than %d dimensions", t->name, GG_MAX_RANK);
	t->shape.dim[t->shape.rank++] = dim;
	return true;
}

static void add_number(proto *t, int field, int wire, pb *r)
{
	size_t width = wire == FIXED32 ? 4 : 8;

	t->field = field;
	if (wire == VARINT) {
		uint64_t x = varint(r);
		if (!r->bad)
			gg_buf_add(&t->typed, &x, 8);
	} else {
		pb v = take(r, width);
		if (!r->bad)
			gg_buf_add(&t->typed, v.p, width);
	}
}

static bool numbers(proto *t, int field, int wire, pb *r)
{
	int single = field == FLOATS ? FIXED32 : field == DOUBLES ? FIXED64 : VARINT;
	pb list;

	if (wire == single) {
		add_number(t, field, wire, r);
		return true;
	}
	if (wire != BYTES) {
		r->bad = true;
		return true;
	}
	list = take(r, varint(r));
	while (list.p < list.end && !list.bad)
		add_number(t, field, single, &list);
	r->bad |= list.bad;
	return true;
}

static bool dims(proto *t, int wire, pb *r)
{
	pb list;

	if (wire == VARINT)
		return add_dim(t, (int64_t)varint(r));
	list = take(r, varint(r));
	while (list.p < list.end && !list.bad)
		if (!add_dim(t, (int64_t)varint(&list)))
			return false;
	r->bad |= list.bad;
	return true;
}

static bool external(proto *t)
{
	return gg_error(t->d, GG_UNSUPPORTED, "%s: external data is not supported here", t->name);
}

static bool field(proto *t, int number, int wire, pb *r)
{
	pb bytes;

	switch (number) {
	case DIMS:
		return dims(t, wire, r);
	case FLOATS:
	case INT32S:
	case INT64S:
	case DOUBLES:
	case UINT64S:
		return numbers(t, number, wire, r);
	case SEGMENT:
		return gg_error(t->d, GG_UNSUPPORTED, "%s: segments are not supported", t->name);
	}
	if (wire == VARINT) {
		uint64_t x = varint(r);
		if (number == TYPE)
			t->type = (int64_t)x;
		return number != LOCATION || x != 1 || external(t);
	}
	if (wire == FIXED32 || wire == FIXED64) {
		take(r, wire == FIXED32 ? 4 : 8);
		return true;
	}
	if (wire != BYTES) {
		r->bad = true;
		return true;
	}
	bytes = take(r, varint(r));
	if (number == EXTERNAL)
		return external(t);
	if (number == RAW) {
		t->raw = bytes.p;
		t->raw_len = (size_t)(bytes.end - bytes.p);
		t->has_raw = true;
	}
	if (number == STRINGS)
		GG_PUSH(t->string, t->nstring, t->cap_string,
		        gg_intern_n((const char *)bytes.p, (size_t)(bytes.end - bytes.p)));
	return true;
}

/* 4-bit values lie two a byte, low nibble first. */
static void unpack(gg_dtype t, const uint8_t *src, int64_t count, uint8_t *dst)
{
	for (int64_t i = 0; i < count; i++) {
		uint8_t x = (src[i / 2] >> (i % 2 * 4)) & 15;
		dst[i] = t == GG_I4 && x > 7 ? (uint8_t)(x | 0xf0) : x;
	}
}

static bool wrong_count(const proto *t, long long has, long long want, const char *what)
{
	return gg_error(t->d, GG_MALFORMED, "%s: it has %lld %s, its shape wants %lld", t->name, has, what,
	                want);
}

static bool from_raw(const proto *t, gg_tensor *out, int64_t count)
{
	size_t bytes = gg_packed_bytes(out->dtype, count);

	if (t->raw_len != bytes)
		return wrong_count(t, (long long)t->raw_len, (long long)bytes, "bytes");
	out->data = gg_xaligned(gg_nbytes(out));
	if (gg_dtype_bits(out->dtype) == 4)
		unpack(out->dtype, t->raw, count, out->data);
	else if (bytes)
		memcpy(out->data, t->raw, bytes);
	return true;
}

static bool from_strings(const proto *t, gg_tensor *out, int64_t count)
{
	if ((size_t)count != t->nstring)
		return wrong_count(t, (long long)t->nstring, (long long)count, "strings");
	out->data = gg_xaligned((size_t)count * sizeof(char *));
	if (count)
		memcpy(out->data, t->string, (size_t)count * sizeof(char *));
	return true;
}

/* The field each dtype's values stand in. int32_data also holds the bits of small floats, and two
 * 4-bit values a number; float_data and double_data hold complex numbers as pairs. */
static int field_of(gg_dtype t)
{
	return t == GG_F32 || t == GG_C64   ? FLOATS
	       : t == GG_F64                ? DOUBLES
	       : t == GG_I64                ? INT64S
	       : t == GG_U64 || t == GG_U32 ? UINT64S
	                                    : INT32S;
}

static bool from_typed(const proto *t, gg_tensor *out, int64_t count)
{
	size_t width = t->field == FLOATS ? 4 : 8, has = t->typed.len / width;
	int64_t want = out->dtype == GG_C64             ? count * 2
	               : gg_dtype_bits(out->dtype) == 4 ? (count + 1) / 2
	                                                : count;
	size_t size = out->dtype == GG_C64 ? 4 : gg_dtype_size(out->dtype);

	if (has && t->field != field_of(out->dtype))
		return gg_error(t->d, GG_MALFORMED, "%s: the values of an %s tensor stand in the wrong field",
		                t->name, gg_dtype_name(out->dtype));
	if ((size_t)want != has)
		return wrong_count(t, (long long)has, (long long)want, "values");
	out->data = gg_xaligned(gg_nbytes(out));
	for (int64_t i = 0; i < want; i++) { /* little-endian: the low bytes */
		const uint8_t *p = (const uint8_t *)t->typed.p + (size_t)i * width;
		if (gg_dtype_bits(out->dtype) == 4)
			unpack(out->dtype, p, count - i * 2 < 2 ? 1 : 2, (uint8_t *)out->data + i * 2);
		else
			memcpy((char *)out->data + (size_t)i * size, p, size);
	}
	return true;
}

static bool build(const proto *t, gg_tensor *out)
{
	int64_t bytes;

	out->dtype = gg_dtype_from_onnx(t->type);
	out->shape = t->shape;
	if (!out->dtype)
		return gg_error(t->d, GG_UNSUPPORTED, "%s: ONNX data type %lld is not supported", t->name,
		                (long long)t->type);
	if (!gg_size_of(out->dtype, &t->shape, &bytes) || bytes > INT64_MAX / 16)
		return gg_error(t->d, GG_MALFORMED, "%s: its size overflows", t->name);
	if (out->dtype == GG_STRING)
		return from_strings(t, out, gg_count(out));
	if (!(t->has_raw ? from_raw(t, out, gg_count(out)) : from_typed(t, out, gg_count(out))))
		return false;
	if (out->dtype == GG_BOOL)
		for (int64_t i = 0; i < bytes; i++)
			((uint8_t *)out->data)[i] = ((uint8_t *)out->data)[i] != 0;
	return true;
}

bool gg_pb_parse(gg_diag *d, const char *name, const void *p, size_t len, gg_tensor *out)
{
	proto t = {.d = d, .name = name};
	pb r = {p, (const uint8_t *)p + len};
	bool good = true;

	memset(out, 0, sizeof *out);
	while (good && !r.bad && r.p < r.end) {
		uint64_t key = varint(&r);
		if (!r.bad)
			good = field(&t, key >> 3 > 1000 ? 1000 : (int)(key >> 3), (int)(key & 7), &r);
	}
	if (good && (r.bad || !t.type))
		good = gg_error(d, GG_MALFORMED, "%s: neither .npy nor a valid TensorProto", name);
	good = good && build(&t, out);
	gg_buf_fini(&t.typed);
	free(t.string);
	return good;
}
