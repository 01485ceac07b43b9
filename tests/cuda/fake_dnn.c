/* cuDNN's graph API on the host, as far as lib/cuda/dnn.c speaks it: descriptors are bags of attributes, and
 * a plan is a convolution with what follows it for each element, by plain loops. There are two engines for
 * each graph, of which the first refuses. A product it has none for. By the environment: GG_FAKE_BUILT=FILE
 * a line there for each engine that is compiled: the process GG_FAKE_DIES=K      a helper (gg-build) dies
 * when it compiles its engine number K */
#include "../../lib/tensor.h"
#include <cuda.h>
#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

CUresult fake_submit(void (*f)(void **, unsigned), void *arg, CUstream s); /* fake.c */

typedef struct attr {
	cudnnBackendAttributeName_t name;
	int64_t n;
	void *p;
	struct attr *next;
} attr;

typedef struct tensor {
	cudnnDataType_t type;
	int64_t rank, id, dim[5], stride[5];
} tensor;

enum { MAX_STEPS = 6 };
typedef struct work {
	tensor x, w, y;
	int64_t before[3], stride[3], dilation[3];
	int nstep;
	struct step {
		cudnnPointwiseMode_t mode;
		tensor other; /* rank 0: none */
	} step[MAX_STEPS];
} work;

typedef struct thing {
	cudnnBackendDescriptorType_t type;
	attr *attrs;
	work work; /* of a plan */
} thing;

struct cudnnContext {
	CUstream stream;
};

static void *more(size_t n)
{
	void *p = calloc(1, n + 1);
	if (!p)
		abort();
	return p;
}

static thing *at(const void *p) { return (thing *)(uintptr_t)p; }

static const attr *find(const thing *x, int name)
{
	const attr *a = x->attrs;
	while (a && (int)a->name != name)
		a = a->next;
	return a;
}

static size_t size_of(cudnnBackendAttributeType_t t)
{
	switch (t) {
	case CUDNN_TYPE_CHAR:
		return 1;
	case CUDNN_TYPE_BOOLEAN:
		return sizeof(bool);
	case CUDNN_TYPE_HANDLE:
	case CUDNN_TYPE_INT64:
	case CUDNN_TYPE_DOUBLE:
	case CUDNN_TYPE_VOID_PTR:
	case CUDNN_TYPE_BACKEND_DESCRIPTOR:
		return 8;
	default:
		return 4;
	}
}

static void put(thing *x, cudnnBackendAttributeName_t name, size_t size, int64_t n, const void *p)
{
	attr *a = more(sizeof *a);
	*a = (attr){.name = name, .n = n, .p = more(size * (size_t)n), .next = x->attrs};
	memcpy(a->p, p, size * (size_t)n);
	x->attrs = a;
}

static void drop(thing *x)
{
	for (attr *a = x->attrs, *next; a; a = next) {
		next = a->next;
		free(a->p);
		free(a);
	}
	x->attrs = NULL;
}

static thing *part(const thing *x, int name)
{
	const attr *a = find(x, name);
	return a ? *(thing **)a->p : NULL;
}

static int64_t number(const thing *x, int name)
{
	const attr *a = find(x, name);
	return a ? *(int64_t *)a->p : 0;
}

static int word(const thing *x, int name)
{
	const attr *a = find(x, name);
	return a ? *(int *)a->p : 0;
}

/* ---- a graph as work --------------------------------------------------------------------------- */

static tensor tensor_of(const thing *x)
{
	const attr *dim = find(x, CUDNN_ATTR_TENSOR_DIMENSIONS), *stride = find(x, CUDNN_ATTR_TENSOR_STRIDES);
	tensor t = {.type = (cudnnDataType_t)word(x, CUDNN_ATTR_TENSOR_DATA_TYPE),
	            .rank = dim->n,
	            .id = number(x, CUDNN_ATTR_TENSOR_UNIQUE_ID)};
	memcpy(t.dim, dim->p, (size_t)dim->n * 8);
	memcpy(t.stride, stride->p, (size_t)dim->n * 8);
	return t;
}

static void take_numbers(const thing *x, int name, int64_t *to)
{
	const attr *a = find(x, name);
	memcpy(to, a->p, (size_t)a->n * 8);
}

static bool flatten(const thing *graph, work *w)
{
	const attr *ops = find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
	const thing *op = *(thing **)ops->p, *c;

	memset(w, 0, sizeof *w); /* it is written byte by byte */
	if (op->type != CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR || ops->n > MAX_STEPS)
		return false;
	c = part(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
	w->x = tensor_of(part(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X));
	w->w = tensor_of(part(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W));
	w->y = tensor_of(part(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y));
	take_numbers(c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, w->before);
	take_numbers(c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, w->stride);
	take_numbers(c, CUDNN_ATTR_CONVOLUTION_DILATIONS, w->dilation);
	for (int64_t i = 1; i < ops->n; i++) {
		struct step *s = &w->step[w->nstep++];
		const thing *other;
		op = ((thing **)ops->p)[i];
		s->mode = (cudnnPointwiseMode_t)word(part(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR),
		                                     CUDNN_ATTR_POINTWISE_MODE);
		if ((other = part(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC)))
			s->other = tensor_of(other);
		w->y = tensor_of(part(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
	}
	return true;
}

static void note_built(void)
{
	const char *file = getenv("GG_FAKE_BUILT");
	FILE *f = file ? fopen(file, "a") : NULL;

	if (f) {
		fprintf(f, "%d\n", (int)getpid());
		fclose(f);
	}
}

static bool compile(thing *plan)
{
	const thing *engine = part(part(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG),
	                           CUDNN_ATTR_ENGINECFG_ENGINE);

	if (number(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX) != 1 ||
	    !flatten(part(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH), &plan->work))
		return false;
	note_built();
	return true;
}

/* As text: "fake", then the bytes of the work in hex. */
static const char head[] = "fake";

static void write_text(const work *w, char *to)
{
	to += sprintf(to, "%s", head);
	for (size_t i = 0; i < sizeof *w; i++)
		to += sprintf(to, "%02x", ((const unsigned char *)w)[i]);
}

static bool read_text(const attr *a, work *w)
{
	const char *s = a->p;
	unsigned x;

	if ((size_t)a->n != strlen(head) + 2 * sizeof *w || strncmp(s, head, strlen(head)) != 0)
		return false;
	s += strlen(head);
	for (size_t i = 0; i < sizeof *w; i++, s += 2) {
		if (sscanf(s, "%2x", &x) != 1)
			return false;
		((unsigned char *)w)[i] = (unsigned char)x;
	}
	return true;
}

/* ---- running ----------------------------------------------------------------------------------- */

typedef struct job {
	const work *w;
	void *p[128]; /* by the letter that is a tensor's id */
} job;

static gg_tensor data_of(const tensor *t, void *p)
{
	return (gg_tensor){.dtype = t->type == CUDNN_DATA_DOUBLE  ? GG_F64
	                            : t->type == CUDNN_DATA_FLOAT ? GG_F32
	                            : t->type == CUDNN_DATA_HALF  ? GG_F16
	                                                          : GG_BF16,
	                   .data = p};
}

static double get(const job *j, const tensor *t, const int64_t *i)
{
	gg_tensor x = data_of(t, j->p[t->id]);
	int64_t off = 0;
	for (int64_t k = 0; k < t->rank; k++)
		off += t->dim[k] == 1 ? 0 : i[k] * t->stride[k];
	return gg_get_f64(&x, off);
}

static bool next(int64_t *i, const int64_t *dim, int64_t from, int64_t rank)
{
	for (int64_t k = rank; k-- > from; i[k] = 0)
		if (++i[k] < dim[k])
			return true;
	return false;
}

static double sum(const job *j, const int64_t *y)
{
	const work *w = j->w;
	int64_t per = w->y.dim[1] / (w->x.dim[1] / w->w.dim[1]), x[5] = {y[0]}, k[5] = {y[1]};
	double s = 0;

	do {
		bool inside = true;
		x[1] = y[1] / per * w->w.dim[1] + k[1];
		for (int64_t d = 2; d < w->x.rank; d++) {
			x[d] = y[d] * w->stride[d - 2] - w->before[d - 2] + k[d] * w->dilation[d - 2];
			inside &= x[d] >= 0 && x[d] < w->x.dim[d];
		}
		s += inside ? get(j, &w->x, x) * get(j, &w->w, k) : 0;
	} while (next(k, w->w.dim, 1, w->w.rank));
	return s;
}

static void run(void **arg, unsigned n)
{
	const job *j = *(job **)arg[0];
	const tensor *y = &j->w->y;
	gg_tensor out = data_of(y, j->p[y->id]);
	int64_t i[5] = {0};

	do {
		double s = sum(j, i);
		int64_t off = 0;
		for (int k = 0; k < j->w->nstep; k++) {
			const struct step *t = &j->w->step[k];
			double b = t->other.rank ? get(j, &t->other, i) : 0;
			s = t->mode == CUDNN_POINTWISE_MUL   ? s * b
			    : t->mode == CUDNN_POINTWISE_ADD ? s + b
			    : s < 0                          ? 0
			                                     : s;
		}
		for (int64_t k = 0; k < y->rank; k++)
			off += i[k] * y->stride[k];
		gg_set_f64(&out, off, s);
	} while (next(i, y->dim, 0, y->rank));
}

/* ---- the API ----------------------------------------------------------------------------------- */

size_t cudnnGetVersion(void) { return 91400; }
const char *cudnnGetErrorString(cudnnStatus_t s) { return "not supported"; }
void cudnnGetLastErrorString(char *to, size_t n) { snprintf(to, n, "the stand-in has none"); }
cudnnStatus_t cudnnCreate(cudnnHandle_t *h) { return *h = more(sizeof **h), CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t s)
{
	return h->stream = (CUstream)s, CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t t, cudnnBackendDescriptor_t *out)
{
	thing *x = more(sizeof *x);
	x->type = t;
	return *out = x, CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t p)
{
	drop(at(p));
	free(p);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t p, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t t, int64_t n, const void *v)
{
	return put(at(p), name, size_of(t), n, v), CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t p)
{
	thing *x = at(p);
	const attr *text = find(x, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
	bool good = x->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
	            (text ? read_text(text, &x->work) : compile(x));
	return good ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

/* Descriptors that the caller has made are filled: engine k of the graph, as a configuration. */
static int64_t propose(const thing *heuristics, thing **to, int64_t most)
{
	thing *graph = part(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH), *engine;
	int64_t k = 0;

	for (; k < 2 && k < most; k++) {
		engine = more(sizeof *engine);
		put(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, 8, 1, &graph);
		put(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 8, 1, &k);
		put(to[k], CUDNN_ATTR_ENGINECFG_ENGINE, 8, 1, &engine);
	}
	return k;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const p, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t t, int64_t most, int64_t *n, void *out)
{
	const thing *x = at(p), *engine;
	const attr *a = find(x, name);
	const int compiled = CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;

	*n = 1;
	if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
		*n = propose(x, out, most);
	} else if (name == CUDNN_ATTR_ENGINECFG_ENGINE && (engine = part(x, name))) {
		for (const attr *e = engine->attrs; e; e = e->next)
			put(*(thing **)out, e->name, 8, e->n, e->p);
	} else if (name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE) {
		memcpy(out, &compiled, sizeof compiled);
	} else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
		*(int64_t *)out = 64;
	} else if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) {
		*n = (int64_t)(strlen(head) + 2 * sizeof x->work);
		if (most) {
			char *text = more((size_t)*n);
			write_text(&x->work, text);
			memcpy(out, text, (size_t)(most < *n ? most : *n));
			free(text);
		}
	} else if (a && most >= a->n) {
		memcpy(out, a->p, size_of(t) * (size_t)a->n);
	} else {
		*n = 0;
	}
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
	const attr *ids = find(at(pack), CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS),
	           *pointers = find(at(pack), CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS),
	           *workspace = find(at(pack), CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
	job *j = more(sizeof *j);

	j->w = &at(plan)->work;
	for (int64_t i = 0; i < ids->n; i++)
		j->p[((int64_t *)ids->p)[i] & 127] = ((void **)pointers->p)[i];
	if (!*(void **)workspace->p)
		return CUDNN_STATUS_BAD_PARAM;
	return fake_submit(run, j, h->stream) ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_SUCCESS;
}
