/* Where compiled kernels come from: the plan, the cache of this user, else the compiler. A cubin is known
 * by a hash of its source and the kind of device. */
#include "cuda.h"
#include <stdlib.h>
#include <string.h>

static gg_map given; /* name -> gg_built */
static gg_built *made;
static size_t nmade, cap_made;
static gg_arena kept;

bool cuda_give(gg_diag *d, const char *kind, const char *name, const void *bytes, size_t n)
{
	gg_built *g;

	if (!strcmp(kind, "choices")) {
		bool good = cuda_take_choices(d, bytes, n, dnn_expect);
		dnn_start();
		return good;
	}
	if (!strcmp(kind, "libraries"))
		return cuda_take_libraries(d, bytes, n);
	dnn_settle();
	g = gg_alloc(&kept, sizeof *g);
	*g = (gg_built){.name = gg_strdup(&kept, name), .bytes = bytes, .n = n};
	gg_map_puts(&given, g->name, g);
	return true;
}

const gg_built *cuda_given(const char *name) { return gg_map_gets(&given, name); }

static void note_made(const char *kind, const char *name, const char *text, const void *p, size_t n)
{
	gg_built g = {.kind = kind,
	              .name = gg_strdup(&kept, name),
	              .source = text ? gg_strdup(&kept, text) : NULL,
	              .n = n};
	void *copy = gg_alloc(&kept, n + 1);

	memcpy(copy, p, n);
	g.bytes = copy;
	GG_PUSH(made, nmade, cap_made, g);
}

static void keep_engine(const char *name, const void *p, size_t n) { note_made("engine", name, NULL, p, n); }

/* Choices last: by then a load has the engines. */
const gg_built *cuda_built(size_t *n)
{
	char *choices = cuda_choices();
	gg_buf libraries = {0};

	dnn_keep(keep_engine);
	cuda_put_libraries(&libraries);
	if (nmade && libraries.len)
		note_made("libraries", "cuda", NULL, libraries.p, libraries.len);
	gg_buf_fini(&libraries);
	if (choices)
		note_made("choices", "cuda", NULL, choices, strlen(choices));
	free(choices);
	*n = nmade;
	return made;
}

char *cuda_cubin(gg_diag *d, const char *text)
{
	gg_arena a = {0};
	size_t len = strlen(text), n = 0;
	const char *name = gg_printf(&a, "sm_%d-%016llx%016llx", cuda_sm,
	                             (unsigned long long)gg_hash(text, len, 1),
	                             (unsigned long long)gg_hash(text, len, 2));
	const char *file = gg_printf(&a, "%s.cubin", name);
	const gg_built *g = cuda_given(name);
	char *p = NULL;

	if (g) {
		p = gg_xmalloc(g->n + 1);
		memcpy(p, g->bytes, n = g->n);
	} else if (!(p = cuda_cached(file, &n))) {
		p = cuda_nvrtc(d, text, &n);
		if (p)
			cuda_cache(file, p, n);
	}
	if (p)
		note_made("cubin", name, text, p, n);
	gg_arena_fini(&a);
	return p;
}
