/* TopK: a block takes a line. Each element has a key that is unique by its index, the lower one first:
 *
 *     line ── the k-th key, 8 bits at a time ── the k elements not below it ── sorted in a network ── out
 *
 * A short line is sorted as a whole. What does not fit into a block's memory is sorted in the workspace. */
#include "cuda.h"
#include "../move.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARED_MOST = 2048, SHORT = 256 };

static const char text[] =
    "#ifndef GG_HOST\n#define BUMP(p) atomicAdd(p, 1u)\n#else\n#define BUMP(p) (*(p))++\n#endif\n"
    "FN K rank(T x) { const K k = key(x); return LARGEST ? k : (K)~k; }\n"
    "#define BETTER(a, b) (keys[a] > keys[b] || (keys[a] == keys[b] && at[a] < at[b]))\n"
    "KERNEL(const T *in, u8 *room, T *out, i64 *index)\n{\n"
    "#if P <= MOST\n"
    "\tSHARED K keys[P]; SHARED u32 at[P];\n"
    "#else\n"
    "\tK *const keys = (K *)(room + blockIdx.x * (P * (sizeof(K) + 4)));\n"
    "\tu32 *const at = (u32 *)(keys + P);\n"
    "#endif\n"
    "\tSHARED u32 count[256]; SHARED u32 filled;\n"
    "for (long o = blockIdx.x; o < OUTER; o += gridDim.x) {\n"
    "\tconst T *x = in + o / STEP * (N * STEP) + o % STEP;\n"
    /* The last that is taken: its key and how far its index is from the end. */
    "#if SELECT\n"
    "\tK key0 = 0, keymask = 0; u32 end0 = 0, endmask = 0, need = COUNT;\n"
    "\tfor (int d = sizeof(K) + BYTES - 1, whole = 0; !whole && d >= 0; d--) {\n"
    "\t\tconst bool by_key = d >= BYTES; const int shift = (by_key ? d - BYTES : d) * 8;\n"
    "\t\tfor (int j = LANE; j < 256; j += BLOCK) count[j] = 0;\n"
    "\t\tMEET();\n"
    "\t\tfor (u32 j = LANE; j < N; j += BLOCK) {\n"
    "\t\t\tconst K k = rank(x[j * STEP]); const u32 e = N - 1 - j;\n"
    "\t\t\tif (((k ^ key0) & keymask) == 0 && ((e ^ end0) & endmask) == 0)\n"
    "\t\t\t\tBUMP(&count[(by_key ? (u32)(k >> shift) : e >> shift) & 255]);\n"
    "\t\t}\n"
    "\t\tMEET();\n"
    "\t\tint b = 255;\n"
    "\t\tfor (; count[b] < need; b--) need -= count[b];\n"
    "\t\twhole = count[b] == need;\n"
    "\t\tif (by_key) { key0 |= (K)b << shift; keymask |= (K)255 << shift; }\n"
    "\t\telse { end0 |= (u32)b << shift; endmask |= 255u << shift; }\n"
    "\t\tMEET();\n"
    "\t}\n"
    "\tif (LANE == 0) filled = 0;\n"
    "\tMEET();\n"
    "\tfor (u32 j = LANE; j < N; j += BLOCK) {\n"
    "\t\tconst K k = rank(x[j * STEP]);\n"
    "\t\tif (k > key0 || (k == key0 && N - 1 - j >= end0)) {"
    " const u32 s = BUMP(&filled); keys[s] = k; at[s] = j; }\n"
    "\t}\n"
    "#else\n"
    "\tfor (u32 j = LANE; j < N; j += BLOCK) { keys[j] = rank(x[j * STEP]); at[j] = j; }\n"
    "#endif\n"
    "\tfor (u32 j = (SELECT ? COUNT : N) + LANE; j < P; j += BLOCK) { keys[j] = 0; at[j] = ~0u; }\n"
    "\tfor (u32 w = 2; w <= P; w *= 2)\n"
    "\t\tfor (u32 g = w / 2; g; g /= 2) {\n"
    "\t\t\tMEET();\n"
    "\t\t\tfor (u32 i = LANE; i < P / 2; i += BLOCK) {\n"
    "\t\t\t\tconst u32 a = i / g * 2 * g + i % g, b = a + g;\n"
    "\t\t\t\tif (a & w ? BETTER(a, b) : BETTER(b, a)) {\n"
    "\t\t\t\t\tconst K k = keys[a]; keys[a] = keys[b]; keys[b] = k;\n"
    "\t\t\t\t\tconst u32 j = at[a]; at[a] = at[b]; at[b] = j;\n"
    "\t\t\t\t}\n"
    "\t\t\t}\n"
    "\t\t}\n"
    "\tMEET();\n"
    "\tconst long to = o / STEP * (COUNT * STEP) + o % STEP;\n"
    "\tfor (u32 r = LANE; r < COUNT; r += BLOCK) {\n"
    "\t\tif (VALUES) out[to + r * STEP] = x[at[r] * STEP];\n"
    "\t\tif (INDICES) index[to + r * STEP] = at[r];\n"
    "\t}\n"
    "\tMEET();\n"
    "}\n}\n";

static int64_t power(int64_t n)
{
	int64_t p = 1;
	while (p < n)
		p *= 2;
	return p;
}

static bool has(const gg_call *c, int i) { return i < c->nout && c->out[i].dtype; }

static bool prepare(gg_call *c)
{
	const gg_shape *s = &c->in[0].shape;
	gg_dtype t = c->in[0].dtype;
	int axis = gg_eval_axis(gg_get_int(c->node, "axis"), s->rank), bytes = 1;
	int64_t n = s->dim[axis], inner = gg_span(s, axis + 1, s->rank), total = gg_span(s, 0, axis) * inner;
	int64_t count = c->out[has(c, 0) ? 0 : 1].shape.dim[axis];
	bool select = n > SHORT && power(count) < power(n);
	int64_t p = power(select ? count : n), threads = select ? (n < 4096 ? 256 : 1024) : p / 2;
	cuda_kernel *k = c->state = gg_xcalloc(1, sizeof *k);
	char defines[640];
	gg_buf b = {0};
	c->taken |= c->in_const[1] ? 2 : 0;
	if (!total || !count)
		return true;
	if (n >> 31)
		return gg_node_error(c->d, GG_UNSUPPORTED, c->node, "axis %d has %lld elements", axis,
		                     (long long)n);
	while (bytes < 4 && (n - 1) >> 8 * bytes)
		bytes++;
	k->block = (unsigned)(threads < 32 ? 32 : threads > 1024 ? 1024 : threads);
	k->grid = (unsigned)(total > 1 << 20 ? 1 << 20 : total);
	if (p > SHARED_MOST) {
		k->grid = total > 2 * cuda_processors ? 2 * (unsigned)cuda_processors : (unsigned)total;
		c->workspace = k->grid * (size_t)p * ((gg_dtype_size(t) == 8 ? 8 : 4) + 4);
	}
	snprintf(
	    defines, sizeof defines,
	    "#define BD %u\n#define INDEX unsigned long\n#define T %s\n#define K %s\n#define N %lldL\n"
	    "#define STEP %lldL\n#define OUTER %lldL\n#define COUNT %lldL\n#define P %lldu\n#define MOST %d\n"
	    "#define BYTES %d\n#define SELECT %d\n#define LARGEST %d\n#define VALUES %d\n"
	    "#define INDICES %d\n",
	    k->block, cuda_type(t), cuda_key(t), (long long)n, (long long)inner, (long long)total,
	    (long long)count, (long long)p, SHARED_MOST, bytes, select, gg_get_int(c->node, "largest") != 0,
	    has(c, 0), has(c, 1));
	gg_buf_printf(&b, "%s%s", cuda_order_text, text);
	bool good = cuda_compile(c->d, defines, b.p, k);
	gg_buf_fini(&b);
	return good;
}

static bool run(gg_call *c)
{
	const cuda_kernel *k = c->state;
	void *arg[] = {c->in[0].data, c->scratch, has(c, 0) ? c->out[0].data : NULL,
	               has(c, 1) ? c->out[1].data : NULL};
	return !k->f || cuda_launch(c->d, k, 4, arg);
}

static void release(gg_call *c) { free(c->state); }
const gg_kernel cuda_topk = {"cuda_topk", prepare, run, release};
