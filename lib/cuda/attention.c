/* Attention on half types by cuDNN's engine for it, else by a kernel of our own, plain and slow: a block
 * takes a row of scores. Heads are read where they lie, in either form of the inputs. */
#include "cuda.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct attention {
	dnn_plan *plan;
	cuda_kernel k;     /* where plan is NULL */
	bool packed;       /* queries, keys and values are thirds of each row */
	size_t at_k, at_v; /* of the keys and values of a packed input, in bytes */
	float scale;
	void *scale_there; /* the same on the device */
	bool empty;
} attention;

/* [batch, heads, positions, size], or [batch, positions, heads * size]. */
static void strides_of(const gg_shape *s, int64_t heads, int64_t *stride)
{
	bool four = s->rank == 4;
	int64_t size = four ? s->dim[3] : s->dim[2] / heads;
	stride[3] = 1;
	stride[2] = four ? size : heads * size;
	stride[1] = four ? s->dim[2] * size : size;
	stride[0] = four ? s->dim[1] * stride[1] : s->dim[1] * stride[2];
}

static void describe_packed(const gg_call *c, attention *k, dnn_attention *o)
{
	const gg_shape *y = &c->out[0].shape;
	int64_t wide = y->dim[2], size = wide / gg_get_int(c->node, "heads"), row = 3 * wide;
	memset(o, 0, sizeof *o);
	o->dtype = c->out[0].dtype;
	o->batch = y->dim[0];
	o->heads = wide / size;
	o->q = o->kv = y->dim[1];
	o->size = o->vsize = size;
	memcpy(o->sq, (int64_t[]){o->q * row, size, row, 1}, sizeof o->sq);
	memcpy(o->sk, (int64_t[]){o->q * row, size, 1, row}, sizeof o->sk);
	memcpy(o->sv, o->sq, sizeof o->sv);
	strides_of(y, o->heads, o->sy);
	k->packed = true;
	k->at_k = (size_t)wide * gg_dtype_size(o->dtype);
	k->at_v = 2 * k->at_k;
}

static void describe(const gg_call *c, dnn_attention *o)
{
	const gg_shape *q = &c->in[0].shape, *k = &c->in[1].shape, *v = &c->in[2].shape;
	int64_t t[4];
	memset(o, 0, sizeof *o);
	o->dtype = c->out[0].dtype;
	o->batch = q->dim[0];
	o->heads = q->rank == 4 ? q->dim[1] : gg_get_int(c->node, "q_num_heads");
	o->q = q->dim[q->rank - 2];
	o->kv = k->dim[k->rank - 2];
	o->size = q->rank == 4 ? q->dim[3] : q->dim[2] / o->heads;
	o->vsize = v->rank == 4 ? v->dim[3] : v->dim[2] / o->heads;
	strides_of(q, o->heads, o->sq);
	strides_of(k, o->heads, t);
	memcpy(o->sk, (int64_t[]){t[0], t[1], t[3], t[2]}, sizeof t);
	strides_of(v, o->heads, o->sv);
	strides_of(&c->out[0].shape, o->heads, o->sy);
}

static const char text[] =
    "struct add { template <class Q> FN0 Q operator()(Q a, Q b) const { return a + b; } };\n"
    "struct most { template <class Q> FN0 Q operator()(Q a, Q b) const { return pick_max(a, b); } };\n"
    "KERNEL(const T *q, const T *k, const T *v, T *out)\n{\n"
    "SHARED float s[KV];\n"
    "for (long row = blockIdx.x; row < ROWS; row += gridDim.x) {\n"
    "\tconst long i = row % LEN, h = row / LEN % HEADS, b = row / LEN / HEADS;\n"
    "\tconst T *x = q + b * Q0 + h * Q1 + i * Q2, *y = k + b * K0 + h * K1, *z = v + b * V0 + h * V1;\n"
    "\tT *o = out + b * Y0 + h * Y1 + i * Y2;\n"
    "\tfloat m = -1e30f, sum = 0;\n"
    "\tMEET();\n"
    "\tfor (int j = LANE; j < KV; j += BLOCK) {\n"
    "\t\tfloat a = 0;\n"
    "\t\tfor (int d = 0; d < SIZE; d++) a += ld(x[d]) * ld(y[j * K2 + d]);\n"
    "\t\ts[j] = a * SCALE; m = pick_max(m, s[j]);\n"
    "\t}\n"
    "\tm = fold_block(m, m, most());\n"
    "\tfor (int j = LANE; j < KV; j += BLOCK) { s[j] = exp(s[j] - m); sum += s[j]; }\n"
    "\tsum = fold_block(sum, 0.f, add());\n"
    "\tMEET();\n"
    "\tfor (int d = LANE; d < VSIZE; d += BLOCK) {\n"
    "\t\tfloat a = 0;\n"
    "\t\tfor (int j = 0; j < KV; j++) a += s[j] * ld(z[j * V2 + d]);\n"
    "\t\to[d] = st(a / sum, is<T>());\n"
    "\t}\n}\n}\n";

static void put_strides(gg_buf *b, char name, int64_t s0, int64_t s1, int64_t s2)
{
	gg_buf_printf(b, "#define %c0 %lldL\n#define %c1 %lldL\n#define %c2 %lldL\n", name, (long long)s0,
	              name, (long long)s1, name, (long long)s2);
}

static bool make_plain(gg_call *c, attention *k, const dnn_attention *o)
{
	int64_t rows = o->batch * o->heads * o->q;
	gg_buf b = {0};
	gg_buf_printf(
	    &b,
	    "#define INDEX unsigned long\n#define T %s\n#define BD 128\n#define KV %lld\n#define ROWS "
	    "%lldL\n#define LEN %lldL\n#define HEADS %lldL\n#define SIZE %lld\n#define VSIZE "
	    "%lld\n#define SCALE %af\n",
	    cuda_type(o->dtype), (long long)o->kv, (long long)rows, (long long)o->q, (long long)o->heads,
	    (long long)o->size, (long long)o->vsize, (double)k->scale);
	put_strides(&b, 'Q', o->sq[0], o->sq[1], o->sq[2]);
	put_strides(&b, 'K', o->sk[0], o->sk[1], o->sk[3]);
	put_strides(&b, 'V', o->sv[0], o->sv[1], o->sv[2]);
	put_strides(&b, 'Y', o->sy[0], o->sy[1], o->sy[2]);
	bool good = cuda_compile(c->d, b.p, text, &k->k);
	k->k.block = 128;
	k->k.grid = (unsigned)(rows > 1 << 20 ? 1 << 20 : rows);
	gg_buf_fini(&b);
	return good;
}

static bool prepare(gg_call *c)
{
	const gg_attr *scale = gg_find_attr(c->node, "scale");
	attention *k = c->state = gg_xcalloc(1, sizeof *k);
	dnn_attention o;
	k->empty = !gg_count(&c->out[0]);
	if (k->empty)
		return true;
	if (!strcmp(c->node->op->name, "PackedAttention"))
		describe_packed(c, k, &o);
	else
		describe(c, &o);
	k->scale = scale ? scale->f : (float)(1 / sqrt((double)o.size));
	if (k->at_k % 16 == 0 && (k->plan = dnn_attention_plan(c->d, &o, &c->workspace)))
		return (k->scale_there = cuda_device.alloc(c->d, sizeof k->scale, "scale")) &&
		       cuda_device.upload(c->d, k->scale_there, &k->scale, sizeof k->scale);
	gg_verbose(c->d, "node '%s': cuDNN has no engine for it", gg_node_name(c->node));
	c->workspace = 0;
	return make_plain(c, k, &o);
}

static bool run(gg_call *c)
{
	const attention *k = c->state;
	if (k->empty)
		return true;
	char *q = c->in[0].data;
	void *arg[] = {q, k->packed ? q + k->at_k : c->in[1].data, k->packed ? q + k->at_v : c->in[2].data,
	               c->out[0].data};
	if (!k->plan)
		return cuda_launch(c->d, &k->k, 4, arg);
	return dnn_attention_run(c->d, k->plan, arg[0], arg[1], arg[2], arg[3], k->scale_there, c->scratch);
}

static void release(gg_call *c)
{
	attention *k = c->state;
	if (k && k->scale_there)
		cuda_device.release(k->scale_there);
	free(k);
}

const gg_kernel cuda_attention = {"cuda_attention", prepare, run, release};
