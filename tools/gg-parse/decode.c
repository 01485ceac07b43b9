/* Protobuf to structs. nanopb walks the file; one callback stores whatever is not a plain number. */
#include "onnx.h"
#include <pb_decode.h>
#include <string.h>
#include <sys/mman.h>

enum { MAX_DEPTH = 6 * GG_LIMIT_DEPTH }; /* a body in a body is three messages deeper */

static gg_arena *arena; /* of the model being decoded: nanopb hands no context to callbacks */
static const gg_source *source;
static const char *let_go_until;
static int depth;
static bool too_much; /* what ended it is a limit of ours */

#define MESSAGES(X) \
	X(TensorProto) \
	X(SparseTensorProto) \
	X(StringStringEntryProto) \
	X(AttributeProto) \
	X(NodeProto) \
	X(DimensionProto) \
	X(ShapeProto) \
	X(TensorTypeProto) \
	X(TypeProto) X(ValueInfoProto) X(GraphProto) X(OperatorSetIdProto) X(FunctionProto) X(ModelProto)

static size_t message_size(const pb_msgdesc_t *desc)
{
#define X(NAME) \
	if (desc == &onnx_##NAME##_msg) \
		return sizeof(onnx_##NAME);
	MESSAGES(X)
#undef X
	gg_bug("message without a size");
}

static struct onnx_list *list_of(const pb_field_t *field)
{
	struct onnx_list **l = field->pData;
	if (!*l)
		*l = gg_alloc(arena, sizeof **l);
	return *l;
}

/* Room for one more element of a repeated field, or the place of a single one. */
static void *append(struct onnx_list *l, size_t size)
{
	if (l->n == l->cap) { /* most lists have one or two elements */
		l->cap = l->cap ? l->cap * 4 : 2;
		void *v = gg_alloc_n(arena, l->cap, size);
		if (l->n)
			memcpy(v, l->v, l->n * size);
		l->v = v;
	}
	void *at = (char *)l->v + size * l->n++;
	return memset(at, 0, size);
}

/* Numbers come one by one or packed: the stream ends after the last. */
static bool numbers(pb_istream_t *s, const pb_field_t *field, struct onnx_list *l)
{
	bool fixed32 = PB_LTYPE(field->type) == PB_LTYPE_FIXED32,
	     fixed64 = PB_LTYPE(field->type) == PB_LTYPE_FIXED64;
	size_t size = fixed32 ? 4 : 8;
	if ((fixed32 || fixed64) && s->bytes_left / size > l->cap - l->n) {
		size_t cap = l->n + s->bytes_left / size;
		void *v = gg_alloc_n(arena, cap, size);
		if (l->n)
			memcpy(v, l->v, l->n * size);
		l->v = v;
		l->cap = cap;
	}
	while (s->bytes_left) {
		void *at = append(l, size);
		if (fixed32   ? !pb_decode_fixed32(s, at)
		    : fixed64 ? !pb_decode_fixed64(s, at)
		              : !pb_decode_varint(s, at))
			return false;
	}
	return true;
}

/* A page that is touched brings its neighbours, up to 2 MB: between large weights they would add up
 * to the whole file. What was read by now is let go; the kernel brings back what is asked for again. */
static void let_go(const char *until)
{
	enum { LARGE = 1 << 20 };
	if (!source->mapped || until - let_go_until < LARGE)
		return;
	let_go_until = until;
	madvise((void *)source->p, (size_t)(until - source->p), MADV_DONTNEED);
}

/* The bytes are in the file already: nothing is copied, or even read. */
static bool bytes(pb_istream_t *s, struct onnx_bytes *out)
{
	*out = (struct onnx_bytes){s->state, s->bytes_left};
	/* A number where bytes belong comes in a buffer of nanopb's own. */
	uintptr_t at = (uintptr_t)out->p, from = (uintptr_t)source->p;
	if (at < from || at > from + source->len || out->n > from + source->len - at)
		PB_RETURN_ERROR(s, "a number where bytes belong");
	let_go(out->p + out->n);
	return pb_read(s, NULL, s->bytes_left);
}

static bool string(pb_istream_t *s, const char **out)
{
	struct onnx_bytes b;
	if (!bytes(s, &b))
		return false;
	if (b.n >= GG_LIMIT_NAME) {
		too_much = true;
		PB_RETURN_ERROR(s, "a name of more than 65535 bytes");
	}
	if (b.n && memchr(b.p, 0, b.n))
		PB_RETURN_ERROR(s, "a name with a NUL byte in it");
	*out = gg_intern_n(b.p, b.n);
	return true;
}

static bool message(pb_istream_t *s, const pb_msgdesc_t *desc, void *out)
{
	if (depth >= MAX_DEPTH) {
		too_much = true;
		PB_RETURN_ERROR(s, "bodies nested too deeply");
	}
	depth++;
	bool ok = pb_decode(s, desc, out);
	depth--;
	return ok;
}

bool onnx_field(pb_istream_t *s, pb_ostream_t *unused, const pb_field_t *field)
{
	bool many = PB_HTYPE(field->type) == PB_HTYPE_REPEATED;
	switch (PB_LTYPE(field->type)) {
	case PB_LTYPE_SUBMESSAGE: {
		size_t size = message_size(field->submsg_desc);
		if (many)
			return message(s, field->submsg_desc, append(list_of(field), size));
		void **at = field->pData;
		*at = gg_alloc(arena, size);
		return message(s, field->submsg_desc, *at);
	}
	case PB_LTYPE_STRING:
		return string(s, many ? append(list_of(field), sizeof(const char *)) : field->pData);
	case PB_LTYPE_BYTES: {
		if (many)
			return bytes(s, append(list_of(field), sizeof(struct onnx_bytes)));
		struct onnx_bytes **at = field->pData;
		*at = gg_alloc(arena, sizeof **at);
		return bytes(s, *at);
	}
	default:
		return numbers(s, field, list_of(field));
	}
}

onnx_ModelProto *onnx_decode(gg_diag *d, gg_arena *a, const gg_source *src)
{
	onnx_ModelProto *m = gg_alloc(a, sizeof *m);
	size_t n = src->len;
	pb_istream_t s = pb_istream_from_buffer((const pb_byte_t *)src->p, n);
	arena = a;
	source = src;
	let_go_until = src->p;
	depth = 0;
	too_much = false;
	if (n && !pb_decode(&s, &onnx_ModelProto_msg, m)) {
		gg_error(d, too_much ? GG_UNSUPPORTED : GG_MALFORMED, "%s%s near byte %zu of %zu",
		         too_much ? "" : "not a valid ONNX file, or truncated: ", PB_GET_ERROR(&s),
		         n - s.bytes_left, n);
		return NULL;
	}
	if (!m->graph) {
		gg_error(d, GG_MALFORMED, "the file has no graph in it, so it is no ONNX model");
		return NULL;
	}
	return m;
}
