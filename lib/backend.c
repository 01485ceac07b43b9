#include "backend.h"
#include "target.h"
#include "tool.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void no_memory(void)
{
	fprintf(stderr, "%s: out of memory in a backend\n", program_invocation_short_name);
	_exit(GG_MACHINE);
}

/* C++ libraries throw when memory runs out, which would end in an abort: their handler is ours. */
static void set_new_handler(void)
{
	void (*(*set)(void (*)(void)))(void) = NULL;
	void *lib = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL), *sym;

	if (lib && (sym = dlsym(lib, "_ZSt15set_new_handlerPFvvE"))) {
		memcpy(&set, &sym, sizeof set);
		set(no_memory);
	}
}

static const gg_backend *query(gg_diag *d, const char *path, void *so)
{
	gg_backend_query_fn *ask = NULL;
	const gg_backend *b;
	void *sym = dlsym(so, "gg_backend_query");

	if (!sym) {
		gg_error(d, GG_MACHINE, "%s: not a backend: it has no gg_backend_query", path);
		return NULL;
	}
	memcpy(&ask, &sym, sizeof ask);
	b = ask(GG_BACKEND_ABI);
	if (!b || b->abi != GG_BACKEND_ABI || b->size < sizeof *b) {
		gg_error(d, GG_MACHINE, "%s: made for another version of gg", path);
		return NULL;
	}
	return b;
}

static gg_map loaded; /* for the life of the process: backends are never unloaded */

#ifdef __SANITIZE_ADDRESS__
/* The leak checker of gcc crashes on the worker threads of a library that was loaded late. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return loaded.n > 0; }
#endif

static int cpus(void)
{
	cpu_set_t set;

	return !sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
}

/* Asked once: a bound thread would see its own CPU only. */
/* What GG_NUM_THREADS says; 0: nothing, -1: no number of threads. */
static int wanted_threads(void)
{
	const char *s = getenv("GG_NUM_THREADS");
	int64_t n;

	if (!s || !*s)
		return 0;
	return gg_parse_int(s, &n) && n > 0 && n < 4096 ? (int)n : -1;
}

int gg_threads(void)
{
	static int known;
	int wanted = wanted_threads();

	if (wanted > 0)
		return wanted;
	if (!known)
		known = cpus();
	return known;
}

/* What OpenMP reads from the environment when it is loaded. Its threads spin at the end of each loop
 * before they sleep, by default so long that on a busy machine they use up the time of the
 * thread they wait for. Where they take all CPUs anyway each is bound to its own, so that one that
 * wakes up is not queued behind the one that waits for it. (bench/NOTES.md) */
static void set_waiting(int threads)
{
	if (!getenv("OMP_WAIT_POLICY"))
		setenv("GOMP_SPINCOUNT", "10000", 0);
	if (threads == cpus() && !getenv("GOMP_CPU_AFFINITY") && !getenv("OMP_PLACES"))
		setenv("OMP_PROC_BIND", "true", 0);
}

static bool open_one(gg_diag *d, const gg_backend *b, int threads, int arch, int processors)
{
	if (arch)
		return b->offline && b->offline->open(d, arch, processors);
	return !b->open || b->open(d, threads);
}

static const gg_backend *load(gg_diag *d, const char *name, int threads, int arch, int processors)
{
	const gg_backend *b = gg_map_gets(&loaded, name);
	gg_arena a = {0};
	const char *path;
	void *so;

	if (b)
		return b;
	if (threads <= 0 && wanted_threads() < 0) {
		gg_error(d, GG_USAGE, "GG_NUM_THREADS is '%s', not a number of threads",
		         getenv("GG_NUM_THREADS"));
		return NULL;
	}
	path = gg_printf(&a, "%s/lib/gg-%s.so", gg_prefix(), name);
	set_new_handler();
	threads = threads > 0 ? threads : gg_threads();
	set_waiting(threads);
	if (!(so = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
		gg_error(d, GG_MACHINE, "cannot load the backend '%s': %s", name, dlerror());
	else if ((b = query(d, path, so)) && !open_one(d, b, threads, arch, processors))
		b = NULL;
	gg_arena_fini(&a);
	if (b) {
		union {
			const gg_backend *in;
			void *out;
		} keep = {b};
		gg_map_puts(&loaded, gg_intern(name), keep.out);
	}
	return b;
}

const gg_backend *gg_backend_load(gg_diag *d, const char *name, int threads)
{
	return load(d, name, threads, 0, 0);
}

const gg_backend *gg_backend_load_offline(gg_diag *d, const char *name, int arch, int processors)
{
	return load(d, name, 1, arch, processors);
}

const gg_kernel *gg_backend_kernel(const gg_backend *b, const char *name)
{
	for (int i = 0; i < b->nkernels; i++)
		if (!strcmp(b->kernels[i]->name, name))
			return b->kernels[i];
	return NULL;
}
