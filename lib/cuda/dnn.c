/* cuDNN 9's graph API: the one file that speaks its descriptors.
 *
 *     x, w ── convolution ──▶ · ── * scale ──▶ · ── + add, + bias ──▶ · ── relu ──▶ y
 *     x, w ── product ──▶ · ── + bias, + add ──▶ · ── relu, gelu ──▶ y
 *
 * are asked for as one engine each; what lies between is virtual. Engines come from cuDNN's
 * heuristics, and the first that can be finalised is taken, or, where cuda_tune() is more than 1, the
 * fastest of so many. Plans are kept for the life of the process: networks repeat their layers. */
#include "cuda.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef cudnnBackendDescriptor_t desc;
enum { X = 'x', W = 'w', Y = 'y', BIAS = 'b', ADD = 'z', SCALE = 's' };
enum { MAX_DESCS = 128, MAX_ENGINES = 24, MAX_REAL = 6 };

/* What a plan is for; memory between the members is zero, so that bytes can be compared. */
typedef struct spec {
	enum { CONV, PRODUCT } kind;
	union {
		dnn_conv conv;
		dnn_product product;
	};
} spec;

struct dnn_plan {
	spec of;
	desc plan; /* NULL: there is none */
	size_t workspace;
	float ms; /* where it was measured; else 0 */
	dnn_plan *next;
};

static cudnnHandle_t handle;
static dnn_plan *plans;

typedef struct build {
	gg_diag *d;
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

static bool open_library(gg_diag *d)
{
	cudnnStatus_t s;
	double start = gg_clock();

	if (handle)
		return true;
	if (!cuda_open_dnn(d))
		return false;
	s = dnn.cudnnCreate(&handle);
	s = s ? s : dnn.cudnnSetStream(handle, (cudaStream_t)cuda_stream);
	gg_verbose(d, "cuDNN opened in %.1f ms", 1e3 * (gg_clock() - start));
	if (!s)
		return true;
	handle = NULL;
	return gg_error(d, GG_MACHINE, "cuDNN: cannot start: %s", dnn.cudnnGetErrorString(s));
}

void dnn_use_stream(void)
{
	if (handle)
		dnn.cudnnSetStream(handle, (cudaStream_t)cuda_stream);
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
	desc op[6], x, w, y;
	int64_t n = 0;
	x = tensor(b, X, REAL, t, o->batch, o->cin, o->in);
	w = tensor(b, W, REAL, t, o->cout, o->cin / o->group, o->kernel);
	y = tensor(b, left ? 1000 : Y, left ? VIRTUAL : REAL, left ? c : t, o->batch, o->cout, o->out);
	op[n++] = convolution(b, x, w, y);
	for (int i = 0; i < 5; i++) {
		desc other = NULL, next;
		if (!all[i].wanted)
			continue;
		left--;
		if (all[i].id == ADD)
			other = tensor(b, ADD, REAL, t, o->batch, o->cout, o->out);
		else if (all[i].id)
			other = tensor(b, all[i].id, REAL, each, 1, o->cout, NULL);
		next = tensor(b, left ? 1001 + i : Y, left ? VIRTUAL : REAL, left ? c : t, o->batch, o->cout,
		              o->out);
		op[n++] = pointwise(b, all[i].mode, c, y, other, next);
		y = next;
	}
	return graph_of(b, n, op);
}

/* An engine that rounds what is f32, or adds in f16, is not for strict graphs. */
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
	for (int i = 0; i <= MAX_REAL; i++) {
		size_t bytes = i == MAX_REAL ? room : i < b->nreal ? b->bytes[i] : 0;
		if (!bytes)
			continue;
		t->buffer[i] = cuda_device.alloc(b->d, bytes, "tuning");
		if (!t->buffer[i] || !cuda_device.fill(b->d, t->buffer[i], 0x2a, bytes))
			return false;
	}
	return true;
}

static void tune(build *b, const desc *config, int n, int limit, dnn_plan *out)
{
	enum { ROOM = 256 << 20 };
	trial t = {.b = b};
	bool good = make_buffers(b, &t, ROOM);
	for (int i = 0, tried = 0; i < n && tried < limit && good; i++) {
		size_t workspace;
		if (!is_strict(b->dtype, b->tf32, config[i]) || !(t.plan = finalise(config[i], &workspace)))
			continue;
		tried++;
		float ms = workspace > ROOM ? -1 : cuda_measure(run_trial, &t);
		if (ms >= 0 && (!out->plan || ms < out->ms)) {
			desc old = out->plan;
			out->plan = t.plan;
			out->workspace = workspace;
			out->ms = ms;
			t.plan = old;
		}
		if (t.plan)
			dnn.cudnnBackendDestroyDescriptor(t.plan);
	}
	for (int i = 0; i <= MAX_REAL; i++)
		if (t.buffer[i])
			cuda_device.release(t.buffer[i]);
}

static void choose(build *b, desc g, dnn_plan *out)
{
	static const cudnnBackendHeurMode_t mode[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
	int limit = cuda_tune(), base = b->n;
	desc config[MAX_ENGINES];
	for (int k = 0; k < 2 && !b->failed && !out->plan; k++) {
		int n = heuristics(b, g, mode[k], config);
		if (limit > 1)
			tune(b, config, n, limit, out);
		for (int i = 0; i < n && !out->plan; i++)
			if (is_strict(b->dtype, b->tf32, config[i]))
				out->plan = finalise(config[i], &out->workspace);
		drop(b, base);
	}
}

/* ---- plans ------------------------------------------------------------------------------------- */

static desc graph_for(build *b, const spec *s);

static dnn_plan *plan_for(gg_diag *d, const spec *s, gg_dtype dtype, bool tf32, size_t *workspace)
{
	gg_diag quiet = *d;
	build b = {.d = &quiet, .o = &s->conv, .dtype = dtype, .tf32 = tf32};
	dnn_plan *p = plans;

	quiet.silent = !d->verbose;
	while (p && memcmp(&p->of, s, sizeof *s))
		p = p->next;
	if (!p) {
		p = gg_xcalloc(1, sizeof *p);
		memcpy(&p->of, s, sizeof *s);
		double start = gg_clock();
		if (open_library(&quiet)) {
			desc g = graph_for(&b, s);
			choose(&b, g, p);
			drop(&b, 0);
		}
		gg_verbose(d, "cuDNN's engine found in %.1f ms", 1e3 * (gg_clock() - start));
		p->next = plans;
		plans = p;
	}
	*workspace = p->workspace;
	return p->plan ? p : NULL;
}

float dnn_plan_ms(const dnn_plan *p) { return p->ms; }

dnn_plan *dnn_conv_plan(gg_diag *d, const dnn_conv *o, size_t *workspace)
{
	spec s;
	memset(&s, 0, sizeof s);
	s.kind = CONV;
	memcpy(&s.conv, o, sizeof *o);
	return plan_for(d, &s, o->dtype, o->tf32, workspace);
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

dnn_plan *dnn_product_plan(gg_diag *d, const dnn_product *o, size_t *workspace)
{
	spec s;
	memset(&s, 0, sizeof s);
	s.kind = PRODUCT;
	memcpy(&s.product, o, sizeof *o);
	return plan_for(d, &s, o->dtype, false, workspace);
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

static desc graph_for(build *b, const spec *s)
{
	return s->kind == CONV ? conv_graph(b) : product_graph(b, &s->product);
}
