/* Memory: what an arena gives is freed all at once with the arena.
 *
 * Nothing here returns NULL: when host memory runs out the process says so and
 * exits 5, in this one place. Ownership: an arena owns its blocks; gg_x* blocks
 * belong to the caller, who calls free(). A zeroed struct is a valid empty one. */
#ifndef GG_MEM_H
#define GG_MEM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gg_chunk gg_chunk;
typedef struct gg_arena {
	gg_chunk *chunk; /* newest first */
	size_t used;     /* bytes used in it */
} gg_arena;

void *gg_alloc(gg_arena *a, size_t size); /* zeroed, 16-byte aligned */
void *gg_alloc_n(gg_arena *a, size_t n, size_t size);
char *gg_strdup(gg_arena *a, const char *s);
char *gg_strndup(gg_arena *a, const char *s, size_t n);
char *gg_printf(gg_arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void gg_arena_fini(gg_arena *a);
void gg_arena_reset(gg_arena *a); /* empty again; keeps one chunk */

void *gg_xmalloc(size_t size);
void *gg_xcalloc(size_t n, size_t size);
void *gg_xrealloc(void *p, size_t size);
/* Data buffers of tensors: 64-byte aligned, as vector loads want; free() them. */
void *gg_xaligned(size_t size);
/* Up to a multiple of `to`, a power of two. */
static inline size_t gg_round_up(size_t n, size_t to) { return (n + to - 1) & ~(to - 1); }

/* Makes room for one more element in a malloc'ed vector: v = gg_grow(v, n, &cap, sizeof *v). */
void *gg_grow(void *v, size_t n, size_t *cap, size_t size);
/* The same in an arena; the old copy is left behind. */
void *gg_grow_in(gg_arena *a, void *v, size_t n, size_t *cap, size_t size);
#define GG_PUSH(v, n, cap, x) ((v) = gg_grow((v), (n), &(cap), sizeof *(v)), (v)[(n)++] = (x))

/* Growable bytes. p is always followed by a NUL once anything was added. */
typedef struct gg_buf {
	char *p;
	size_t len, cap;
} gg_buf;
void gg_buf_add(gg_buf *b, const void *p, size_t n);
void gg_buf_str(gg_buf *b, const char *s);
void gg_buf_printf(gg_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void gg_buf_vprintf(gg_buf *b, const char *fmt, va_list ap);
void gg_buf_fini(gg_buf *b);

/* Hash maps: integer key or NUL-terminated string key (not copied) to pointer. */
typedef struct gg_map {
	struct gg_slot *slot;
	size_t n, cap;
} gg_map;
void *gg_map_get(const gg_map *m, uint64_t key);     /* NULL when absent */
void gg_map_put(gg_map *m, uint64_t key, void *val); /* replaces */
void *gg_map_gets(const gg_map *m, const char *key);
void gg_map_puts(gg_map *m, const char *key, void *val); /* key must outlive the map */
void gg_map_each(const gg_map *m, void (*f)(void *val)); /* in no order */
void gg_map_fini(gg_map *m);
uint64_t gg_hash(const void *p, size_t n, uint64_t seed);

/* One copy of each string for the life of the process: equal strings, equal pointers. */
const char *gg_intern(const char *s);
const char *gg_intern_n(const char *s, size_t n);
/* A word of scratch that every interned string has: which walk saw the name last. */
static inline uint64_t *gg_intern_mark(const char *interned) { return (uint64_t *)(void *)interned - 1; }

#endif
