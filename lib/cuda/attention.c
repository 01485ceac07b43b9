/* Attention on half types, heads read where they lie; flash.c has the kernel for heads of 64 elements on
 * Hopper. With tensor cores a warp has 16 queries, and keys and
 * values come 64 at a time; the scores stay in registers and the sums are corrected as larger ones come.
 * (cuDNN's engines: that of 9.14 which takes the graph gave NaN; the other one refuses it.) Odd sizes are
 * left to a plain and slow kernel: a block takes a row of scores. */
#include "cuda.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct attention {
	cuda_attend o;
	cuda_kernel k;
	bool flash;        /* the kernel is flash.c's */
	bool packed;       /* queries, keys and values are thirds of each row */
	size_t at_k, at_v; /* of the keys and values of a packed input, in bytes */
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

static void describe_packed(const gg_call *c, attention *k, cuda_attend *o)
{
	const gg_shape *y = &c->out[0].shape;
	int64_t wide = y->dim[2], size = wide / gg_get_int(c->node, "heads"), row = 3 * wide;
	o->dtype = c->out[0].dtype;
	o->batch = y->dim[0];
	o->heads = wide / size;
	o->q = o->kv = y->dim[1];
	o->size = o->vsize = size;
	memcpy(o->sq, (int64_t[]){o->q * row, size, row, 1}, sizeof o->sq);
	memcpy(o->sk, o->sq, sizeof o->sk);
	memcpy(o->sv, o->sq, sizeof o->sv);
	strides_of(y, o->heads, o->sy);
	k->packed = true;
	k->at_k = (size_t)wide * gg_dtype_size(o->dtype);
	k->at_v = 2 * k->at_k;
}

static void describe(const gg_call *c, cuda_attend *o)
{
	const gg_shape *q = &c->in[0].shape, *k = &c->in[1].shape, *v = &c->in[2].shape;
	o->dtype = c->out[0].dtype;
	o->batch = q->dim[0];
	o->heads = q->rank == 4 ? q->dim[1] : gg_get_int(c->node, "q_num_heads");
	o->q = q->dim[q->rank - 2];
	o->kv = k->dim[k->rank - 2];
	o->size = q->rank == 4 ? q->dim[3] : q->dim[2] / o->heads;
	o->vsize = v->rank == 4 ? v->dim[3] : v->dim[2] / o->heads;
	strides_of(q, o->heads, o->sq);
	strides_of(k, o->heads, o->sk);
	strides_of(v, o->heads, o->sv);
	strides_of(&c->out[0].shape, o->heads, o->sy);
}

/* ---- generated source -------------------------------------------------------------------------- */

static const char plain_text[] =
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

/* Of a product's accumulators a lane has two neighbours in rows lane / 4 and 8 below. */
static const char tensor_text[] =
    "KERNEL(const T *q, const T *k, const T *v, T *out)\n{\n"
    "\tconst long tile = blockIdx.x % TILES, h = blockIdx.x / TILES % HEADS, b = blockIdx.x / TILES / "
    "HEADS;\n"
    "\tk += b * K0 + h * K1; v += b * V0 + h * V1; q += b * Q0 + h * Q1; out += b * Y0 + h * Y1;\n"
    "#ifdef GG_HOST\n"
    "\tfor (long i = tile * 64; i < tile * 64 + 64 && i < LEN; i++) {\n"
    "\t\tstatic float s[KV]; float m = -1e30f, sum = 0;\n"
    "\t\tfor (int j = 0; j < KV; j++) {\n"
    "\t\t\ts[j] = 0;\n"
    "\t\t\tfor (int d = 0; d < SIZE; d++) s[j] += ld(q[i * Q2 + d]) * ld(k[j * K2 + d]);\n"
    "\t\t\ts[j] *= SCALE; m = pick_max(m, s[j]);\n"
    "\t\t}\n"
    "\t\tfor (int j = 0; j < KV; j++) sum += s[j] = exp(s[j] - m);\n"
    "\t\tfor (int d = 0; d < SIZE; d++) {\n"
    "\t\t\tfloat a = 0;\n"
    "\t\t\tfor (int j = 0; j < KV; j++) a += s[j] * ld(v[j * V2 + d]);\n"
    "\t\t\tout[i * Y2 + d] = st(a / sum, is<T>());\n"
    "\t\t}\n\t}\n"
    "#else\n"
    "\textern __shared__ __align__(128) u8 mem[];\n"
    "\tconst u32 at = (u32)__cvta_generic_to_shared(mem);\n"
    "\tconst int lane = LANE % 32, warp = LANE / 32;\n"
    "\tconst long i0 = tile * 64 + warp * 16 + lane / 4, i1 = i0 + 8;\n"
    "#define BRING(t) for (int j = LANE; j < 64 * (SIZE / 8); j += 128) {"
    " const int r = j / (SIZE / 8), c = j % (SIZE / 8); const long row = (t) * 64 + r < KV ? (t) * 64 + r : "
    "KV - 1;"
    " const u32 to = at + (t) % 2 * (128 * PITCH) + r * PITCH + c * 16;"
    " copy16(to, k + row * K2 + c * 8); copy16(to + 64 * PITCH, v + row * V2 + c * 8); }\n"
    "\tBRING(0)\n"
    "\tCOMMIT();\n"
    "\tu32 x[SIZE / 16][4];\n"
    "\t{\n"
    "\t\tconst T *x0 = q + (i0 < LEN ? i0 : LEN - 1) * Q2 + lane % 4 * 2;\n"
    "\t\tconst T *x1 = q + (i1 < LEN ? i1 : LEN - 1) * Q2 + lane % 4 * 2;\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int d = 0; d < SIZE / 16; d++) {\n"
    "\t\t\tx[d][0] = *(const u32 *)(x0 + d * 16); x[d][1] = *(const u32 *)(x1 + d * 16);\n"
    "\t\t\tx[d][2] = *(const u32 *)(x0 + d * 16 + 8); x[d][3] = *(const u32 *)(x1 + d * 16 + 8);\n"
    "\t\t}\n\t}\n"
    "\tfloat y[SIZE / 8][4], m[2] = {-1e30f, -1e30f}, sum[2] = {0, 0};\n"
    "\t#pragma unroll\n"
    "\tfor (int i = 0; i < SIZE / 2; i++) y[i / 4][i % 4] = 0;\n"
    "\tfor (int t = 0; t < (KV + 63) / 64; t++) {\n"
    "\t\tif ((t + 1) * 64 < KV) BRING(t + 1)\n"
    "\t\tCOMMIT();\n"
    "\t\tWAIT(1);\n"
    "\t\t__syncthreads();\n"
    "\t\tconst u32 k0 = at + t % 2 * (128 * PITCH), v0 = k0 + 64 * PITCH;\n"
    "\t\tfloat s[8][4];\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int i = 0; i < 32; i++) s[i / 4][i % 4] = 0;\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int d = 0; d < SIZE / 16; d++)\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int j = 0; j < 4; j++) {\n"
    "\t\t\t\tu32 w[4];\n"
    "\t\t\t\tfetch4(w, k0 + (j * 16 + lane % 8 + lane / 16 * 8) * PITCH + d * 32 + lane / 8 % 2 * 16);\n"
    "\t\t\t\tmultiply(s[2 * j], x[d], w); multiply(s[2 * j + 1], x[d], w + 2);\n"
    "\t\t\t}\n"
    "\t\tfloat top[2] = {m[0], m[1]};\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int j = 0; j < 8; j++)\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int e = 0; e < 4; e++) {\n"
    "\t\t\t\ts[j][e] = KV % 64 && t * 64 + j * 8 + lane % 4 * 2 + e % 2 >= KV ? -1e30f : s[j][e] * SCALE;\n"
    "\t\t\t\ttop[e / 2] = pick_max(top[e / 2], s[j][e]);\n"
    "\t\t\t}\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int r = 0; r < 2; r++) {\n"
    "\t\t\ttop[r] = pick_max(top[r], __shfl_xor_sync(~0u, top[r], 1));\n"
    "\t\t\ttop[r] = pick_max(top[r], __shfl_xor_sync(~0u, top[r], 2));\n"
    "\t\t\tconst float by = QUICK_EXP(m[r] - top[r]);\n"
    "\t\t\tm[r] = top[r]; sum[r] *= by;\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int d = 0; d < SIZE / 8; d++) { y[d][2 * r] *= by; y[d][2 * r + 1] *= by; }\n"
    "\t\t}\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int j = 0; j < 4; j++) {\n"
    "\t\t\tu32 p[4];\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int e = 0; e < 4; e++) {\n"
    "\t\t\t\tfloat *a = &s[2 * j + e / 2][e % 2 * 2];\n"
    "\t\t\t\ta[0] = QUICK_EXP(a[0] - m[e % 2]); a[1] = QUICK_EXP(a[1] - m[e % 2]);\n"
    "\t\t\t\tsum[e % 2] += a[0] + a[1];\n"
    "\t\t\t\tp[e] = (u32)st(a[0], is<T>()).u | (u32)st(a[1], is<T>()).u << 16;\n"
    "\t\t\t}\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int d = 0; d < SIZE / 16; d++) {\n"
    "\t\t\t\tu32 w[4];\n"
    "\t\t\t\tfetch4_turned(w, v0 + (j * 16 + lane % 16) * PITCH + d * 32 + lane / 16 * 16);\n"
    "\t\t\t\tmultiply(y[2 * d], p, w); multiply(y[2 * d + 1], p, w + 2);\n"
    "\t\t\t}\n\t\t}\n"
    "\t\t__syncthreads();\n"
    "\t}\n"
    "\t#pragma unroll\n"
    "\tfor (int r = 0; r < 2; r++) {\n"
    "\t\tsum[r] += __shfl_xor_sync(~0u, sum[r], 1);\n"
    "\t\tsum[r] += __shfl_xor_sync(~0u, sum[r], 2);\n"
    "\t\tconst float by = 1 / sum[r];\n"
    "\t\tT *o = out + (r ? i1 : i0) * Y2 + lane % 4 * 2;\n"
    "\t\tif ((r ? i1 : i0) < LEN)\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int d = 0; d < SIZE / 8; d++)\n"
    "\t\t\t\t*(u32 *)(o + d * 8) = (u32)st(y[d][2 * r] * by, is<T>()).u | (u32)st(y[d][2 * r + 1] * by, "
    "is<T>()).u << 16;\n"
    "\t}\n"
    "#endif\n}\n";

static void put_strides(gg_buf *b, char name, const int64_t *s)
{
	gg_buf_printf(b, "#define %c0 %lldL\n#define %c1 %lldL\n#define %c2 %lldL\n", name, (long long)s[0],
	              name, (long long)s[1], name, (long long)s[2]);
}

/* Pieces of 16 bytes everywhere. */
static bool fits(const attention *k, const cuda_attend *o)
{
	const int64_t *all[] = {o->sq, o->sk, o->sv, o->sy};
	bool good = o->size % 16 == 0 && o->size <= 128 && o->size == o->vsize && k->at_k % 16 == 0;
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < 3; j++)
			good = good && all[i][j] % 8 == 0;
	return good;
}

static bool make_own(gg_diag *d, attention *k, const char *defines)
{
	const cuda_attend *o = &k->o;
	bool tensor = fits(k, o);
	int64_t rows = o->batch * o->heads * o->q, tiles = (o->q + 63) / 64, pitch = o->size * 2 + 16;
	gg_buf b = {0}, s = {0};
	gg_buf_printf(&b,
	              "#define BD 128\n#define ROWS %lldL\n#define SCALE %af\n#define TILES %lldL\n"
	              "#define PITCH %lld\n%s",
	              (long long)rows, (double)o->scale, (long long)tiles, (long long)pitch, defines);
	gg_buf_printf(&s, "%s%s", tensor ? cuda_tensor_text : "", tensor ? tensor_text : plain_text);
	bool good = cuda_compile(d, b.p, s.p, &k->k);
	k->k.block = 128;
	k->k.grid = (unsigned)(tensor ? o->batch * o->heads * tiles : rows > 1 << 20 ? 1 << 20 : rows);
	gg_buf_fini(&b);
	gg_buf_fini(&s);
	return good && (!tensor || cuda_share(d, &k->k, (unsigned)(256 * pitch)));
}

static bool make(gg_call *c, attention *k)
{
	const cuda_attend *o = &k->o;
	gg_buf b = {0};
	k->flash = fits(k, o) && cuda_flash_fits(o);
	gg_buf_printf(&b,
	              "#define INDEX unsigned long\n#define T %s\n#define HALF \"%s\"\n"
	              "#define KV %lld\n#define LEN %lldL\n#define HEADS %lldL\n"
	              "#define SIZE %lld\n#define VSIZE %lld\n",
	              cuda_type(o->dtype), cuda_type(o->dtype), (long long)o->kv, (long long)o->q,
	              (long long)o->heads, (long long)o->size, (long long)o->vsize);
	put_strides(&b, 'Q', o->sq);
	put_strides(&b, 'K', o->sk);
	put_strides(&b, 'V', o->sv);
	put_strides(&b, 'Y', o->sy);
	bool good = k->flash ? cuda_flash_make(c->d, o, b.p, &k->k) : make_own(c->d, k, b.p);
	gg_buf_fini(&b);
	return good;
}

/* ---- the kernel -------------------------------------------------------------------------------- */

static bool prepare(gg_call *c)
{
	const gg_attr *scale = gg_find_attr(c->node, "scale");
	attention *k = c->state = gg_xcalloc(1, sizeof *k);
	cuda_attend *o = &k->o;
	k->empty = !gg_count(&c->out[0]);
	if (k->empty)
		return true;
	if (!strcmp(c->node->op->name, "PackedAttention"))
		describe_packed(c, k, o);
	else
		describe(c, o);
	o->scale = scale ? scale->f : (float)(1 / sqrt((double)o->size));
	return make(c, k);
}

static bool run(gg_call *c)
{
	const attention *k = c->state;
	if (k->empty)
		return true;
	char *q = c->in[0].data;
	void *arg[] = {q, k->packed ? q + k->at_k : c->in[1].data, k->packed ? q + k->at_v : c->in[2].data,
	               c->out[0].data};
	if (k->flash)
		return cuda_flash_run(c->d, &k->o, &k->k, arg[0], arg[1], arg[2], arg[3]);
	return cuda_launch(c->d, &k->k, 4, arg);
}

static void release(gg_call *c) { free(c->state); }

const gg_kernel cuda_attention = {"cuda_attention", prepare, run, release};
