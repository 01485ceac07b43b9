#include "api.h"
#include "../mem.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct cu_api cu;
struct rtc_api rtc;
struct lt_api lt;
struct dnn_api dnn;

typedef struct entry {
	const char *name;
	size_t at; /* in the table of its library */
} entry;

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)
#define ROW(f) {TEXT(f), offsetof(struct API, f)},
#define API cu_api
static const entry cu_list[] = {CU_FUNCTIONS(ROW){0}};
#undef API
#define API rtc_api
static const entry rtc_list[] = {RTC_FUNCTIONS(ROW){0}};
#undef API
#define API lt_api
static const entry lt_list[] = {LT_FUNCTIONS(ROW){0}};
#undef API
#define API dnn_api
static const entry dnn_list[] = {DNN_FUNCTIONS(ROW){0}};
#undef API

/* GG_CUDA_LIBS comes first, then what the loader knows, then the toolkit's usual place. */
static void *open_any(const char *soname)
{
	const char *own = getenv("GG_CUDA_LIBS");
	gg_arena a = {0};
	void *so = NULL;

	if (own)
		so = dlopen(gg_printf(&a, "%s/%s", own, soname), RTLD_NOW | RTLD_GLOBAL);
	else if (!(so = dlopen(soname, RTLD_NOW | RTLD_GLOBAL)))
		so = dlopen(gg_printf(&a, "/usr/local/cuda/lib64/%s", soname), RTLD_NOW | RTLD_GLOBAL);
	gg_arena_fini(&a);
	return so;
}

static bool fill(gg_diag *d, const char *soname, const entry *list, void *table)
{
	void *so = open_any(soname);

	if (!so)
		return gg_error(d, GG_MACHINE, "target 'cuda': cannot load %s: %s", soname, dlerror());
	for (const entry *e = list; e->name; e++) {
		void *f = dlsym(so, e->name);
		if (!f)
			return gg_error(d, GG_MACHINE, "target 'cuda': %s has no %s: it is too old", soname,
			                e->name);
		memcpy((char *)table + e->at, &f, sizeof f);
	}
	return true;
}

bool cuda_open_driver(gg_diag *d) { return cu.cuInit || fill(d, "libcuda.so.1", cu_list, &cu); }
bool cuda_open_rtc(gg_diag *d) { return rtc.nvrtcVersion || fill(d, "libnvrtc.so.13", rtc_list, &rtc); }
bool cuda_open_lt(gg_diag *d) { return lt.cublasLtCreate || fill(d, "libcublasLt.so.13", lt_list, &lt); }
bool cuda_open_dnn(gg_diag *d) { return dnn.cudnnCreate || fill(d, "libcudnn.so.9", dnn_list, &dnn); }

int cuda_expected;

/* Those of cuDNN lie beside it, and are loaded by it one after the other when they are first needed. */
static void load_parts(void)
{
	static const char *const part[] = {
	    "graph", "engines_runtime_compiled", "engines_precompiled", "heuristic", "ops", "cnn"};
	gg_arena a = {0};
	const char *slash;
	Dl_info at;
	void *f;

	memcpy(&f, &dnn.cudnnCreate, sizeof f);
	if (f && dladdr(f, &at) && (slash = strrchr(at.dli_fname, '/')))
		for (size_t i = 0; i < sizeof part / sizeof *part; i++)
			dlopen(gg_printf(&a, "%.*s/libcudnn_%s.so.9", (int)(slash - at.dli_fname),
			                 at.dli_fname, part[i]),
			       RTLD_NOW | RTLD_LOCAL);
	gg_arena_fini(&a);
}

/* What cannot be loaded is said by who needs it. */
void *cuda_load_expected(void *unused)
{
	if (cuda_expected & CUDA_EXPECT_DNN)
		load_parts();
	if (cuda_expected & CUDA_EXPECT_LT)
		open_any("libcublasLt.so.13");
	return NULL;
}

void cuda_stub(void *f)
{
	const struct {
		const entry *list;
		void *table;
	} all[] = {{cu_list, &cu}, {lt_list, &lt}};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		for (const entry *e = all[i].list; e->name; e++)
			memcpy((char *)all[i].table + e->at, &f, sizeof f);
}

bool cuda_ok(gg_diag *d, CUresult r, const char *what)
{
	const char *name = "", *text = "";

	if (r == CUDA_SUCCESS)
		return true;
	cu.cuGetErrorName(r, &name);
	cu.cuGetErrorString(r, &text);
	return gg_error(d, GG_MACHINE, "target 'cuda': %s: %s (%s)", what, text ? text : "unknown error",
	                name ? name : "");
}
