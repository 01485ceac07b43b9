/* A device that is the host, for tests where there is none: the calls of the driver, NVRTC and
 * cuBLASLt that gg-cuda.so makes. Generated kernels are compiled by c++ and run one block after
 * the other, with one thread a block; a product is three loops. cuDNN is fake_dnn.c. It shows that sizes,
 * strides, dtypes and plans are right, and nothing of speed or of races. Every handle is the address of a
 * struct here.
 *
 * What can go wrong is asked for by the environment:
 *     GG_FAKE_FAIL=K      call number K of the driver, NVRTC or cuBLASLt fails
 *     GG_FAKE_BAD=K       launch number K reads what is not there: all that follows fails
 *     GG_FAKE_LOOSE=K     kernel number K, as they are loaded, cannot be recorded; 0: all
 *     GG_FAKE_MEMORY=N    bytes of memory
 *     GG_FAKE_SM=80       another kind of device
 *     GG_FAKE_DRIVER=12020  an older driver, which loads no kernel of a newer compiler
 *     GG_FAKE_LT=120900     another cuBLASLt
 *     GG_FAKE_LEFT=FILE   at the end: a line there for memory or graphs that are left */
#include "../../lib/tensor.h"
#include <cublasLt.h>
#include <cuda.h>
#include <dlfcn.h>
#include <nvrtc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the driver -------------------------------------------------------------------------------- */

static int asked(const char *name, int otherwise)
{
	const char *s = getenv(name);
	return s ? atoi(s) : otherwise;
}

static int calls, launches, broken; /* broken: for good */
static long allocations, graphs;

static CUresult fate(void)
{
	if (broken)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	return ++calls == asked("GG_FAKE_FAIL", 0) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}
#define TRY \
	do { \
		CUresult r_ = fate(); \
		if (r_) \
			return r_; \
	} while (0)

__attribute__((destructor)) static void tell_left(void)
{
	const char *file = getenv("GG_FAKE_LEFT");
	FILE *f = file ? fopen(file, "a") : NULL;
	if (f && (allocations || graphs))
		fprintf(f, "%ld allocations and %ld graphs are left\n", allocations, graphs);
	if (f)
		fclose(f);
}

static int recording, spoilt;
typedef struct launch {
	void (*f)(void **, unsigned);
	unsigned grid;
	void *arg[128], *at[128];
	CUstream stream;
	struct launch *after; /* a wait: the record that it waits for */
	bool event, done;     /* a record or a wait */
	struct launch *next;
} launch;
typedef struct graph {
	launch *first, **last;
	CUstream origin;
	unsigned turn;
	int kept; /* it can be launched */
} graph;
static graph *now;

static void *later(size_t n)
{
	void *p = calloc(1, n);
	if (!p)
		abort();
	return p;
}

static launch *add(launch l)
{
	launch *k = later(sizeof *k);
	*k = l;
	for (int i = 0; i < 128; i++)
		k->at[i] = &k->arg[i];
	*now->last = k;
	now->last = &k->next;
	return k;
}

static void do_copy(void **a, unsigned n)
{
	memmove(*(void **)a[0], *(void **)a[1], (size_t) * (uintptr_t *)a[2]);
}
static void do_fill(void **a, unsigned n) { memset(*(void **)a[0], (int)n, (size_t) * (uintptr_t *)a[2]); }

static CUresult submit(launch l, CUstream s)
{
	TRY;
	l.stream = s;
	for (int i = 0; i < 128; i++)
		l.at[i] = &l.arg[i];
	if (recording)
		add(l);
	else
		l.f(l.at, l.grid);
	return CUDA_SUCCESS;
}

/* For fake_dnn.c. */
CUresult fake_submit(void (*f)(void **, unsigned), void *arg, CUstream s);
CUresult fake_submit(void (*f)(void **, unsigned), void *arg, CUstream s)
{
	return submit((launch){.f = f, .arg = {arg}}, s);
}

CUresult cuInit(unsigned f) { return fate(); }
CUresult cuDriverGetVersion(int *v) { return *v = asked("GG_FAKE_DRIVER", 13000), CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult e, const char **s)
{
	return *s = e == CUDA_ERROR_ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : "failed",
	       CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult e, const char **s)
{
	return *s = e == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR",
	       CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *d, int i) { return *d = 0, fate(); }
CUresult cuDeviceGetName(char *s, int n, CUdevice d)
{
	return snprintf(s, (size_t)n, "fake device"), CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *x, CUdevice_attribute a, CUdevice d)
{
	int sm = asked("GG_FAKE_SM", 90);
	*x = a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? sm / 10
	     : a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
	         ? sm % 10
	         : a == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
	return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) { return *c = later(1), fate(); }
CUresult cuCtxSetCurrent(CUcontext c) { return fate(); }
/* The size stands before what is given out. */
static size_t used;
static size_t memory(void)
{
	const char *s = getenv("GG_FAKE_MEMORY");
	return s ? strtoull(s, NULL, 10) : (size_t)1 << 40;
}
CUresult cuMemGetInfo(size_t *a, size_t *b)
{
	*b = memory();
	*a = *b - used;
	return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(size_t *n, CUdevice d) { return *n = memory(), CUDA_SUCCESS; }
CUresult cuMemAlloc(CUdeviceptr *p, size_t n)
{
	size_t room = (n + 255) / 256 * 256;
	char *q;
	TRY;
	if (room > memory() - used || !(q = aligned_alloc(256, room + 256)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(q, &room, sizeof room);
	memset(q + 256, 0xa5, n); /* nothing is zero by itself */
	used += room;
	allocations++;
	*p = (CUdeviceptr)(uintptr_t)(q + 256);
	return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr p)
{
	char *q = (char *)(uintptr_t)p - 256;
	size_t room;
	memcpy(&room, q, sizeof room);
	used -= room;
	allocations--;
	free(q);
	return CUDA_SUCCESS;
}
CUresult cuMemAllocHost(void **p, size_t n) { return *p = later(n), fate(); }
static CUresult copy(uintptr_t to, uintptr_t from, size_t n, CUstream s)
{
	return submit((launch){.f = do_copy, .arg = {(void *)to, (void *)from, (void *)n}}, s);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *p, size_t n, CUstream s)
{
	return copy(to, (uintptr_t)p, n, s);
}
CUresult cuMemcpyDtoHAsync(void *p, CUdeviceptr from, size_t n, CUstream s)
{
	return copy((uintptr_t)p, from, n, s);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)
{
	return copy(to, from, n, s);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char x, size_t n, CUstream s)
{
	return submit((launch){.f = do_fill, .grid = x, .arg = {(void *)(uintptr_t)to, NULL, (void *)n}}, s);
}
CUresult cuStreamCreate(CUstream *s, unsigned f) { return *s = later(1), fate(); }

/* A stream waits for the last record of an event, as in a capture. */
typedef struct event {
	launch *record;
} event;
CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned f)
{
	TRY;
	if (recording && !((event *)(void *)e)->record)
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	if (recording)
		add((launch){.stream = s, .event = true, .after = ((event *)(void *)e)->record});
	return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream s)
{
	TRY;
	return recording ? spoilt = 1, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}
CUresult cuStreamBeginCapture(CUstream s, CUstreamCaptureMode m)
{
	TRY;
	now = later(sizeof *now);
	graphs++;
	spoilt = 0;
	now->last = &now->first;
	now->origin = s;
	recording = 1;
	return CUDA_SUCCESS;
}
static void drop(graph *g)
{
	for (launch *l = g->first, *next; l; l = next) {
		next = l->next;
		free(l);
	}
	free(g);
	graphs--;
}

/* Is what stream s does last waited for by another stream, up to the first one? */
static int joined(const launch *last, CUstream origin, const launch *first)
{
	const launch *l;

	if (last->stream == origin)
		return 1;
	if (!last->event || last->after)
		return 0;
	for (l = first; l; l = l->next)
		if (l->after == last)
			return 1;
	return 0;
}

CUresult cuStreamEndCapture(CUstream s, CUgraph *g)
{
	CUresult r;
	recording = 0;
	r = spoilt ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : fate();
	*g = (CUgraph)(void *)now;
	for (launch *l = now->first; l && !r; l = l->next) {
		const launch *k = l->next, *first = now->first;
		while (k && k->stream != l->stream)
			k = k->next;
		if (!k && !joined(l, now->origin, now->first))
			r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
		while (first->stream != l->stream)
			first = first->next;
		if (l->stream != now->origin && !first->after)
			r = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	if (r)
		drop(now);
	return r;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *x, CUgraph g, unsigned long long f)
{
	TRY;
	((graph *)(void *)g)->kept = 1;
	return *x = (CUgraphExec)(void *)g, CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph g)
{
	if (!((graph *)(void *)g)->kept)
		drop((graph *)(void *)g);
	return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec x) { return drop((graph *)(void *)x), CUDA_SUCCESS; }

/* The first thing of its stream that is not done, and what it waits for is. */
static int may_run(const graph *g, const launch *l)
{
	const launch *k = g->first;

	while (k != l && (k->done || k->stream != l->stream))
		k = k->next;
	return !l->done && k == l && (!l->after || l->after->done);
}

/* Streams go on in any order that their events allow: another one each time. */
CUresult cuGraphLaunch(CUgraphExec x, CUstream s)
{
	graph *g = (graph *)(void *)x;
	unsigned seed = ++g->turn;
	launch *l;
	TRY;

	for (l = g->first; l; l = l->next)
		l->done = false;
	for (;;) {
		unsigned n = 0, pick;
		for (l = g->first; l; l = l->next)
			n += (unsigned)may_run(g, l);
		if (!n)
			break;
		seed = seed * 1664525u + 1013904223u;
		pick = (seed >> 16) % n;
		for (l = g->first; !may_run(g, l) || pick-- > 0;)
			l = l->next;
		if (l->f && ++launches == asked("GG_FAKE_BAD", 0))
			broken = 1;
		if (l->f && !broken)
			l->f(l->at, l->grid);
		l->done = true;
	}
	for (l = g->first; l; l = l->next)
		if (!l->done)
			abort();
	return CUDA_SUCCESS;
}
CUresult cuModuleLoadData(CUmodule *m, const void *p)
{
	TRY;
	if (asked("GG_FAKE_DRIVER", 13000) < 13000)
		return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	*m = dlopen(p, RTLD_NOW | RTLD_LOCAL);
	return *m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}
typedef struct function {
	void (*run)(void **, unsigned);
	int nargs, number;
} function;

CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
	void *run = dlsym(m, "run_blocks"), *n = dlsym(m, "nargs");
	function *k = later(sizeof *k);
	static int loaded;
	TRY;
	k->number = ++loaded;
	if (!run || !n)
		return CUDA_ERROR_NOT_FOUND;
	memcpy(&k->run, &run, sizeof run);
	k->nargs = *(int *)n;
	*f = (CUfunction)(void *)k;
	return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CUstream s, void **arg, void **extra)
{
	const function *k = (const function *)(const void *)f;
	launch l = {.f = k->run, .grid = x};
	int loose = asked("GG_FAKE_LOOSE", -1);
	if (recording && (loose == 0 || loose == k->number))
		return spoilt = 1, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!recording && ++launches == asked("GG_FAKE_BAD", 0))
		return broken = 1, CUDA_SUCCESS;
	for (int i = 0; i < k->nargs; i++)
		l.arg[i] = *(void **)arg[i];
	return submit(l, s);
}
CUresult cuEventCreate(CUevent *e, unsigned f) { return *e = later(sizeof(event)), fate(); }
CUresult cuEventRecord(CUevent e, CUstream s)
{
	TRY;
	((event *)(void *)e)->record = recording ? add((launch){.stream = s, .event = true}) : NULL;
	return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int x) { return fate(); }
CUresult cuTensorMapEncodeTiled(CUtensorMap *m, CUtensorMapDataType t, cuuint32_t rank, void *p,
                                const cuuint64_t *dim, const cuuint64_t *stride, const cuuint32_t *box,
                                const cuuint32_t *step, CUtensorMapInterleave i, CUtensorMapSwizzle s,
                                CUtensorMapL2promotion l, CUtensorMapFloatOOBfill f)
{
	for (cuuint32_t k = 0; k < rank; k++)
		if (!dim[k] || !box[k] || box[k] > 256 || (k && stride[k - 1] % 16))
			return CUDA_ERROR_INVALID_VALUE;
	return (uintptr_t)p % 16 ? CUDA_ERROR_INVALID_VALUE : fate();
}
CUresult cuEventSynchronize(CUevent e) { return fate(); }
CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) { return *ms = 1, fate(); }

/* ---- NVRTC ------------------------------------------------------------------------------------- */

typedef struct program {
	char *text, *path, log[4096];
} program;

nvrtcResult nvrtcVersion(int *a, int *b) { return *a = 13, *b = 0, NVRTC_SUCCESS; }
const char *nvrtcGetErrorString(nvrtcResult r) { return "does not compile"; }
nvrtcResult nvrtcCreateProgram(nvrtcProgram *p, const char *text, const char *name, int n,
                               const char *const *h, const char *const *i)
{
	program *q = later(sizeof *q);
	if (fate())
		return free(q), NVRTC_ERROR_INTERNAL_ERROR;
	q->text = strdup(text);
	*p = (nvrtcProgram)(void *)q;
	return NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram *p) { return NVRTC_SUCCESS; }

/* What calls the kernel block by block, made from its list of arguments. */
static void put_runner(FILE *f, const char *text)
{
	const char *p = strstr(text, "KERNEL("), *end;
	int n = 0;
	while (strstr(p + 1, "KERNEL("))
		p = strstr(p + 1, "KERNEL(");
	p += 7;
	fprintf(f, "\nextern \"C\" void run_blocks(void **a, unsigned n)\n{\n\tgridDim.x = n;\n"
	           "\tfor (blockIdx.x = 0; blockIdx.x < n; blockIdx.x++)\n\t\tk(");
	for (; *p != ')'; p = end + (*end == ',')) {
		end = p + strcspn(p, ",)");
		const char *star = end;
		while (*star != '*')
			star--;
		fprintf(f, "%s*(%.*s **)a[%d]", n ? ", " : "", (int)(star - p), p, n);
		n++;
	}
	fprintf(f, ");\n}\nextern \"C\" const int nargs = %d;\n", n);
}

/* GG_FAKE_NVRTC=FILE: that library compiles it for the real device first, and says what is wrong. */
static nvrtcResult compile_for_device(program *p)
{
	const char *file = getenv("GG_FAKE_NVRTC");
	void *so = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
	bool exact = !strncmp(p->text, "#define GG_EXACT_SM", 19);
	const char *option[] = {exact ? "-arch=sm_90a" : "-arch=sm_90", "-std=c++17"};
	nvrtcProgram q = NULL;
	size_t n = 0;
	if (!file)
		return NVRTC_SUCCESS;
	if (!so)
		return snprintf(p->log, sizeof p->log, "%s", dlerror()), NVRTC_ERROR_INTERNAL_ERROR;
#define REAL(f) __typeof__(f) *f##_ = (__typeof__(f) *)dlsym(so, #f)
	REAL(nvrtcCreateProgram);
	REAL(nvrtcCompileProgram);
	REAL(nvrtcGetProgramLogSize);
	REAL(nvrtcGetProgramLog);
	REAL(nvrtcDestroyProgram);
	nvrtcResult r = nvrtcCreateProgram_(&q, p->text, "k.cu", 0, NULL, NULL);
	r = r ? r : nvrtcCompileProgram_(q, 2, option);
	if (r && q && !nvrtcGetProgramLogSize_(q, &n) && n <= sizeof p->log)
		nvrtcGetProgramLog_(q, p->log);
	nvrtcDestroyProgram_(&q);
	return r;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram h, int n, const char *const *option)
{
	program *p = (program *)(void *)h;
	nvrtcResult r = compile_for_device(p);
	const char *dir = getenv("GG_FAKE_DIR");
	char command[8192], so[512], source[600];
	FILE *f;
	if (r || fate())
		return r ? r : NVRTC_ERROR_INTERNAL_ERROR;
	snprintf(so, sizeof so, "%s/%016llx.so", dir,
	         (unsigned long long)gg_hash(p->text, strlen(p->text), 1));
	p->path = strdup(so);
	if (!access(so, R_OK))
		return NVRTC_SUCCESS;
	snprintf(source, sizeof source, "%s.%d.cc", so, (int)getpid());
	if (!(f = fopen(source, "w")))
		return NVRTC_ERROR_INTERNAL_ERROR;
	fputs(p->text, f);
	put_runner(f, p->text);
	fclose(f);
	snprintf(command, sizeof command,
	         "c++ -std=c++17 -O1 -w -fPIC -shared -fno-strict-aliasing -include %s/fake.h -o %s.%d %s "
	         "2>%s.log && mv "
	         "%s.%d %s && rm %s",
	         getenv("GG_FAKE_INCLUDE"), so, (int)getpid(), source, source, so, (int)getpid(), so, source);
	if (!system(command))
		return NVRTC_SUCCESS;
	snprintf(command, sizeof command, "%s.log", source);
	if ((f = fopen(command, "r"))) {
		size_t got = fread(p->log, 1, sizeof p->log - 1, f);
		p->log[got] = 0;
		fclose(f);
	}
	return NVRTC_ERROR_COMPILATION;
}
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *n)
{
	return *n = strlen(((program *)(void *)p)->path) + 1, NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *s)
{
	return strcpy(s, ((program *)(void *)p)->path), NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *n)
{
	return *n = strlen(((program *)(void *)p)->log) + 1, NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *s)
{
	return strcpy(s, ((program *)(void *)p)->log), NVRTC_SUCCESS;
}

/* ---- cuBLASLt ---------------------------------------------------------------------------------- */

/* What a product wants, and fills with what harms who has something there. */
enum { WORKSPACE = 300 };
typedef struct op {
	int32_t ta, tb;
	uint32_t epilogue;
	const void *bias;
} op;
typedef struct layout {
	gg_dtype t;
	uint64_t rows, cols;
	int64_t ld, stride;
	int32_t batch;
} layout;

cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
	return *h = later(1), fate() ? CUBLAS_STATUS_INTERNAL_ERROR : CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion(void) { return (size_t)asked("GG_FAKE_LT", 130000); }
const char *cublasLtGetStatusString(cublasStatus_t s) { return "failed"; }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t c, cudaDataType_t t)
{
	return *d = later(sizeof(op)), fate() ? CUBLAS_STATUS_INTERNAL_ERROR : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return free(d), CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t a,
                                              const void *v, size_t n)
{
	op *o = (op *)(void *)d;
	void *to = a == CUBLASLT_MATMUL_DESC_TRANSA     ? (void *)&o->ta
	           : a == CUBLASLT_MATMUL_DESC_TRANSB   ? (void *)&o->tb
	           : a == CUBLASLT_MATMUL_DESC_EPILOGUE ? (void *)&o->epilogue
	                                                : (void *)&o->bias;
	return memcpy(to, v, n), fate() ? CUBLAS_STATUS_INTERNAL_ERROR : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType_t t, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
	layout *x = later(sizeof *x);
	gg_dtype dt = t == CUDA_R_64F   ? GG_F64
	              : t == CUDA_R_32F ? GG_F32
	              : t == CUDA_R_16F ? GG_F16
	                                : GG_BF16;
	*x = (layout){dt, rows, cols, ld, 0, 1};
	return *l = (cublasLtMatrixLayout_t)(void *)x,
	       fate() ? CUBLAS_STATUS_INTERNAL_ERROR : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
	return free(l), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t a,
                                                const void *v, size_t n)
{
	layout *x = (layout *)(void *)l;
	void *to = a == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? (void *)&x->batch : (void *)&x->stride;
	return memcpy(to, v, n), fate() ? CUBLAS_STATUS_INTERNAL_ERROR : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
	return *p = later(1), fate() ? CUBLAS_STATUS_INTERNAL_ERROR : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
	return free(p), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t a, const void *v,
                                                    size_t n)
{
	return CUBLAS_STATUS_SUCCESS;
}

static bool fits(const layout *l, bool t, uint64_t rows, uint64_t cols)
{
	return (t ? l->cols : l->rows) == rows && (t ? l->rows : l->cols) == cols &&
	       l->ld >= (int64_t)l->rows;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t la, cublasLtMatrixLayout_t lb,
                                              cublasLtMatrixLayout_t lc, cublasLtMatrixLayout_t ld,
                                              cublasLtMatmulPreference_t p, int n,
                                              cublasLtMatmulHeuristicResult_t *r, int *found)
{
	const layout *a = (void *)la, *b = (void *)lb, *c = (void *)lc;
	const op *o = (void *)d;
	uint64_t k = o->ta ? a->rows : a->cols;
	if (fate())
		return CUBLAS_STATUS_INTERNAL_ERROR;
	if (!fits(a, o->ta, c->rows, k) || !fits(b, o->tb, k, c->cols) || a->batch != c->batch ||
	    b->batch != c->batch)
		return CUBLAS_STATUS_INVALID_VALUE;
	memset(r, 0, sizeof *r);
	r->workspaceSize = WORKSPACE;
	return *found = 1, CUBLAS_STATUS_SUCCESS;
}

static double at(const layout *l, const void *p, int64_t batch, bool t, uint64_t r, uint64_t c)
{
	gg_tensor x = {.dtype = l->t, .data = (void *)(uintptr_t)p};
	return gg_get_f64(&x, batch * l->stride + (int64_t)(t ? c : r) + (int64_t)(t ? r : c) * l->ld);
}

typedef struct product {
	op o;
	layout a, b, c;
	double alpha, beta;
	const void *pa, *pb, *pc;
	void *pd, *workspace;
} product;

static void do_product(void **arg, unsigned n)
{
	const product *p = *(product **)arg[0];
	gg_tensor d = {.dtype = p->c.t, .data = p->pd},
	          bias = {.dtype = p->c.t, .data = (void *)(uintptr_t)p->o.bias};
	uint64_t depth = p->o.ta ? p->a.rows : p->a.cols;
	if (!p->workspace)
		abort();
	memset(p->workspace, 0xee, WORKSPACE);
	bool has_bias = p->o.epilogue & CUBLASLT_EPILOGUE_BIAS, relu = p->o.epilogue & CUBLASLT_EPILOGUE_RELU,
	     gelu = p->o.epilogue & CUBLASLT_EPILOGUE_GELU;
	for (int64_t k = 0; k < p->c.batch; k++)
		for (uint64_t r = 0; r < p->c.rows; r++)
			for (uint64_t c = 0; c < p->c.cols; c++) {
				double s = 0;
				for (uint64_t i = 0; i < depth; i++)
					s += at(&p->a, p->pa, k, p->o.ta, r, i) *
					     at(&p->b, p->pb, k, p->o.tb, i, c);
				s *= p->alpha;
				if (p->beta != 0)
					s += p->beta * at(&p->c, p->pc, k, false, r, c);
				s += has_bias ? gg_get_f64(&bias, (int64_t)r) : 0;
				s = gelu ? s / 2 * (1 + tanh(0.7978845608028654 * (s + 0.044715 * s * s * s)))
				         : s;
				gg_set_f64(&d, k * p->c.stride + (int64_t)r + (int64_t)c * p->c.ld,
				           relu && s < 0 ? 0 : s);
			}
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t d, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t la, const void *b, cublasLtMatrixLayout_t lb,
                              const void *beta, const void *c, cublasLtMatrixLayout_t lc, void *y,
                              cublasLtMatrixLayout_t ld, const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t n, cudaStream_t s)
{
	product *p = later(sizeof *p);
	bool wide = ((const layout *)(const void *)lc)->t == GG_F64;
	*p = (product){*(op *)(void *)d,
	               *(layout *)(void *)la,
	               *(layout *)(void *)lb,
	               *(layout *)(void *)lc,
	               wide ? *(const double *)alpha : *(const float *)alpha,
	               wide ? *(const double *)beta : *(const float *)beta,
	               a,
	               b,
	               c,
	               y,
	               n >= WORKSPACE ? workspace : NULL};
	return submit((launch){.f = do_product, .arg = {p}}, s) ? CUBLAS_STATUS_EXECUTION_FAILED
	                                                        : CUBLAS_STATUS_SUCCESS;
}
