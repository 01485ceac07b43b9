/* Where compiled kernels come from: the plan, the cache of this user, else the compiler. A cubin is known
 * by a hash of its source and the kind of device.
 *
 * Where nothing is loaded, as there is no device, kernels are compiled side by side while the next ones are
 * still prepared, and collected when the plan wants them. */
#include "cuda.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static gg_map given; /* name -> gg_built */
static gg_built *made;
static size_t nmade, cap_made;
static gg_arena kept;

static void expect(const char *key)
{
	if (!strncmp(key, "matmul ", 7))
		cuda_expected |= CUDA_EXPECT_LT;
	dnn_expect(key);
}

bool cuda_give(gg_diag *d, const char *kind, const char *name, const void *bytes, size_t n)
{
	gg_built *g;

	if (!strcmp(kind, "choices"))
		return cuda_take_choices(d, bytes, n, expect);
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

static const char *name_of(const char *text)
{
	size_t len = strlen(text);

	return gg_printf(&kept, "sm_%d-%016llx%016llx", cuda_sm, (unsigned long long)gg_hash(text, len, 1),
	                 (unsigned long long)gg_hash(text, len, 2));
}

/* Of the cache or the compiler; threads may call it. */
static char *make(gg_diag *d, const char *name, const char *text, size_t *n)
{
	gg_arena a = {0};
	const char *file = gg_printf(&a, "%s.cubin", name);
	char *p = cuda_cached(file, n);

	if (!p && (p = cuda_nvrtc(d, text, n)))
		cuda_cache(file, p, *n);
	gg_arena_fini(&a);
	return p;
}

char *cuda_cubin(gg_diag *d, const char *text)
{
	const char *name = name_of(text);
	const gg_built *g = cuda_given(name);
	size_t n = 0;
	char *p = NULL;

	if (g) {
		p = gg_xmalloc(g->n + 1);
		memcpy(p, g->bytes, n = g->n);
	} else {
		p = make(d, name, text, &n);
	}
	if (p)
		note_made("cubin", name, text, p, n);
	return p;
}

/* ---- side by side ------------------------------------------------------------------------------ */

typedef struct job {
	const char *name, *text;
	char *cubin; /* NULL: it does not compile */
	size_t n;
} job;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the next three */
static job **jobs;
static size_t njobs, cap_jobs, next_job;
static int working;
static pthread_t *workers;
static size_t nworkers, cap_workers, nfailed;

static job *take(void)
{
	pthread_mutex_lock(&lock);
	job *j = next_job < njobs ? jobs[next_job++] : NULL;
	working -= !j;
	pthread_mutex_unlock(&lock);
	return j;
}

static void *work(void *unused)
{
	gg_diag silent = {.tool = "cuda", .silent = true};

	for (job *j; (j = take());)
		j->cubin = make(&silent, j->name, j->text, &j->n);
	return NULL;
}

void cuda_cubin_later(const char *text)
{
	job *j = gg_alloc(&kept, sizeof *j);
	pthread_t t;

	*j = (job){.name = name_of(text), .text = gg_strdup(&kept, text)};
	pthread_mutex_lock(&lock);
	GG_PUSH(jobs, njobs, cap_jobs, j);
	bool more = working < gg_threads();
	working += more;
	pthread_mutex_unlock(&lock);
	if (!more)
		return;
	if (!pthread_create(&t, NULL, work, NULL))
		GG_PUSH(workers, nworkers, cap_workers, t);
	else
		work(NULL);
}

static void collect(void)
{
	for (size_t i = 0; i < nworkers; i++)
		pthread_join(workers[i], NULL);
	for (size_t i = 0; i < njobs; i++) {
		if (jobs[i]->cubin)
			note_made("cubin", jobs[i]->name, jobs[i]->text, jobs[i]->cubin, jobs[i]->n);
		nfailed += !jobs[i]->cubin;
		free(jobs[i]->cubin);
	}
	njobs = next_job = nworkers = 0;
}

size_t cuda_failed_kernels(void) { return nfailed; }

/* Choices last: by then a load has the engines. */
const gg_built *cuda_built(size_t *n)
{
	char *choices = cuda_choices();
	gg_buf libraries = {0};

	collect();
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
