/* Where compiled kernels come from: the plan, the cache of this user, else the compiler.
 *
 * A cubin is known by a hash of its source and the kind of device. In the cache, a folder, it is a file
 * of that name: "ggcubin1", a hash of the rest, the rest. What is damaged is compiled again; a cache that
 * cannot be written is none. */
#include "cuda.h"
#include "../tool.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char magic[8] = "ggcubin1";
static gg_map given; /* name -> gg_built */
static gg_built *made;
static size_t nmade, cap_made;
static gg_arena kept;

/* NULL: no cache is wanted, or there is no place for it. */
static const char *folder(gg_arena *a)
{
	const char *own = getenv("GG_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

	if (own)
		return *own && strcmp(own, "off") ? own : NULL;
	if (xdg && *xdg == '/')
		return gg_printf(a, "%s/gg", xdg);
	return home && *home ? gg_printf(a, "%s/.cache/gg", home) : NULL;
}

static void make_folder(const char *path)
{
	gg_arena a = {0};
	char *s = gg_strdup(&a, path);

	for (char *p = s + 1; *p; p++)
		if (*p == '/') {
			*p = 0;
			mkdir(s, 0777);
			*p = '/';
		}
	mkdir(s, 0777);
	gg_arena_fini(&a);
}

static void *read_cached(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	char head[16];
	uint64_t hash;
	char *p = NULL;

	if (!f)
		return NULL;
	if (!fstat(fileno(f), &st) && st.st_size > 16 && st.st_size < 64 << 20 &&
	    fread(head, 16, 1, f) == 1 && !memcmp(head, magic, 8)) {
		*n = (size_t)st.st_size - 16;
		p = gg_xmalloc(*n + 1);
		memcpy(&hash, head + 8, 8);
		if (fread(p, *n, 1, f) != 1 || gg_hash(p, *n, 0) != hash) {
			free(p);
			p = NULL;
		}
	}
	fclose(f);
	return p;
}

static void write_cached(const char *dir, const char *path, const void *p, size_t n)
{
	gg_diag silent = {.tool = "gg", .silent = true};
	gg_buf b = {0};
	uint64_t hash = gg_hash(p, n, 0);

	make_folder(dir);
	gg_buf_add(&b, magic, 8);
	gg_buf_add(&b, &hash, 8);
	gg_buf_add(&b, p, n);
	gg_write_file(&silent, path, b.p, b.len);
	gg_buf_fini(&b);
}

void cuda_give(const char *name, const void *bytes, size_t n)
{
	gg_built *g = gg_alloc(&kept, sizeof *g);

	*g = (gg_built){.name = gg_strdup(&kept, name), .bytes = bytes, .n = n};
	gg_map_puts(&given, g->name, g);
}

const gg_built *cuda_built(size_t *n)
{
	*n = nmade;
	return made;
}

static void note_made(const char *name, const char *text, const void *p, size_t n)
{
	gg_built g = {.name = gg_strdup(&kept, name), .source = gg_strdup(&kept, text), .n = n};
	void *copy = gg_alloc(&kept, n + 1);

	memcpy(copy, p, n);
	g.bytes = copy;
	GG_PUSH(made, nmade, cap_made, g);
}

char *cuda_cubin(gg_diag *d, const char *text)
{
	gg_arena a = {0};
	size_t len = strlen(text), n = 0;
	const char *dir = folder(&a);
	const char *name = gg_printf(&a, "sm_%d-%016llx%016llx", cuda_sm,
	                             (unsigned long long)gg_hash(text, len, 1),
	                             (unsigned long long)gg_hash(text, len, 2));
	const char *path = dir ? gg_printf(&a, "%s/%s.cubin", dir, name) : NULL;
	const gg_built *g = gg_map_gets(&given, name);
	char *p = NULL;

	if (g) {
		p = gg_xmalloc(g->n + 1);
		memcpy(p, g->bytes, n = g->n);
	} else if (!path || !(p = read_cached(path, &n))) {
		p = cuda_nvrtc(d, text, &n);
		if (p && path)
			write_cached(dir, path, p, n);
	}
	if (p)
		note_made(name, text, p, n);
	gg_arena_fini(&a);
	return p;
}
