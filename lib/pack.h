/* Msgpack in and out, as the stream's files use it (reader.c, writer.c; load.c and save.c on top).
 *
 * The reader is a cursor with a sticky error: after the first one every call gives 0 or NULL, so
 * a record is read in straight lines and asked once. It owns nothing; what it gives points into
 * the bytes. Every count and length is compared with the bytes that are left, before anyone
 * allocates. The writer puts shortest forms into a gg_buf, by msgpack-c. */
#ifndef GG_PACK_H
#define GG_PACK_H

#include "stream.h"
#include <msgpack/pack.h>
#include <string.h>

#define GG_PACK_DEPTH (8 * GG_LIMIT_DEPTH) /* nesting of msgpack in records that hold bodies */

typedef enum gg_pack_type {
	GG_PACK_NONE, /* nothing left, or not msgpack: reported */
	GG_PACK_NIL,
	GG_PACK_BOOL,
	GG_PACK_INT,
	GG_PACK_F32,
	GG_PACK_F64,
	GG_PACK_STR,
	GG_PACK_BIN,
	GG_PACK_ARRAY,
	GG_PACK_MAP,
	GG_PACK_EXT
} gg_pack_type;

typedef struct gg_token {
	gg_pack_type type;
	uint64_t n;    /* bytes, elements, pairs; bool: 0 or 1; int: its bits */
	bool negative; /* int: n is an int64_t below 0 */
	int ext;
	double f;
	float f32;     /* with its bits, when F32 */
	const char *s; /* first byte of STR, BIN and EXT */
} gg_token;

typedef struct gg_line {
	size_t at, line; /* of the record that starts at offset `at` */
} gg_line;

typedef struct gg_reader {
	gg_diag *d;
	const char *start, *p, *end;
	bool failed;
	size_t records;      /* whole ones so far */
	const gg_line *line; /* JSON: messages say lines, not offsets; else NULL */
	size_t nlines;
} gg_reader;

/* Reports with the place, once; always false. at NULL: where the reader is. */
bool gg_reader_fail(gg_reader *r, gg_status s, const char *at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
gg_token gg_take(gg_reader *r); /* the head of the next value; strings whole */
gg_pack_type gg_peek(gg_reader *r);
void gg_skip(gg_reader *r, int depth); /* one value, nested at most so deep */
uint32_t gg_take_array(gg_reader *r, const char *what);
uint32_t gg_take_map(gg_reader *r, const char *what);
int64_t gg_take_int(gg_reader *r, const char *what, int64_t min, int64_t max);
uint64_t gg_take_u64(gg_reader *r, const char *what);
double gg_take_number(gg_reader *r, const char *what);
float gg_take_f32(gg_reader *r, const char *what); /* any number, rounded; f32 with its bits */
const char *gg_take_str(gg_reader *r, const char *what, size_t *len);
const char *gg_take_name(gg_reader *r, const char *what); /* interned, no NUL inside, short enough */

typedef struct gg_writer {
	gg_buf *b;
	msgpack_packer pk;
} gg_writer;
void gg_writer_init(gg_writer *w, gg_buf *b);
void gg_put_nil(gg_writer *w);
void gg_put_bool(gg_writer *w, bool x);
void gg_put_long_int(gg_writer *w, int64_t x);
void gg_put_u64(gg_writer *w, uint64_t x);
void gg_put_f32(gg_writer *w, float x);
void gg_put_f64(gg_writer *w, double x);
void gg_put_long_str(gg_writer *w, const char *s, size_t n);
void gg_put_bin(gg_writer *w, const void *p, size_t n);
void gg_put_ext(gg_writer *w, int type, const void *p, size_t n);
void gg_put_long_array(gg_writer *w, size_t n);
void gg_put_long_map(gg_writer *w, size_t n);
void gg_put_raw(gg_writer *w, const void *p, size_t n); /* a value as it was read */

/* Short forms stand here so that keys, which are literals, cost a store or two. */
static inline void gg_put_strn(gg_writer *w, const char *s, size_t n)
{
	gg_buf *b = w->b;
	if (n >= 32 || b->cap - b->len < 48) {
		gg_put_long_str(w, s, n);
		return;
	}
	b->p[b->len] = (char)(0xa0 | n);
	memcpy(b->p + b->len + 1, s, n);
	b->len += n + 1;
	b->p[b->len] = 0;
}

static inline void gg_put_str(gg_writer *w, const char *s) { gg_put_strn(w, s, strlen(s)); }

static inline void gg_put_int(gg_writer *w, int64_t x)
{
	gg_buf *b = w->b;
	if (x < 0 || x > 127 || b->cap - b->len < 2) {
		gg_put_long_int(w, x);
		return;
	}
	b->p[b->len++] = (char)x;
	b->p[b->len] = 0;
}

static inline void gg_put_array(gg_writer *w, size_t n)
{
	gg_buf *b = w->b;
	if (n > 15 || b->cap - b->len < 2) {
		gg_put_long_array(w, n);
		return;
	}
	b->p[b->len++] = (char)(0x90 | n);
	b->p[b->len] = 0;
}

static inline void gg_put_map(gg_writer *w, size_t n)
{
	gg_buf *b = w->b;
	if (n > 15 || b->cap - b->len < 2) {
		gg_put_long_map(w, n);
		return;
	}
	b->p[b->len++] = (char)(0x80 | n);
	b->p[b->len] = 0;
}

uint32_t gg_crc32(const void *p, size_t n); /* as zlib's crc32 */

/* load.c. json: records come from JSON, where counts and sums do not count. */
int gg_load(gg_reader *r, bool json, gg_model **out);
int gg_no_input(gg_diag *d); /* reports that there is nothing to read; -1 */

#endif
