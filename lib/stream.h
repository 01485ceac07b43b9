/* The stream: models as msgpack records (docs/stream.md), and how every tool reads its input.
 *
 * A source is read once, front to back; it may hold several graphs. What it is (stream or text)
 * is sniffed from the first byte. All errors name the file and the byte offset (text: line and
 * column). Reading checks every limit before it allocates. */
#ifndef GG_STREAM_H
#define GG_STREAM_H

#include "graph.h"
#include <stdio.h>

#define GG_STREAM_VERSION 1
#define GG_LIMIT_NAME (1 << 16)  /* bytes of a name or string attribute key */
#define GG_LIMIT_DEPTH 64        /* nesting of bodies, and of unknown msgpack */
#define GG_LIMIT_CHUNK (4 << 20) /* inline data per record */

typedef struct gg_source {
	const char *name; /* for messages: the path, or "<stdin>" */
	const char *p;    /* all bytes: mapped, or read from a pipe */
	size_t len, at;
	bool mapped;
	int count;           /* models read so far */
	const char *weights; /* --weights and --allow-outside: set after opening, given to its models */
	bool allow_outside;
} gg_source;
bool gg_source_open(gg_diag *d, gg_source *s, const char *path); /* NULL or "-": stdin */
void gg_source_close(gg_source *s);

/* The next model. 1: *out is one (checked with gg_check); 0: clean end; -1: reported. */
int gg_read(gg_diag *d, gg_source *s, gg_model **out);

/* One model as stream records, from "gg" to "end". Same model, same bytes. */
bool gg_write(gg_diag *d, gg_buf *b, gg_model *m);
/* Same, but with all constants inline. */
bool gg_embed(gg_diag *d, gg_model *m); /* turns every FILE reference into INLINE data */

/* NDJSON, one line a record, the same content as the stream (bytes as {"$bin":"base64"}). */
bool gg_write_json(gg_diag *d, gg_buf *b, gg_model *m);
int gg_read_json(gg_diag *d, gg_source *s, gg_model **out);
/* Any msgpack value as JSON and back: for unknown keys in the text form. */
bool gg_msgpack_to_json(gg_diag *d, gg_buf *b, const void *p, size_t n);
bool gg_json_to_msgpack(gg_diag *d, gg_buf *b, const char *p, size_t n);

/* Text (docs/graph.md). Dump, parse, dump gives the same text and the same records. */
typedef struct gg_text_options {
	int64_t elide; /* constants of more elements than this are printed as elided; -1: never */
	bool new_ids;  /* none is told: reading the text numbers everything anew */
} gg_text_options;
bool gg_write_text(gg_diag *d, gg_buf *b, gg_model *m, const gg_text_options *o);
int gg_read_text(gg_diag *d, gg_source *s, gg_model **out);
/* One attribute value in text form ("[1, 1]", "1e-05", "\"x\"", "f16"), typed by `type`. */
bool gg_parse_attr(gg_diag *d, gg_arena *a, const char *text, gg_attr_type type, gg_attr *out);
void gg_print_attr(gg_buf *b, const gg_attr *a);
/* A line diff of two texts ("- old", "+ new", with color in colour), shortest where they differ in
 * less than some thousand lines. True when they differ. */
bool gg_diff_text(gg_buf *out, const char *a, const char *b, int color);
/* One node as its line of text, without locations: for messages and diffs. */
void gg_print_node(gg_buf *b, const gg_node *n);

#endif
