/* Memory and the queue of one device. */
#include "cuda.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

CUstream cuda_stream;
CUcontext cuda_context;
int cuda_sm, cuda_processors;
static CUdevice device;

/* Two pinned pieces take turns: one is filled while the other is on its way. One core fills them slower than
 * the bus takes them, so that much data goes in several lanes. */
enum { PIECE = 2 << 20, LANES = 4 };
static struct lane {
	char *pinned[2];
	CUevent sent[2];
} lanes[LANES];
static char name[256], version[512], where[300];

typedef struct block {
	CUdeviceptr p;
	size_t bytes;
	char *what;
} block;
static block *blocks;
static size_t nblock, cap_block;
static gg_room usage;

static size_t in_use(void)
{
	size_t left = 0, total = 0;

	cu.cuMemGetInfo(&left, &total);
	usage.total = total;
	return total - left;
}

static int attribute(CUdevice dev, CUdevice_attribute a)
{
	int x = 0;
	cu.cuDeviceGetAttribute(&x, a, dev);
	return x;
}

static bool open_lanes(gg_diag *d)
{
	void *p = NULL;

	if (lanes[LANES - 1].sent[1])
		return true;
	if (!cuda_ok(d, cu.cuMemAllocHost(&p, (size_t)2 * LANES * PIECE), "cannot pin memory of the host"))
		return false;
	for (int i = 0; i < 2 * LANES; i++) {
		struct lane *l = &lanes[i / 2];
		l->pinned[i % 2] = (char *)p + (size_t)i * PIECE;
		if (!cuda_ok(d, cu.cuEventCreate(&l->sent[i % 2], CU_EVENT_DISABLE_TIMING),
		             "cannot make an event"))
			return false;
	}
	return true;
}

/* What the device is; it is opened by `start`, while libraries are being loaded. */
bool cuda_open_device(gg_diag *d)
{
	double start = gg_clock();

	if (!cuda_open_driver(d) || !cuda_ok(d, cu.cuInit(0), "cannot start the driver") ||
	    !cuda_ok(d, cu.cuDeviceGet(&device, 0), "there is no device"))
		return false;
	cu.cuDeviceGetName(name, sizeof name, device);
	cuda_sm = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
	          attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
	cuda_processors = attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	gg_verbose(d, "driver started in %.1f ms", 1e3 * (gg_clock() - start));
	return true;
}

static bool open_context(gg_diag *d)
{
	double start = gg_clock();

	if (!cuda_ok(d, cu.cuDevicePrimaryCtxRetain(&cuda_context, device), "cannot open the device") ||
	    !cuda_ok(d, cu.cuCtxSetCurrent(cuda_context), "cannot open the device") ||
	    !cuda_ok(d, cu.cuStreamCreate(&cuda_stream, CU_STREAM_NON_BLOCKING), "cannot make a stream"))
		return false;
	usage.context = in_use();
	gg_verbose(d, "device opened in %.1f ms", 1e3 * (gg_clock() - start));
	return true;
}

static bool start(gg_diag *d)
{
	pthread_t loader;
	bool loading = !cuda_is_offline && !pthread_create(&loader, NULL, cuda_load_expected, NULL);
	bool good = cuda_is_offline || cuda_stream || open_context(d);

	if (good && !cuda_is_offline)
		dnn_start();
	if (loading)
		pthread_join(loader, NULL);
	return good;
}

const char *cuda_version(void)
{
	int driver = 0, major = 0, minor = 0;

	cu.cuDriverGetVersion(&driver);
	snprintf(version, sizeof version, "%s, sm_%d, driver for CUDA %d.%d", name, cuda_sm, driver / 1000,
	         driver % 1000 / 10);
	if (rtc.nvrtcVersion && !rtc.nvrtcVersion(&major, &minor))
		snprintf(version + strlen(version), sizeof version - strlen(version), ", NVRTC %d.%d", major,
		         minor);
	return version;
}

const char *cuda_where(void)
{
	int driver = 0;

	if (*name && !*where && !cu.cuDriverGetVersion(&driver))
		snprintf(where, sizeof where, ", %s, driver for CUDA %d.%d", name, driver / 1000,
		         driver % 1000 / 10);
	return where;
}

/* In the form of lib/target/h200.json, which is cuDNN's. */
char *cuda_card_text(void)
{
#define A(x) CU_DEVICE_ATTRIBUTE_##x
	static const struct {
		const char *name;
		CUdevice_attribute a[3]; /* 0: no further one */
	} row[] = {{"maxGridSize", {A(MAX_GRID_DIM_X), A(MAX_GRID_DIM_Y), A(MAX_GRID_DIM_Z)}},
	           {"maxBlockSize", {A(MAX_BLOCK_DIM_X), A(MAX_BLOCK_DIM_Y), A(MAX_BLOCK_DIM_Z)}},
	           {"regsPerBlock", {A(MAX_REGISTERS_PER_BLOCK)}},
	           {"multiProcessorCount", {A(MULTIPROCESSOR_COUNT)}},
	           {"warpSize", {A(WARP_SIZE)}},
	           {"maxSharedMemoryPerBlock", {A(MAX_SHARED_MEMORY_PER_BLOCK)}},
	           {"maxSharedMemoryPerBlockOptin", {A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)}},
	           {"reservedSharedMemoryPerBlock", {A(RESERVED_SHARED_MEMORY_PER_BLOCK)}},
	           {"maxRegistersPerSM", {A(MAX_REGISTERS_PER_MULTIPROCESSOR)}},
	           {"maxCtasPerSM", {A(MAX_BLOCKS_PER_MULTIPROCESSOR)}},
	           {"maxThreadsPerBlock", {A(MAX_THREADS_PER_BLOCK)}},
	           {"maxThreadsPerSM", {A(MAX_THREADS_PER_MULTIPROCESSOR)}},
	           {"pciDeviceId", {A(PCI_DEVICE_ID)}},
	           {"isTccDriver", {A(TCC_DRIVER)}},
	           {"supportCoopLaunch", {A(COOPERATIVE_LAUNCH)}},
	           {"smClockRateKHz", {A(CLOCK_RATE)}},
	           {"memClockRateKHz", {A(MEMORY_CLOCK_RATE)}},
	           {"l2CacheSize", {A(L2_CACHE_SIZE)}}};
#undef A
	size_t memory = 0;
	int driver = 0;
	gg_buf b = {0};

	cu.cuDeviceTotalMem(&memory, 0);
	cu.cuDriverGetVersion(&driver);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		int n = row[i].a[1] ? 3 : 1;
		gg_buf_printf(&b, "%s\"%s\":%s", i ? "," : "{", row[i].name, n > 1 ? "[" : "");
		for (int k = 0; k < n; k++)
			gg_buf_printf(&b, "%s%d", k ? "," : "", attribute(0, row[i].a[k]));
		gg_buf_str(&b, n > 1 ? "]" : "");
	}
	gg_buf_printf(&b,
	              ",\"totalGlobalMem\":%zu,\"cudaDeviceId\":0,\"deviceVer\":%d,\"driverVer\":%d,"
	              "\"deviceName\":\"%s\"}\n",
	              memory, cuda_sm * 10, driver, name);
	return b.p;
}

static int tries = -1;

int cuda_tune(void)
{
	const char *s = getenv("GG_CUDA_TUNE");
	return tries >= 0 ? tries : s ? atoi(s) : 0;
}

void cuda_want(const char *what, const char *value)
{
	if (!strcmp(what, "tune"))
		tries = atoi(value);
	else if (!strcmp(what, "deterministic"))
		cuda_deterministic = true;
	else if (!strcmp(what, "device"))
		cuda_description = value;
}

/* ---- memory ------------------------------------------------------------------------------------ */

static void tell_usage(gg_room *u)
{
	usage.used = in_use();
	*u = usage;
}

static void note_block(CUdeviceptr p, size_t bytes, const char *what)
{
	block b = {p, bytes, strcpy(gg_xmalloc(strlen(what) + 1), what)};

	GG_PUSH(blocks, nblock, cap_block, b);
	usage.own += bytes;
	usage.peak = usage.own > usage.peak ? usage.own : usage.peak;
}

static void drop_block(CUdeviceptr p)
{
	for (size_t i = nblock; i-- > 0;)
		if (blocks[i].p == p) {
			usage.own -= blocks[i].bytes;
			free(blocks[i].what);
			blocks[i] = blocks[--nblock];
			return;
		}
}

static int by_size(const void *a, const void *b)
{
	const block *x = a, *y = b;
	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* Who asked for how much, what there is, and who has most of it. */
static bool no_room(gg_diag *d, size_t bytes, const char *what)
{
	enum { SHOWN = 4 };
	size_t used = in_use();
	gg_buf b = {0};

	if (nblock)
		qsort(blocks, nblock, sizeof *blocks, by_size);
	for (size_t i = 0; i < nblock && i < SHOWN; i++)
		gg_buf_printf(&b, "%s'%s' %.4g MB", i ? ", " : "; largest so far: ", blocks[i].what,
		              (double)blocks[i].bytes * 1e-6);
	gg_error(d, GG_MACHINE, "target 'cuda': out of memory: %.4g MB for '%s', %.4g of %.4g MB are free%s",
	         (double)bytes * 1e-6, what, (double)(usage.total - used) * 1e-6, (double)usage.total * 1e-6,
	         nblock ? b.p : "");
	gg_buf_fini(&b);
	return false;
}

static CUdeviceptr address(const void *p) { return (CUdeviceptr)(uintptr_t)p; }

static void *alloc(gg_diag *d, size_t bytes, const char *what)
{
	CUdeviceptr p = 0;
	CUresult r = cu.cuMemAlloc(&p, bytes ? bytes : 1);

	if (r == CUDA_ERROR_OUT_OF_MEMORY) {
		no_room(d, bytes, what);
	} else if (cuda_ok(d, r, "cannot allocate memory of the device")) {
		note_block(p, bytes ? bytes : 1, what);
		gg_verbose(d, "device memory: %zu bytes for '%s'", bytes, what);
	}
	return r ? NULL : (void *)(uintptr_t)p;
}

static void release(void *p)
{
	drop_block(address(p));
	cu.cuMemFree(address(p));
}

typedef struct cargo {
	gg_diag d;
	struct lane *l;
	CUdeviceptr to;
	const char *from;
	size_t bytes;
	pthread_t thread;
	bool started, good;
} cargo;

static bool carry(gg_diag *d, const cargo *c)
{
	int turn = 0;

	for (size_t at = 0, n; at < c->bytes; at += n, turn ^= 1) {
		n = c->bytes - at < PIECE ? c->bytes - at : PIECE;
		if (!cuda_ok(d, cu.cuEventSynchronize(c->l->sent[turn]), "cannot wait for a copy"))
			return false;
		memcpy(c->l->pinned[turn], c->from + at, n);
		if (!cuda_ok(d, cu.cuMemcpyHtoDAsync(c->to + at, c->l->pinned[turn], n, cuda_stream),
		             "cannot copy to the device") ||
		    !cuda_ok(d, cu.cuEventRecord(c->l->sent[turn], cuda_stream), "cannot record an event"))
			return false;
	}
	return true;
}

static void *carry_beside(void *p)
{
	cargo *c = p;

	c->good = !cu.cuCtxSetCurrent(cuda_context) && carry(&c->d, c);
	return NULL;
}

static bool upload(gg_diag *d, void *to, const void *host, size_t bytes)
{
	int n = bytes >= (size_t)2 * LANES * PIECE ? LANES : 1;
	size_t share = (bytes / (size_t)n + PIECE - 1) / PIECE * PIECE;
	cargo c[LANES];
	bool good = true;

	if (cuda_is_offline)
		return true;
	if (!open_lanes(d))
		return false;
	for (int i = 0; i < n; i++) {
		size_t at = share * (size_t)i, left = bytes > at ? bytes - at : 0;
		c[i] = (cargo){.d = {.silent = true},
		               .l = &lanes[i],
		               .to = address(to) + at,
		               .from = (const char *)host + at,
		               .bytes = i + 1 < n && left > share ? share : left};
		c[i].started = i > 0 && !pthread_create(&c[i].thread, NULL, carry_beside, &c[i]);
	}
	for (int i = 0; i < n; i++)
		if (!c[i].started)
			good &= carry(d, &c[i]);
	for (int i = 1; i < n; i++)
		if (c[i].started) {
			pthread_join(c[i].thread, NULL);
			good &= c[i].good ||
			        gg_error(d, GG_MACHINE, "target 'cuda': cannot copy to the device");
		}
	return good;
}

static bool sync(gg_diag *d) { return cuda_ok(d, cu.cuStreamSynchronize(cuda_stream), "the device failed"); }

static bool download(gg_diag *d, void *host, const void *from, size_t bytes)
{
	return !bytes || (cuda_ok(d, cu.cuMemcpyDtoHAsync(host, address(from), bytes, cuda_stream),
	                          "cannot copy from the device") &&
	                  sync(d));
}

static bool copy(gg_diag *d, void *to, const void *from, size_t bytes)
{
	return !bytes || cuda_ok(d, cu.cuMemcpyDtoDAsync(address(to), address(from), bytes, cuda_stream),
	                         "cannot copy on the device");
}

static bool fill(gg_diag *d, void *to, int byte, size_t bytes)
{
	return !bytes || cuda_ok(d, cu.cuMemsetD8Async(address(to), (unsigned char)byte, bytes, cuda_stream),
	                         "cannot fill memory of the device");
}

static bool record(gg_diag *d)
{
	return cuda_ok(d, cu.cuStreamBeginCapture(cuda_stream, CU_STREAM_CAPTURE_MODE_RELAXED),
	               "cannot record the step");
}

static void *recorded(gg_diag *d)
{
	CUgraph g = NULL;
	CUgraphExec x = NULL;

	if (!cuda_ok(d, cu.cuStreamEndCapture(cuda_stream, &g), "cannot record the step"))
		return NULL;
	cuda_ok(d, cu.cuGraphInstantiateWithFlags(&x, g, 0), "cannot make a graph of the step");
	cu.cuGraphDestroy(g);
	return x;
}

static bool replay(gg_diag *d, void *x)
{
	return cuda_ok(d, cu.cuGraphLaunch(x, cuda_stream), "cannot replay the step");
}

static void forget(void *x) { cu.cuGraphExecDestroy(x); }

/* Several runs between two events, recorded where they can be: small kernels take less than their launch does
 * on the host. */
float cuda_measure(bool (*run)(void *p), void *p)
{
	enum { RUNS = 8, TIMES = 4 };
	static CUevent from, to;
	gg_diag silent = {.silent = true};
	float best = -1, ms = 0;
	void *x = NULL;
	bool good = from ||
	            (!cu.cuEventCreate(&from, CU_EVENT_DEFAULT) && !cu.cuEventCreate(&to, CU_EVENT_DEFAULT));

	good = good && run(p); /* warms up */
	if (good && record(&silent)) {
		bool all = true;
		for (int k = 0; k < RUNS && all; k++)
			all = run(p);
		x = recorded(&silent);
		if (x && !all) {
			forget(x);
			x = NULL;
		}
	}
	for (int i = 0; i < TIMES && good; i++) {
		cu.cuEventRecord(from, cuda_stream);
		for (int k = 0; k < (x ? 1 : RUNS) && good; k++)
			good = x ? replay(&silent, x) : run(p);
		cu.cuEventRecord(to, cuda_stream);
		good = good && !cu.cuEventSynchronize(to) && !cu.cuEventElapsedTime(&ms, from, to);
		if (good && (best < 0 || ms / RUNS < best))
			best = ms / RUNS;
	}
	if (x)
		forget(x);
	return good ? best : -1;
}

/* ---- streams ----------------------------------------------------------------------------------- */

static CUstream streams[GG_COPY_STREAM + 1], for_dnn;

static bool use(gg_diag *d, int stream)
{
	if (!streams[0])
		streams[0] = cuda_stream;
	if (stream > GG_COPY_STREAM)
		gg_bug("stream %d of %d", stream, GG_COPY_STREAM);
	if (!streams[stream] &&
	    !cuda_ok(d, cu.cuStreamCreate(&streams[stream], CU_STREAM_NON_BLOCKING), "cannot make a stream"))
		return false;
	cuda_stream = streams[stream];
	for_dnn = for_dnn ? for_dnn : streams[0];
	if (stream != GG_COPY_STREAM && for_dnn != cuda_stream) {
		for_dnn = cuda_stream;
		dnn_use_stream();
	}
	return true;
}

typedef struct event_list {
	CUevent *e;
	size_t n, cap;
	unsigned flags;
} event_list;

static bool have(gg_diag *d, event_list *l, size_t i)
{
	while (i >= l->n) {
		CUevent e;
		if (!cuda_ok(d, cu.cuEventCreate(&e, l->flags), "cannot make an event"))
			return false;
		GG_PUSH(l->e, l->n, l->cap, e);
	}
	return true;
}

static event_list events = {.flags = CU_EVENT_DISABLE_TIMING}, marks = {.flags = CU_EVENT_DEFAULT};

static bool record_event(gg_diag *d, event_list *l, size_t i)
{
	return have(d, l, i) && cuda_ok(d, cu.cuEventRecord(l->e[i], cuda_stream), "cannot record an event");
}

static bool signal_event(gg_diag *d, size_t i) { return record_event(d, &events, i); }

static bool wait_event(gg_diag *d, size_t i)
{
	return have(d, &events, i) &&
	       cuda_ok(d, cu.cuStreamWaitEvent(cuda_stream, events.e[i], 0), "cannot wait for an event");
}

/* ---- marks: for profiles ------------------------------------------------------------------------- */

static bool mark(gg_diag *d, size_t i) { return record_event(d, &marks, i); }

static bool marked(gg_diag *d, size_t n, double *seconds)
{
	for (size_t i = 0; i < n; i++) {
		float ms = 0;
		if (!cuda_ok(d, cu.cuEventElapsedTime(&ms, marks.e[0], marks.e[i]), "cannot read an event"))
			return false;
		seconds[i] = (double)ms * 1e-3;
	}
	return true;
}

static int arch(void) { return cuda_sm; }

const gg_device cuda_device = {
    .start = start,
    .alloc = alloc,
    .release = release,
    .upload = upload,
    .download = download,
    .copy = copy,
    .fill = fill,
    .sync = sync,
    .record = record,
    .recorded = recorded,
    .replay = replay,
    .forget = forget,
    .use = use,
    .signal = signal_event,
    .wait = wait_event,
    .mark = mark,
    .marked = marked,
    .usage = tell_usage,
    .arch = arch,
};
