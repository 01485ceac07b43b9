/* cuDNN 9's graph API: the one file that speaks its descriptors.
 *
 *     x, w ── convolution ──▶ · ── + add ──▶ · ── + bias ──▶ · ── relu ──▶ y
 *
 * is asked for as one engine; what lies between is virtual. Engines come from cuDNN's heuristics,
 * and the first that can be finalised is taken, or, where GG_CUDA_TUNE is a number, the fastest of
 * so many. Plans are kept for the life of the process: networks repeat their layers. */
#include "cuda.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef cudnnBackendDescriptor_t desc;
enum { X = 'x', W = 'w', Y = 'y', BIAS = 'b', ADD = 'z', MAX_DESCS = 64, MAX_ENGINES = 24 };

struct dnn_plan {
	dnn_conv of;
	desc plan; /* NULL: there is none */
	size_t workspace;
	dnn_plan *next;
};

static cudnnHandle_t handle;
static dnn_plan *plans;

typedef struct build {
	gg_diag *d;
	const dnn_conv *o;
	desc made[MAX_DESCS];
	int n;
	bool failed;
} build;

static bool open_library(gg_diag *d)
{
	cudnnStatus_t s;

	if (handle)
		return true;
	if (!cuda_open_dnn(d))
		return false;
	s = dnn.cudnnCreate(&handle);
	s = s ? s : dnn.cudnnSetStream(handle, (cudaStream_t)cuda_stream);
	if (!s)
		return true;
	handle = NULL;
	return gg_error(d, GG_MACHINE, "cuDNN: cannot start: %s", dnn.cudnnGetErrorString(s));
}

const char *dnn_version(void)
{
	static char text[32];
	size_t v = dnn.cudnnGetVersion ? dnn.cudnnGetVersion() : 0;

	snprintf(text, sizeof text, "cuDNN %zu.%zu.%zu", v / 10000, v % 10000 / 100, v % 100);
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
	gg_verbose(b->d, "cuDNN: %s: %s: %s", what, dnn.cudnnGetErrorString(s), why);
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

static void drop(build *b, int from)
{
	while (b->n > from)
		dnn.cudnnBackendDestroyDescriptor(b->made[--b->n]);
}

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

/* dims: batch, channels, spatial. */
static desc tensor(build *b, int64_t id, bool is_virtual, int64_t batch, int64_t channels,
                   const int64_t *spatial)
{
	const dnn_conv *o = b->o;
	int64_t dim[5] = {batch, channels}, stride[5], n = 1, align = 16;
	int rank = o->nd + 2;
	cudnnDataType_t t = is_virtual ? compute_type(o) : data_type(o->dtype);
	desc x = make(b, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
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
	set(b, x, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t);
	set(b, x, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, dim);
	set(b, x, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, stride);
	set(b, x, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
	set(b, x, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
	if (is_virtual)
		set(b, x, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
	finish(b, x, "tensor");
	return x;
}

static desc convolution(build *b, desc x, desc w, desc y)
{
	const dnn_conv *o = b->o;
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
	op = make(b, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
	set(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &c);
	set(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
	set(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &w);
	set(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
	set(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, st, 1, wide ? (void *)&one : &onef);
	set(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, st, 1, wide ? (void *)&zero : &zerof);
	finish(b, op, "convolution");
	return op;
}

/* other NULL: of one input. */
static desc pointwise(build *b, cudnnPointwiseMode_t mode, desc x, desc other, desc y)
{
	cudnnDataType_t t = compute_type(b->o);
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

static desc graph(build *b)
{
	const dnn_conv *o = b->o;
	int64_t cw = o->cin / o->group;
	int left = o->add + o->bias + o->relu;
	desc op[4], x, w, g, y;
	int64_t n = 0;
	x = tensor(b, X, false, o->batch, o->cin, o->in);
	w = tensor(b, W, false, o->cout, cw, o->kernel);
	y = tensor(b, left ? 1000 : Y, left > 0, o->batch, o->cout, o->out);
	op[n++] = convolution(b, x, w, y);
	for (int i = 0; i < 3; i++) {
		const bool wanted[] = {o->add, o->bias, o->relu};
		desc other = NULL, next;
		if (!wanted[i])
			continue;
		left--;
		if (i == 0)
			other = tensor(b, ADD, false, o->batch, o->cout, o->out);
		if (i == 1)
			other = tensor(b, BIAS, false, 1, o->cout, NULL);
		next = tensor(b, left ? 1001 + i : Y, left > 0, o->batch, o->cout, o->out);
		op[n++] = pointwise(b, i < 2 ? CUDNN_POINTWISE_ADD : CUDNN_POINTWISE_RELU_FWD, y, other,
		                    next);
		y = next;
	}
	g = make(b, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
	set(b, g, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
	set(b, g, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, op);
	finish(b, g, "graph");
	return g;
}

/* An engine that rounds what is f32, or adds in f16, is not for strict graphs. */
static bool is_strict(const dnn_conv *o, desc config)
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
		good &= !(tensor && o->dtype == GG_F32 && !o->tf32);
		good &= note[i] != CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
		good &= note[i] != CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS || o->tf32;
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

static desc finalise(desc config, size_t *workspace)
{
	desc p = NULL;
	int64_t bytes = 0, n = 0;
	if (dnn.cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &p))
		return NULL;
	if (dnn.cudnnBackendSetAttribute(p, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
	                                 &handle) ||
	    dnn.cudnnBackendSetAttribute(p, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
	                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config) ||
	    dnn.cudnnBackendFinalize(p) ||
	    dnn.cudnnBackendGetAttribute(p, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n,
	                                 &bytes)) {
		dnn.cudnnBackendDestroyDescriptor(p);
		return NULL;
	}
	*workspace = (size_t)bytes;
	return p;
}

static int64_t volume(const dnn_conv *o, int64_t batch, int64_t channels, const int64_t *spatial)
{
	int64_t n = batch * channels;
	for (int i = 0; i < o->nd; i++)
		n *= spatial[i];
	return n * (int64_t)gg_dtype_size(o->dtype);
}

/* Milliseconds of one run, the least of five; below 0: it fails. */
static float measure(gg_diag *d, const dnn_plan *p, void *const *buffer)
{
	static CUevent from, to;
	float best = -1, ms = 0;
	if (!from && (cu.cuEventCreate(&from, CU_EVENT_DEFAULT) || cu.cuEventCreate(&to, CU_EVENT_DEFAULT)))
		return -1;
	for (int i = 0; i < 6; i++) {
		cu.cuEventRecord(from, cuda_stream);
		if (!dnn_conv_run(d, p, buffer[0], buffer[1], buffer[2], buffer[3], buffer[4], buffer[5]))
			return -1;
		cu.cuEventRecord(to, cuda_stream);
		if (cu.cuEventSynchronize(to) || cu.cuEventElapsedTime(&ms, from, to))
			return -1;
		if (i && (best < 0 || ms < best))
			best = ms;
	}
	return best;
}

static void tune(build *b, const desc *config, int n, int limit, dnn_plan *out)
{
	enum { ROOM = 256 << 20 };
	const dnn_conv *o = b->o;
	int64_t y = volume(o, o->batch, o->cout, o->out);
	const int64_t bytes[] = {volume(o, o->batch, o->cin, o->in),
	                         volume(o, o->cout, o->cin / o->group, o->kernel),
	                         o->cout * 8,
	                         y,
	                         y,
	                         ROOM};
	void *buffer[6] = {0};
	float best = -1;
	bool good = true;
	for (int i = 0; i < 6 && good; i++) {
		buffer[i] = cuda_device.alloc(b->d, (size_t)bytes[i], "tuning");
		good = buffer[i] && cuda_device.fill(b->d, buffer[i], 0x2a, (size_t)bytes[i]);
	}
	for (int i = 0, tried = 0; i < n && tried < limit && good; i++) {
		gg_diag silent = {.silent = true};
		dnn_plan p = {.of = *o};
		if (!is_strict(o, config[i]) || !(p.plan = finalise(config[i], &p.workspace)))
			continue;
		tried++;
		float ms = p.workspace > ROOM ? -1 : measure(&silent, &p, buffer);
		if (ms >= 0 && (best < 0 || ms < best)) {
			desc old = out->plan;
			out->plan = p.plan;
			out->workspace = p.workspace;
			p.plan = old;
			best = ms;
		}
		if (p.plan)
			dnn.cudnnBackendDestroyDescriptor(p.plan);
	}
	for (int i = 0; i < 6; i++)
		if (buffer[i])
			cuda_device.release(buffer[i]);
}

static void choose(build *b, desc g, dnn_plan *out)
{
	static const cudnnBackendHeurMode_t mode[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
	const char *s = getenv("GG_CUDA_TUNE");
	int limit = s ? atoi(s) : 0, base = b->n;
	desc config[MAX_ENGINES];
	for (int k = 0; k < 2 && !b->failed && !out->plan; k++) {
		int n = heuristics(b, g, mode[k], config);
		if (limit > 1)
			tune(b, config, n, limit, out);
		for (int i = 0; i < n && !out->plan; i++)
			if (is_strict(b->o, config[i]))
				out->plan = finalise(config[i], &out->workspace);
		drop(b, base);
	}
}

dnn_plan *dnn_conv_plan(gg_diag *d, const dnn_conv *o, size_t *workspace)
{
	gg_diag quiet = *d;
	build b = {.d = &quiet, .o = o};
	dnn_plan *p = plans;

	quiet.silent = !d->verbose;
	while (p && memcmp(&p->of, o, sizeof *o))
		p = p->next;
	if (!p) {
		p = gg_xcalloc(1, sizeof *p);
		memcpy(&p->of, o, sizeof *o);
		if (open_library(&quiet)) {
			desc g = graph(&b);
			choose(&b, g, p);
			drop(&b, 0);
		}
		p->next = plans;
		plans = p;
	}
	*workspace = p->workspace;
	return p->plan ? p : NULL;
}

bool dnn_conv_run(gg_diag *d, const dnn_plan *p, const void *x, const void *w, const void *bias,
                  const void *add, void *y, void *workspace)
{
	int64_t id[5] = {X, W, Y}, n = 3;
	const void *at[5] = {x, w, y};
	desc pack = NULL;
	cudnnStatus_t s = dnn.cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
	char why[256] = "";

	if (p->of.add) {
		id[n] = ADD;
		at[n++] = add;
	}
	if (p->of.bias) {
		id[n] = BIAS;
		at[n++] = bias;
	}
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
	s = s ? s : dnn.cudnnBackendExecute(handle, p->plan, pack);
	if (pack)
		dnn.cudnnBackendDestroyDescriptor(pack);
	if (!s)
		return true;
	dnn.cudnnGetLastErrorString(why, sizeof why);
	return gg_error(d, GG_MACHINE, "cuDNN: a convolution failed: %s: %s", dnn.cudnnGetErrorString(s),
	                why);
}
