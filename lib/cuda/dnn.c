/* cuDNN 9's graph API: the one file that speaks its descriptors.
 *
 *     x, w ── convolution ──▶ · ── * scale ──▶ · ── + add, + bias ──▶ · ── relu ──▶ y
 *     x, w ── product ──▶ · ── + bias, + add ──▶ · ── relu, gelu ──▶ y
 *
 * (or a convolution the other way, from what it makes to what it reads)
 * are asked for as one engine each; what lies between is virtual. Engines come from cuDNN's
 * heuristics, and the first that can be finalised is taken, or, where cuda_tune() is more than 1, the
 * fastest of so many. Plans are kept for the life of the process: networks repeat their layers. Most are
 * compiled then, so those that a graph is known to want are made by threads meanwhile, and what was
 * compiled is kept in the cache. Without a device engines are chosen for one that is described. */
#include "cuda.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef cudnnBackendDescriptor_t desc;
enum { X = 'x', W = 'w', Y = 'y', BIAS = 'b', ADD = 'z', SCALE = 's' };
enum { MAX_DESCS = 256, MAX_ENGINES = 24, MAX_REAL = 6, MAX_KNOBS = 64, MAX_THREADS = 4 };

struct dnn_plan {
	dnn_spec of;
	const char *key; /* the same as text */
	desc plan;       /* NULL: there is none */
	size_t workspace;
	float ms; /* where it was measured; else 0 */
	enum { OPEN, BUSY, DONE } state;
	bool wait, told;           /* not made before it is asked for; somebody did */
	const char *choice, *from; /* as text; where the plan comes from. NULL: not known */
	double seconds;
	char why[256]; /* what cuDNN said when it refused */
	dnn_plan *next;
};

static cudnnHandle_t handle;
static desc device; /* that need not be there; NULL: the one at hand */
static dnn_plan *plans;
static const desc nowhere = (desc)(void *)&plans; /* a plan that is made when gg-run loads it */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct build {
	dnn_plan *p;
	const dnn_conv *o; /* of a convolution */
	gg_dtype dtype;
	bool tf32;
	desc made[MAX_DESCS];
	int n;
	int64_t id[MAX_REAL]; /* tensors that are given at run */
	size_t bytes[MAX_REAL];
	int nreal;
	bool failed;
} build;

static double opened; /* seconds that it took, until they are told */

/* By any thread. */
static bool open_handle(gg_diag *d)
{
	static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
	double start = gg_clock();
	cudnnHandle_t h = NULL;
	cudnnStatus_t s = CUDNN_STATUS_SUCCESS;

	if (!cuda_open_dnn(d))
		return false;
	pthread_mutex_lock(&opening);
	if (!handle) {
		s = dnn.cudnnCreate(&h);
		s = s ? s : dnn.cudnnSetStream(h, (cudaStream_t)cuda_stream);
		handle = s ? NULL : h;
		opened = gg_clock() - start;
	}
	pthread_mutex_unlock(&opening);
	return !s || gg_error(d, GG_MACHINE, "cuDNN: cannot start: %s", dnn.cudnnGetErrorString(s));
}

void dnn_use_stream(void)
{
	if (handle)
		dnn.cudnnSetStream(handle, (cudaStream_t)cuda_stream);
}

/* With the kind of device that it chooses for; the second one with all that is known of the one at hand. */
static const char *kind_of_library(void)
{
	static char text[64];
	size_t v = dnn.cudnnGetVersion();

	snprintf(text, sizeof text, "cuDNN %zu.%zu.%zu, sm_%d", v / 10000, v % 10000 / 100, v % 100, cuda_sm);
	return text;
}

static const char *library(void)
{
	static char text[512];

	if (!*text)
		snprintf(text, sizeof text, "%s%s", kind_of_library(), cuda_where());
	return text;
}

/* ---- descriptors, with the first failure kept -------------------------------------------------- */

static void check(build *b, cudnnStatus_t s, const char *what)
{
	char why[256] = "";

	if (s == CUDNN_STATUS_SUCCESS || b->failed)
		return;
	b->failed = true;
	dnn.cudnnGetLastErrorString(why, sizeof why);
	snprintf(b->p->why, sizeof b->p->why, "%s: %s: %.180s", what, dnn.cudnnGetErrorString(s), why);
}

static desc make(build *b, cudnnBackendDescriptorType_t t)
{
	desc x = NULL;

	if (b->failed)
		return NULL;
	if (b->n == MAX_DESCS)
		gg_bug("more than %d descriptors", MAX_DESCS);
	check(b, dnn.cudnnBackendCreateDescriptor(t, &x), "descriptor");
	if (x)
		b->made[b->n++] = x;
	return x;
}

static void set(build *b, desc x, cudnnBackendAttributeName_t a, cudnnBackendAttributeType_t t, int64_t n,
                const void *v)
{
	if (!b->failed)
		check(b, dnn.cudnnBackendSetAttribute(x, a, t, n, v), "attribute");
}

static void finish(build *b, desc x, const char *what)
{
	if (!b->failed)
		check(b, dnn.cudnnBackendFinalize(x), what);
}

/* By handle, or for the device that is described. */
static void set_place(build *b, desc x, cudnnBackendAttributeName_t by_handle,
                      cudnnBackendAttributeName_t by_device)
{
	if (device)
		set(b, x, by_device, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
	else
		set(b, x, by_handle, CUDNN_TYPE_HANDLE, 1, &handle);
}

static void drop(build *b, int from)
{
	while (b->n > from)
		dnn.cudnnBackendDestroyDescriptor(b->made[--b->n]);
}

/* cuDNN 9.8 and later choose for a device that is not there. */
static bool open_description(gg_diag *d)
{
	build b = {.p = &(dnn_plan){.next = NULL}};
	static bool tried;
	desc x;

	if (tried || !cuda_description)
		return device;
	tried = true;
	if (!cuda_open_dnn(d) || dnn.cudnnGetVersion() < 90800)
		return false;
	x = make(&b, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
	set(&b, x, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
	    (int64_t)strlen(cuda_description), cuda_description);
	finish(&b, x, "description of the device");
	if (!b.failed) {
		b.n--;
		device = x;
	}
	drop(&b, 0);
	gg_verbose(d, "%s chooses without a device%s%s", kind_of_library(), device ? "" : ": no: ", b.p->why);
	return device;
}

static bool open_library(gg_diag *d) { return cuda_is_offline ? open_description(d) : open_handle(d); }

static cudnnDataType_t data_type(gg_dtype t)
{
	return t == GG_F64   ? CUDNN_DATA_DOUBLE
	       : t == GG_F32 ? CUDNN_DATA_FLOAT
	       : t == GG_F16 ? CUDNN_DATA_HALF
	                     : CUDNN_DATA_BFLOAT16;
}

static cudnnDataType_t compute_type(const dnn_conv *o)
{
	return o->dtype == GG_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

static size_t type_size(cudnnDataType_t t)
{
	return t == CUDNN_DATA_DOUBLE ? 8 : t == CUDNN_DATA_FLOAT ? 4 : 2;
}

typedef enum kind { REAL, VIRTUAL } kind;

static void note_real(build *b, int64_t id, cudnnDataType_t t, int rank, const int64_t *dim,
                      const int64_t *stride)
{
	int64_t last = 0;
	if (b->nreal == MAX_REAL)
		gg_bug("more than %d tensors", MAX_REAL);
	for (int i = 0; i < rank; i++)
		last += (dim[i] - 1) * stride[i];
	b->id[b->nreal] = id;
	b->bytes[b->nreal++] = (size_t)(last + 1) * type_size(t);
}

static desc tensor_of(build *b, int64_t id, kind how, cudnnDataType_t t, int rank, const int64_t *dim,
                      const int64_t *stride)
{
	int64_t align = 16;
	bool yes = true;
	desc x = make(b, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	if (how == REAL)
		note_real(b, id, t, rank, dim, stride);
	set(b, x, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t);
	set(b, x, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, dim);
	set(b, x, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, stride);
	set(b, x, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
	set(b, x, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
	if (how == VIRTUAL)
		set(b, x, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
	finish(b, x, "tensor");
	return x;
}

/* dims: batch, channels, spatial. */
static desc tensor(build *b, int64_t id, kind how, cudnnDataType_t t, int64_t batch, int64_t channels,
                   const int64_t *spatial)
{
	const dnn_conv *o = b->o;
	int64_t dim[5] = {batch, channels}, stride[5], n = 1;
	int rank = o->nd + 2;
	for (int i = 0; i < o->nd; i++)
		dim[2 + i] = spatial ? spatial[i] : 1;
	if (o->nhwc) {
		stride[1] = n;
		n = channels;
	}
	for (int i = rank - 1; i >= 2; i--) {
		stride[i] = n;
		n *= dim[i];
	}
	if (!o->nhwc) {
		stride[1] = n;
		n *= channels;
	}
	stride[0] = n;
	return tensor_of(b, id, how, t, rank, dim, stride);
}

static const struct way {
	cudnnBackendDescriptorType_t type;
	cudnnBackendAttributeName_t conv, x, w, y, alpha, beta;
} forward = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
  back = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};

static desc convolution(build *b, desc x, desc w, desc y)
{
	const dnn_conv *o = b->o;
	const struct way *to = o->back ? &back : &forward;
	cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
	cudnnDataType_t t = compute_type(o);
	int64_t nd = o->nd;
	double one = 1, zero = 0;
	float onef = 1, zerof = 0;
	bool wide = t == CUDNN_DATA_DOUBLE;
	cudnnBackendAttributeType_t st = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
	desc c = make(b, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR), op;
	set(b, c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t);
	set(b, c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
	set(b, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &nd);
	set(b, c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, nd, o->before);
	set(b, c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, nd, o->after);
	set(b, c, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, nd, o->dilation);
	set(b, c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, nd, o->stride);
	finish(b, c, "convolution");
	op = make(b, to->type);
	set(b, op, to->conv, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &c);
	set(b, op, to->x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
	set(b, op, to->w, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &w);
	set(b, op, to->y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
	set(b, op, to->alpha, st, 1, wide ? (void *)&one : &onef);
	set(b, op, to->beta, st, 1, wide ? (void *)&zero : &zerof);
	finish(b, op, "convolution");
	return op;
}

/* other NULL: of one input. */
static desc pointwise(build *b, cudnnPointwiseMode_t mode, cudnnDataType_t t, desc x, desc other, desc y)
{
	desc p = make(b, CUDNN_BACKEND_POINTWISE_DESCRIPTOR), op;
	set(b, p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
	set(b, p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &t);
	finish(b, p, "pointwise");
	op = make(b, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
	set(b, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &p);
	set(b, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
	if (other)
		set(b, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other);
	set(b, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
	finish(b, op, "pointwise");
	return op;
}

/* ---- the graph and its engines ----------------------------------------------------------------- */

static desc graph_of(build *b, int64_t n, const desc *op)
{
	desc g = make(b, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
	if (!device)
		set(b, g, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
	set(b, g, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, op);
	finish(b, g, "graph");
	return g;
}

static desc conv_graph(build *b)
{
	const dnn_conv *o = b->o;
	cudnnDataType_t t = data_type(o->dtype), c = compute_type(o), each = o->scale ? c : t;
	/* In the order in which cuDNN knows them. */
	const struct {
		bool wanted;
		int64_t id;
		cudnnPointwiseMode_t mode;
	} all[] = {{o->scale, SCALE, CUDNN_POINTWISE_MUL},
	           {o->scale && o->bias, BIAS, CUDNN_POINTWISE_ADD},
	           {o->add, ADD, CUDNN_POINTWISE_ADD},
	           {!o->scale && o->bias, BIAS, CUDNN_POINTWISE_ADD},
	           {o->relu, 0, CUDNN_POINTWISE_RELU_FWD}};
	int left = o->scale + o->add + o->bias + o->relu;
	int64_t n = 0, channels = o->back ? o->cin : o->cout;
	const int64_t *out = o->back ? o->in : o->out;
	desc op[6], x, w, y;
	x = o->back ? tensor(b, X, REAL, t, o->batch, o->cout, o->out)
	            : tensor(b, X, REAL, t, o->batch, o->cin, o->in);
	w = tensor(b, W, REAL, t, o->cout, o->cin / o->group, o->kernel);
	y = tensor(b, left ? 1000 : Y, left ? VIRTUAL : REAL, left ? c : t, o->batch, channels, out);
	op[n++] = convolution(b, x, w, y);
	for (int i = 0; i < 5; i++) {
		desc other = NULL, next;
		if (!all[i].wanted)
			continue;
		left--;
		if (all[i].id == ADD)
			other = tensor(b, ADD, REAL, t, o->batch, channels, out);
		else if (all[i].id)
			other = tensor(b, all[i].id, REAL, each, 1, channels, NULL);
		next = tensor(b, left ? 1001 + i : Y, left ? VIRTUAL : REAL, left ? c : t, o->batch, channels,
		              out);
		op[n++] = pointwise(b, all[i].mode, c, y, other, next);
		y = next;
	}
	return graph_of(b, n, op);
}

/* An engine that rounds what is f32, or adds in f16, is not for strict graphs; nor, where it is not wanted,
 * one that adds in another order each time. */
static bool is_strict(gg_dtype dtype, bool tf32, desc config)
{
	cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
	desc engine = NULL;
	int64_t n = 0;
	bool good = true;
	if (dnn.cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine))
		return false;
	if (dnn.cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
	                                 1, &n, &engine) ||
	    dnn.cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
	                                 CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, note))
		n = 0;
	for (int64_t i = 0; i < n && i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; i++) {
		bool tensor = note[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
		good &= !(tensor && dtype == GG_F32 && !tf32);
		good &= note[i] != CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
		good &= note[i] != CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS || tf32;
		good &= note[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC || !cuda_deterministic;
	}
	dnn.cudnnBackendDestroyDescriptor(engine);
	return good;
}

static int heuristics(build *b, desc g, cudnnBackendHeurMode_t mode, desc *config)
{
	desc h = make(b, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
	int64_t n = 0;
	set(b, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g);
	set(b, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
	if (device)
		set(b, h, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
	finish(b, h, "heuristics");
	for (int i = 0; i < MAX_ENGINES; i++)
		config[i] = make(b, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
	if (!b->failed)
		check(b,
		      dnn.cudnnBackendGetAttribute(h, CUDNN_ATTR_ENGINEHEUR_RESULTS,
		                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_ENGINES, &n, config),
		      "heuristics");
	return b->failed ? 0 : (int)(n < MAX_ENGINES ? n : MAX_ENGINES);
}

/* The rest of a plan descriptor; NULL: cuDNN refuses. */
static desc finish_plan(build *b, desc p, size_t *workspace)
{
	int64_t bytes = 0, n = 0;

	finish(b, p, "plan");
	if (!b->failed)
		check(b,
		      dnn.cudnnBackendGetAttribute(p, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
		                                   CUDNN_TYPE_INT64, 1, &n, &bytes),
		      "workspace");
	*workspace = (size_t)bytes;
	if (b->failed)
		return NULL;
	b->n--; /* it stays */
	return p;
}

static desc finalise(build *b, desc config, size_t *workspace)
{
	build own = {.p = b->p};
	desc p = make(&own, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);

	set_place(&own, p, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
	set(&own, p, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
	p = finish_plan(&own, p, workspace);
	drop(&own, 0);
	return p;
}

/* ---- engines and plans as text ----------------------------------------------------------------- */

static bool get(desc x, cudnnBackendAttributeName_t a, cudnnBackendAttributeType_t t, int64_t most,
                int64_t *n, void *out)
{
	return x && !dnn.cudnnBackendGetAttribute(x, a, t, most, n, out);
}

/* "engine 38 2=1 6=0": its number, then knobs by their type. NULL: it cannot be told. */
static char *engine_text(desc config)
{
	build b = {.p = &(dnn_plan){.next = NULL}};
	desc engine = make(&b, CUDNN_BACKEND_ENGINE_DESCRIPTOR), knob[MAX_KNOBS];
	int64_t n = 0, m = 0, index = 0;
	gg_buf out = {0};
	bool good;

	for (int i = 0; i < MAX_KNOBS; i++)
		knob[i] = make(&b, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
	good = get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &m, &engine) &&
	       get(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &m, &index) &&
	       get(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_KNOBS, &n,
	           knob);
	gg_buf_printf(&out, "engine %lld", (long long)index);
	for (int i = 0; i < n && i < MAX_KNOBS && good; i++) {
		cudnnBackendKnobType_t type = 0;
		int64_t value = 0;
		good = get(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &m, &type) &&
		       get(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &m, &value);
		gg_buf_printf(&out, " %d=%lld", (int)type, (long long)value);
	}
	drop(&b, 0);
	if (good)
		return out.p;
	gg_buf_fini(&out);
	return NULL;
}

static desc engine_of(build *b, desc g, const char *text)
{
	desc engine = make(b, CUDNN_BACKEND_ENGINE_DESCRIPTOR), knob[MAX_KNOBS], config;
	int64_t index, n = 0;
	char *at;

	if (strncmp(text, "engine ", 7))
		return NULL;
	index = strtoll(text + 7, &at, 10);
	set(b, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g);
	set(b, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
	if (device)
		set(b, engine, CUDNN_ATTR_ENGINE_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
	finish(b, engine, "engine");
	for (; *at == ' ' && n < MAX_KNOBS; n++) {
		cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)strtoll(at, &at, 10);
		int64_t value = *at == '=' ? strtoll(at + 1, &at, 10) : 0;
		knob[n] = make(b, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
		set(b, knob[n], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
		set(b, knob[n], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value);
		finish(b, knob[n], "knob");
	}
	config = make(b, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
	set(b, config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
	if (n)
		set(b, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, knob);
	finish(b, config, "engine");
	return b->failed ? NULL : config;
}

/* A line that says what was chosen, then cuDNN's own text, which holds what was compiled. */
static bool plan_text(const dnn_plan *p, gg_buf *out)
{
	int64_t n = 0, got = 0;
	bool good = get(p->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0, &n, NULL);
	char *text = gg_xcalloc((size_t)n + 1, 1);

	good = good && n > 0 &&
	       get(p->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, n, &got, text);
	gg_buf_printf(out, "%s\n%s", p->choice ? p->choice : "?", text);
	free(text);
	return good;
}

static bool read_plan(dnn_plan *p, const char *text, size_t n)
{
	const char *line = memchr(text, '\n', n);
	build b = {.p = p};
	desc x = make(&b, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);

	if (line) {
		n -= (size_t)(line + 1 - text);
		set_place(&b, x, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
		set(&b, x, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)n,
		    line + 1);
		p->plan = finish_plan(&b, x, &p->workspace);
		p->choice = p->plan ? strndup(text, (size_t)(line - text)) : p->choice;
	}
	drop(&b, 0);
	return p->plan;
}

/* Of a plan, by all that it depends on; `place`: cuDNN and the device. */
static void plan_name(const dnn_plan *p, const char *place, char name[64])
{
	gg_buf b = {0};

	gg_buf_printf(&b, "%s\n%s\n%s\n%d", place, p->key, p->choice ? p->choice : "", cuda_deterministic);
	snprintf(name, 64, "cudnn-%016llx%016llx.engine", (unsigned long long)gg_hash(b.p, b.len, 1),
	         (unsigned long long)gg_hash(b.p, b.len, 2));
	gg_buf_fini(&b);
}

static bool execute(gg_diag *d, desc plan, int64_t n, const int64_t *id, const void *const *at,
                    void *workspace, const char *what)
{
	desc pack = NULL;
	cudnnStatus_t s = dnn.cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
	char why[256] = "";

	s = s ? s
	      : dnn.cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
	                                     n, at);
	s = s ? s
	      : dnn.cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n,
	                                     id);
	s = s ? s
	      : dnn.cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
	                                     &workspace);
	s = s ? s : dnn.cudnnBackendFinalize(pack);
	s = s ? s : dnn.cudnnBackendExecute(handle, plan, pack);
	if (pack)
		dnn.cudnnBackendDestroyDescriptor(pack);
	if (!s)
		return true;
	dnn.cudnnGetLastErrorString(why, sizeof why);
	return gg_error(d, GG_MACHINE, "cuDNN: %s failed: %s: %s", what, dnn.cudnnGetErrorString(s), why);
}

/* ---- measuring --------------------------------------------------------------------------------- */

typedef struct trial {
	const build *b;
	desc plan;
	void *buffer[MAX_REAL + 1]; /* the last one: workspace */
} trial;

static bool run_trial(void *p)
{
	const trial *t = p;
	gg_diag silent = {.silent = true};
	return execute(&silent, t->plan, t->b->nreal, t->b->id, (const void *const *)t->buffer,
	               t->buffer[MAX_REAL], "a trial");
}

static bool make_buffers(build *b, trial *t, size_t room)
{
	gg_diag silent = {.silent = true};
	for (int i = 0; i <= MAX_REAL; i++) {
		size_t bytes = i == MAX_REAL ? room : i < b->nreal ? b->bytes[i] : 0;
		if (!bytes)
			continue;
		t->buffer[i] = cuda_device.alloc(&silent, bytes, "tuning");
		if (!t->buffer[i] || !cuda_device.fill(&silent, t->buffer[i], 0x2a, bytes))
			return false;
	}
	return true;
}

static char *add_ms(char *text, float ms)
{
	gg_buf b = {0};
	gg_buf_printf(&b, "%s, %.4g ms", text ? text : "?", (double)ms);
	free(text);
	return b.p;
}

static void tune(build *b, const desc *config, int n, int limit)
{
	enum { ROOM = 256 << 20 };
	trial t = {.b = b};
	dnn_plan *p = b->p;
	int best = -1;
	bool good = make_buffers(b, &t, ROOM);
	for (int i = 0, tried = 0; i < n && tried < limit && good; i++) {
		size_t workspace;
		if (!is_strict(b->dtype, b->tf32, config[i]) ||
		    !(t.plan = finalise(b, config[i], &workspace)))
			continue;
		tried++;
		float ms = workspace > ROOM ? -1 : cuda_measure(run_trial, &t);
		if (ms >= 0 && (!p->plan || ms < p->ms)) {
			desc old = p->plan;
			p->plan = t.plan;
			p->workspace = workspace;
			p->ms = ms;
			best = i;
			t.plan = old;
		}
		if (t.plan)
			dnn.cudnnBackendDestroyDescriptor(t.plan);
	}
	for (int i = 0; i <= MAX_REAL; i++)
		if (t.buffer[i])
			cuda_device.release(t.buffer[i]);
	if (best >= 0)
		p->choice = add_ms(engine_text(config[best]), p->ms);
}

/* Is it compiled when it is finalised? */
static bool is_compiled(desc config)
{
	build b = {.p = &(dnn_plan){.next = NULL}};
	desc engine = make(&b, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
	cudnnBackendBehaviorNote_t note[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
	int64_t n = 0, m;
	bool yes = false;

	if (!get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &m, &engine) ||
	    !get(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
	         CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &n, note))
		yes = true;
	for (int64_t i = 0; i < n && i < CUDNN_BEHAVIOR_NOTE_TYPE_COUNT; i++)
		yes |= note[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
	drop(&b, 0);
	return yes;
}

/* Without a device heuristics do not see that blocks of an sm_90 can work in clusters, and propose of the
 * engines that are compiled the slowest one (0.92 ms a step of ResNet-50 instead of 0.34): such a choice is
 * left open. */
static void take_first(build *b, const desc *config, int n)
{
	dnn_plan *p = b->p;
	for (int i = 0; i < n && !p->plan; i++) {
		if (!is_strict(b->dtype, b->tf32, config[i]))
			continue;
		if (device && is_compiled(config[i]))
			p->plan = nowhere;
		else if ((p->plan = finalise(b, config[i], &p->workspace)))
			p->choice = engine_text(config[i]);
	}
}

static void choose(build *b, desc g)
{
	static const cudnnBackendHeurMode_t mode[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
	int limit = device ? 0 : cuda_tune(), base = b->n;
	desc config[MAX_ENGINES];
	for (int k = 0; k < 2 && !b->failed && !b->p->plan; k++) {
		int n = heuristics(b, g, mode[k], config);
		if (limit > 1)
			tune(b, config, n, limit);
		if (!b->p->plan)
			take_first(b, config, n);
		drop(b, base);
	}
}

/* ---- plans ------------------------------------------------------------------------------------- */

/* From what this or another process compiled. */
static bool find_plan(dnn_plan *p)
{
	char name[64];
	size_t n = 0;
	const gg_built *given;
	char *text;

	plan_name(p, kind_of_library(), name);
	given = cuda_given(name);
	if (given && read_plan(p, given->bytes, given->n)) {
		p->from = "the plan";
		return true;
	}
	plan_name(p, library(), name);
	text = device ? NULL : cuda_cached(name, &n);
	if (text && read_plan(p, text, n))
		p->from = "the cache";
	free(text);
	return p->from;
}

static void keep_plan(const dnn_plan *p, const char *name)
{
	gg_buf text = {0};
	if (plan_text(p, &text))
		cuda_cache(name, text.p, text.len);
	gg_buf_fini(&text);
}

static desc graph_for(build *b);

/* By any thread. */
static void make_plan(dnn_plan *p)
{
	build b = {.p = p, .o = &p->of.conv};
	double start = gg_clock();
	bool open = !p->choice && cuda_tune() > 1, conv = p->of.kind == DNN_CONV;
	char name[64];
	desc g, config;

	if (cuda_is_offline && !device) {
		p->plan = nowhere;
		return;
	}
	b.dtype = conv ? p->of.conv.dtype : p->of.product.dtype;
	b.tf32 = conv && p->of.conv.tf32;
	if ((!p->choice || !strncmp(p->choice, "engine", 6)) && (open || !find_plan(p))) {
		plan_name(p, library(), name);
		g = graph_for(&b);
		if (p->choice && (config = engine_of(&b, g, p->choice)))
			p->plan = finalise(&b, config, &p->workspace);
		b.failed = false;
		p->from = p->plan ? "its choice" : "heuristics";
		if (!p->plan)
			choose(&b, g);
		if (!p->plan && device) /* without a driver it knows of none that is compiled */
			p->plan = nowhere;
		if (p->plan && !device && !open)
			keep_plan(p, name);
		drop(&b, 0);
	}
	p->seconds = gg_clock() - start;
}

static dnn_plan *add_plan(const dnn_spec *of)
{
	dnn_plan *p = plans, **end = &plans;
	gg_buf key = {0};

	dnn_write(&key, of);
	for (; p && strcmp(p->key, key.p); p = p->next)
		end = &p->next;
	if (p) {
		gg_buf_fini(&key);
		return p;
	}
	p = gg_xcalloc(1, sizeof *p);
	p->of = *of;
	p->key = key.p;
	p->choice = cuda_choice(library(), p->key);
	pthread_mutex_lock(&lock);
	*end = p;
	pthread_mutex_unlock(&lock);
	return p;
}

/* ---- threads ----------------------------------------------------------------------------------- */

static pthread_cond_t made = PTHREAD_COND_INITIALIZER;
static pthread_t thread[MAX_THREADS];
static int nthread;
static bool stop;

/* With the lock held, which is given back meanwhile. */
static void make_locked(dnn_plan *p)
{
	p->state = BUSY;
	pthread_mutex_unlock(&lock);
	make_plan(p);
	pthread_mutex_lock(&lock);
	p->state = DONE;
	pthread_cond_broadcast(&made);
}

static void *make_expected(void *arg)
{
	gg_diag silent = {.silent = true};

	cu.cuCtxSetCurrent(cuda_context);
	if (!open_library(&silent))
		return NULL;
	pthread_mutex_lock(&lock);
	for (dnn_plan *p = plans; p && !stop; p = p->next)
		if (p->state == OPEN && !p->wait)
			make_locked(p);
	pthread_mutex_unlock(&lock);
	return NULL;
}

void dnn_expect(const char *key)
{
	gg_diag silent = {.silent = true};
	dnn_spec of;

	if (!cuda_is_offline && dnn_read(key, &of) && cuda_open_dnn(&silent)) {
		cuda_expected |= CUDA_EXPECT_DNN;
		dnn_plan *p = add_plan(&of);
		p->wait = !p->choice && cuda_tune() > 1; /* nothing else runs while it is measured */
	}
}

void dnn_start(void)
{
	int n = gg_threads() < MAX_THREADS ? gg_threads() : MAX_THREADS;

	pthread_mutex_lock(&lock);
	stop = false;
	pthread_mutex_unlock(&lock);
	for (const dnn_plan *p = plans; p && nthread < n; p = p->next)
		if (!pthread_create(&thread[nthread], NULL, make_expected, NULL))
			nthread++;
}

void dnn_settle(void)
{
	pthread_mutex_lock(&lock);
	stop = true;
	pthread_mutex_unlock(&lock);
	while (nthread)
		pthread_join(thread[--nthread], NULL);
}

/* ---- what others ask for ----------------------------------------------------------------------- */

static void tell(gg_diag *d, dnn_plan *p, double start)
{
	if (opened > 0)
		gg_verbose(d, "cuDNN opened in %.1f ms", 1e3 * opened);
	opened = 0;
	if (p->told)
		return;
	p->told = true;
	gg_verbose(d, "cuDNN: %s: %s from %s in %.1f ms, waited for %.1f ms%s%s", p->key,
	           p->choice ? p->choice : "no engine", p->from ? p->from : "none", 1e3 * p->seconds,
	           1e3 * (gg_clock() - start), *p->why ? ": " : "", p->why);
	cuda_choose(library(), p->key, p->choice ? p->choice : p->plan ? "?" : "no engine");
}

static dnn_plan *plan_for(gg_diag *d, const dnn_spec *of, size_t *workspace)
{
	gg_diag quiet = *d;
	double start = gg_clock();
	dnn_plan *p;

	quiet.silent = !d->verbose;
	if (!open_library(&quiet) && !cuda_is_offline)
		return NULL;
	p = add_plan(of);
	pthread_mutex_lock(&lock);
	if (p->state == OPEN)
		make_locked(p);
	while (p->state != DONE)
		pthread_cond_wait(&made, &lock);
	pthread_mutex_unlock(&lock);
	tell(d, p, start);
	*workspace = p->workspace;
	return p->plan ? p : NULL;
}

float dnn_plan_ms(const dnn_plan *p) { return p->ms; }

void dnn_plan_worse(dnn_plan *p, const char *better)
{
	p->choice = add_ms(strdup(better), p->ms);
	cuda_choose(library(), p->key, p->choice);
}

/* Measured before, by this process or another one. */
static int known(const dnn_spec *of)
{
	gg_diag silent = {.silent = true};
	gg_buf key = {0};
	const char *text = NULL;

	dnn_write(&key, of);
	if (cuda_has_choice(key.p) && open_library(&silent))
		text = cuda_choice(library(), key.p);
	gg_buf_fini(&key);
	if (!text || !strstr(text, " ms"))
		return 0;
	return !strncmp(text, "engine", 6) ? 1
	       : strncmp(text, "tile", 4)  ? DNN_PRODUCT_BETTER
	                                   : DNN_TILE_BETTER;
}

static dnn_spec conv_spec(const dnn_conv *o)
{
	dnn_spec s = {.kind = DNN_CONV};
	s.conv = *o;
	return s;
}

int dnn_conv_known(const dnn_conv *o)
{
	const dnn_spec s = conv_spec(o);
	return known(&s);
}

dnn_plan *dnn_conv_plan(gg_diag *d, const dnn_conv *o, size_t *workspace)
{
	const dnn_spec s = conv_spec(o);
	return plan_for(d, &s, workspace);
}

bool dnn_conv_run(gg_diag *d, const dnn_plan *p, const void *x, const void *w, const void *scale,
                  const void *bias, const void *add, void *y, void *workspace)
{
	const dnn_conv *o = &p->of.conv;
	const struct {
		bool wanted;
		int64_t id;
		const void *at;
	} all[] = {{true, X, x},          {true, W, w},      {true, Y, y}, {o->scale, SCALE, scale},
	           {o->bias, BIAS, bias}, {o->add, ADD, add}};
	int64_t id[6], n = 0;
	const void *at[6];

	for (int i = 0; i < 6; i++)
		if (all[i].wanted) {
			id[n] = all[i].id;
			at[n++] = all[i].at;
		}
	return execute(d, p->plan, n, id, at, workspace, "a convolution");
}

/* ---- products ---------------------------------------------------------------------------------- */

static desc matmul(build *b, desc x, desc w, desc y)
{
	cudnnDataType_t t = CUDNN_DATA_FLOAT;
	desc m = make(b, CUDNN_BACKEND_MATMUL_DESCRIPTOR), op;
	set(b, m, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t);
	finish(b, m, "product");
	op = make(b, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
	set(b, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &m);
	set(b, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
	set(b, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &w);
	set(b, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
	finish(b, op, "product");
	return op;
}

static desc product_graph(build *b, const dnn_product *o)
{
	const cudnnDataType_t t = data_type(o->dtype), f = CUDNN_DATA_FLOAT;
	const int64_t xd[] = {o->batch, o->m, o->k}, wd[] = {o->batch, o->k, o->n},
	              yd[] = {o->batch, o->m, o->n}, ys[] = {o->m * o->n, o->n, 1}, bd[] = {1, 1, o->n},
	              bs[] = {o->n, o->n, 1};
	const struct {
		bool wanted;
		int64_t id;
		cudnnPointwiseMode_t mode;
	} all[] = {{o->bias, BIAS, CUDNN_POINTWISE_ADD},
	           {o->add, ADD, CUDNN_POINTWISE_ADD},
	           {o->relu, 0, CUDNN_POINTWISE_RELU_FWD},
	           {o->gelu, 0, CUDNN_POINTWISE_GELU_FWD}};
	int left = o->bias + o->add + o->relu + o->gelu;
	desc op[6], y;
	int64_t n = 0;
	y = tensor_of(b, left ? 1000 : Y, left ? VIRTUAL : REAL, left ? f : t, 3, yd, ys);
	op[n++] = matmul(b, tensor_of(b, X, REAL, t, 3, xd, o->sx), tensor_of(b, W, REAL, t, 3, wd, o->sw),
	                 y);
	for (int i = 0; i < 4; i++) {
		desc other = NULL, next;
		if (!all[i].wanted)
			continue;
		left--;
		if (all[i].id == BIAS)
			other = tensor_of(b, BIAS, REAL, t, 3, bd, bs);
		else if (all[i].id)
			other = tensor_of(b, ADD, REAL, t, 3, yd, ys);
		next = tensor_of(b, left ? 1001 + i : Y, left ? VIRTUAL : REAL, left ? f : t, 3, yd, ys);
		op[n++] = pointwise(b, all[i].mode, f, y, other, next);
		y = next;
	}
	return graph_of(b, n, op);
}

static dnn_spec product_spec(const dnn_product *o)
{
	dnn_spec s = {.kind = DNN_PRODUCT};
	s.product = *o;
	return s;
}

int dnn_product_known(const dnn_product *o)
{
	const dnn_spec s = product_spec(o);
	return known(&s);
}

dnn_plan *dnn_product_plan(gg_diag *d, const dnn_product *o, size_t *workspace)
{
	const dnn_spec s = product_spec(o);
	return plan_for(d, &s, workspace);
}

bool dnn_product_run(gg_diag *d, const dnn_plan *p, const void *x, const void *w, const void *bias,
                     const void *add, void *y, void *workspace)
{
	const dnn_product *o = &p->of.product;
	int64_t id[5] = {X, W, Y}, n = 3;
	const void *at[5] = {x, w, y};

	if (o->bias) {
		id[n] = BIAS;
		at[n++] = bias;
	}
	if (o->add) {
		id[n] = ADD;
		at[n++] = add;
	}
	return execute(d, p->plan, n, id, at, workspace, "a product");
}

static desc graph_for(build *b)
{
	return b->p->of.kind == DNN_CONV ? conv_graph(b) : product_graph(b, &b->p->of.product);
}

/* ---- for gg-build ------------------------------------------------------------------------------ */

void dnn_keep(void (*keep)(const char *name, const void *p, size_t n))
{
	char name[64];

	for (const dnn_plan *p = plans; p; p = p->next) {
		gg_buf text = {0};
		plan_name(p, kind_of_library(), name);
		if (p->told && p->plan && p->plan != nowhere && plan_text(p, &text))
			keep(name, text.p, text.len);
		gg_buf_fini(&text);
	}
}

size_t dnn_deferred(bool compile)
{
	size_t n = 0;

	for (const dnn_plan *p = plans; p; p = p->next)
		n += p->plan == nowhere && compile == (p->choice != NULL);
	return n;
}
