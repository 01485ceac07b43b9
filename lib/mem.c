#include "mem.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNK (1 << 10) /* the first: many arenas live for one node only */
#define BIG (16 << 20)  /* chunks grow up to here, so that a million nodes need few of them */
#define HUGE_PAGE (2 << 20)

struct gg_chunk {
	struct gg_chunk *next;
	size_t size;
	bool clean; /* zeros where it is not used yet */
	_Alignas(16) char data[];
};

/* The one place where the process ends for want of host memory. */
_Noreturn static void out_of_memory(size_t size)
{

	fprintf(stderr, "%s: out of memory: cannot allocate %zu bytes\n", program_invocation_short_name,
	        size);
	_exit(5);
}

void *gg_xmalloc(size_t size)
{
	void *p = malloc(size ? size : 1);
	if (!p)
		out_of_memory(size);
	return p;
}

void *gg_xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);
	if (!p)
		out_of_memory(n * size);
	return p;
}

void *gg_xrealloc(void *p, size_t size)
{
	p = realloc(p, size ? size : 1);
	if (!p)
		out_of_memory(size);
	return p;
}

/* Large graphs spend much of their time in page faults otherwise, and weights in misses of the TLB. */
static void use_huge_pages(void *p, size_t size)
{
	char *page = (char *)(((uintptr_t)p + 4095) & ~(uintptr_t)4095);
	if (size >= HUGE_PAGE)
		madvise(page, (size_t)((char *)p + size - page), MADV_HUGEPAGE);
}

void *gg_xaligned(size_t size)
{
	size_t rounded = (size + 63) & ~(size_t)63;
	void *p = 0;
	if (rounded < size || posix_memalign(&p, size >= HUGE_PAGE ? HUGE_PAGE : 64, rounded ? rounded : 64))
		out_of_memory(size);
	use_huge_pages(p, rounded);
	return p;
}

static size_t times(size_t n, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(n, size, &bytes))
		out_of_memory(SIZE_MAX);
	return bytes;
}

/* ---- arena ------------------------------------------------------------------------------ */
static void new_chunk(gg_arena *a, size_t at_least)
{
	size_t size = a->chunk ? a->chunk->size * 2 : CHUNK;
	if (size > BIG)
		size = BIG;
	if (size < at_least)
		size = at_least;
	gg_chunk *c = gg_xcalloc(1, sizeof *c + size);
	c->clean = true;
	use_huge_pages(c, size);
	c->size = size;
	c->next = a->chunk;
	a->chunk = c;
	a->used = 0;
}

void *gg_alloc(gg_arena *a, size_t size)
{
	if (size > SIZE_MAX - 4096)
		out_of_memory(size);
	size_t need = (size + 15) & ~(size_t)15;
	if (!a->chunk || a->chunk->size - a->used < need)
		new_chunk(a, need);
	void *p = a->chunk->data + a->used;
	a->used += need;
	return a->chunk->clean ? p : memset(p, 0, need);
}

void *gg_alloc_n(gg_arena *a, size_t n, size_t size) { return gg_alloc(a, times(n, size)); }

char *gg_strndup(gg_arena *a, const char *s, size_t n)
{
	char *p = gg_alloc(a, n + 1);
	if (n)
		memcpy(p, s, n);
	return p;
}

char *gg_strdup(gg_arena *a, const char *s) { return gg_strndup(a, s, strlen(s)); }

char *gg_printf(gg_arena *a, const char *fmt, ...)
{
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = vsnprintf(0, 0, fmt, ap);
	va_end(ap);
	char *p = gg_alloc(a, (size_t)n + 1);
	vsnprintf(p, (size_t)n + 1, fmt, again);
	va_end(again);
	return p;
}

void gg_arena_fini(gg_arena *a)
{
	for (gg_chunk *c = a->chunk, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	*a = (gg_arena){0};
}

void gg_arena_reset(gg_arena *a)
{
	if (!a->chunk)
		return;
	gg_chunk *keep = a->chunk;
	gg_arena rest = {keep->next, 0};
	gg_arena_fini(&rest);
	keep->next = 0;
	keep->clean = false;
	a->used = 0;
}

/* ---- vectors and bytes ------------------------------------------------------------------ */
void *gg_grow(void *v, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return v;
	*cap = *cap ? *cap * 2 : 8;
	return gg_xrealloc(v, times(*cap, size));
}

void *gg_grow_in(gg_arena *a, void *v, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return v;
	*cap = *cap ? *cap * 2 : 4;
	void *p = gg_alloc_n(a, *cap, size);
	if (n)
		memcpy(p, v, n * size);
	return p;
}

static void reserve(gg_buf *b, size_t n)
{
	if (n > SIZE_MAX / 2 - b->len)
		out_of_memory(n);
	size_t need = b->len + n + 1;
	if (need <= b->cap)
		return;
	b->cap = b->cap * 2 > need ? b->cap * 2 : need < 256 ? 256 : need;
	b->p = gg_xrealloc(b->p, b->cap);
}

void gg_buf_add(gg_buf *b, const void *p, size_t n)
{
	reserve(b, n);
	if (n)
		memcpy(b->p + b->len, p, n);
	b->len += n;
	b->p[b->len] = 0;
}

void gg_buf_str(gg_buf *b, const char *s) { gg_buf_add(b, s, strlen(s)); }

void gg_buf_vprintf(gg_buf *b, const char *fmt, va_list ap)
{
	va_list again;
	va_copy(again, ap);
	int n = vsnprintf(0, 0, fmt, ap);
	reserve(b, (size_t)n);
	vsnprintf(b->p + b->len, (size_t)n + 1, fmt, again);
	va_end(again);
	b->len += (size_t)n;
}

void gg_buf_printf(gg_buf *b, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	gg_buf_vprintf(b, fmt, ap);
	va_end(ap);
}

void gg_buf_fini(gg_buf *b)
{
	free(b->p);
	*b = (gg_buf){0};
}

/* ---- maps ------------------------------------------------------------------------------- */
/* Open addressing, linear probing, at most two thirds full. A string slot keeps the string's pointer
 * and, in `key`, its hash; an integer slot has `str` == integer; an empty one NULL. */
struct gg_slot {
	uint64_t key;
	const char *str;
	void *val;
};
static const char integer[1];

uint64_t gg_hash(const void *p, size_t n, uint64_t seed)
{
	const unsigned char *s = p;
	uint64_t h = seed ^ (n * 0x9e3779b97f4a7c15u);
	while (n >= 8) {
		uint64_t w;
		memcpy(&w, s, 8);
		h = (h ^ w) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
		s += 8;
		n -= 8;
	}
	uint64_t w = 0;
	uint32_t four;
	uint16_t two;
	if (n & 1)
		w = s[n - 1];
	if (n & 2)
		w = w << 16 | (memcpy(&two, s + (n & 4), 2), two);
	if (n & 4)
		w = w << 32 | (memcpy(&four, s, 4), four);
	h = (h ^ w) * 0xc4ceb9fe1a85ec53u;
	return h ^ h >> 29;
}

static uint64_t mix(uint64_t x)
{
	x *= 0x9e3779b97f4a7c15u;
	return x ^ x >> 32;
}

static struct gg_slot *slot(const gg_map *m, uint64_t key, const char *str)
{
	size_t mask = m->cap - 1, i = (str == integer ? mix(key) : key) & mask;
	for (;; i = (i + 1) & mask) {
		struct gg_slot *s = m->slot + i;
		if (!s->str || (s->key == key && (s->str == str || (str != integer && s->str != integer &&
		                                                    !strcmp(s->str, str)))))
			return s;
	}
}

static void put(gg_map *m, uint64_t key, const char *str, void *val)
{
	if (m->n * 3 >= m->cap * 2) {
		gg_map old = *m;
		m->cap = old.cap ? old.cap * 2 : 16;
		m->slot = gg_xcalloc(m->cap, sizeof *m->slot);
		for (size_t i = 0; i < old.cap; i++)
			if (old.slot[i].str)
				*slot(m, old.slot[i].key, old.slot[i].str) = old.slot[i];
		free(old.slot);
	}
	struct gg_slot *s = slot(m, key, str);
	m->n += !s->str;
	*s = (struct gg_slot){key, str, val};
}

void *gg_map_get(const gg_map *m, uint64_t key) { return m->n ? slot(m, key, integer)->val : 0; }

void gg_map_put(gg_map *m, uint64_t key, void *val) { put(m, key, integer, val); }

void *gg_map_gets(const gg_map *m, const char *key)
{
	return m->n ? slot(m, gg_hash(key, strlen(key), 0), key)->val : 0;
}

void gg_map_puts(gg_map *m, const char *key, void *val) { put(m, gg_hash(key, strlen(key), 0), key, val); }

void gg_map_each(const gg_map *m, void (*f)(void *val))
{
	for (size_t i = 0; i < m->cap; i++)
		if (m->slot[i].str)
			f(m->slot[i].val);
}

void gg_map_fini(gg_map *m)
{
	free(m->slot);
	*m = (gg_map){0};
}

/* ---- interned strings ------------------------------------------------------------------- */
/* A hash set of its own, since a string to be looked up need not end with a NUL. */
struct name {
	const char *p;
	uint64_t hash;
};
static struct {
	struct name *slot;
	size_t n, cap;
	gg_arena arena;
} names;

static struct name *name_slot(uint64_t hash, const char *s, size_t n)
{
	size_t k = hash & (names.cap - 1);
	for (;; k = (k + 1) & (names.cap - 1)) {
		struct name *x = &names.slot[k];
		if (!x->p || (x->hash == hash && s && !strncmp(x->p, s, n) && !x->p[n]))
			return x;
	}
}

static void intern_grow(void)
{
	struct name *old = names.slot;
	size_t cap = names.cap;
	names.cap = cap ? cap * 2 : 1024;
	names.slot = gg_xaligned(names.cap * sizeof *names.slot);
	memset(names.slot, 0, names.cap * sizeof *names.slot);
	for (size_t i = 0; i < cap; i++)
		if (old[i].p)
			*name_slot(old[i].hash, 0, 0) = old[i];
	free(old);
}

const char *gg_intern_n(const char *s, size_t n)
{
	if (names.n * 2 >= names.cap)
		intern_grow();
	uint64_t hash = gg_hash(s, n, 0);
	struct name *x = name_slot(hash, s, n);
	if (!x->p) {
		char *p = gg_alloc(&names.arena,
		                   sizeof(uint64_t) + n + 1); /* gg_intern_mark, then the string */
		*x = (struct name){n ? memcpy(p + sizeof(uint64_t), s, n) : p + sizeof(uint64_t), hash};
		names.n++;
	}
	return x->p;
}

const char *gg_intern(const char *s) { return gg_intern_n(s, strlen(s)); }
