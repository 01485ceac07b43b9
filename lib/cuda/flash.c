/* Attention of 64 or 128 elements a head on half types by the tensor cores of Hopper.
 *
 *     queries ── 64 a group of 128 threads ──▶ shared memory ──┐ wgmma
 *     keys ──── blocks of BN by TMA ─▶ a ring of places ───────┴──▶ scores in registers ─▶ powers of 2
 *     values ── likewise ─▶ the same ring ──────── wgmma ◀───────── as halves, in registers ─┘
 *                                                   └──▶ sums in registers ─▶ shared memory ── TMA ──▶ y
 *
 * The scores of a block are on their way while the values of the block before are multiplied; sums shrink
 * when a larger score comes. A thread of the first group fills the ring: a place is filled again when
 * each group has said that it is done with it. Rows past the end are zeros as TMA brings them, and not
 * stored. Heads of 128 are pieces of 64 elements, which lie one after another in shared memory. Blocks of
 * keys that none of the queries may see are not brought. */
#include "cuda.h"
#include <math.h>

/* The powers are of 2, and SCALE2 is the scale times log2(e), or log2(e) alone where a mask has been added to
 * what was scaled before. */
static const char text[] =
    "#ifndef GG_HOST\n"
    "#define MAPS const __grid_constant__ map mq, const __grid_constant__ map mk, const __grid_constant__ "
    "map mv, const __grid_constant__ map my\n"
    "FN void bring(u32 to, const map *m, int col, int row, int h, int b, u32 bar) { asm "
    "volatile(\"cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
    "%3, %4, %5}], [%6];\" :: \"r\"(to), \"l\"(m), \"r\"(col), \"r\"(row), \"r\"(h), \"r\"(b), \"r\"(bar) : "
    "\"memory\"); }\n"
    "FN void store(const map *m, u32 from, int col, int row, int h, int b) { asm "
    "volatile(\"cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];\" :: "
    "\"l\"(m), \"r\"(col), \"r\"(row), \"r\"(h), \"r\"(b), \"r\"(from) : \"memory\"); }\n"
    "enum { PIECES = SIZE / 64, OWN = PIECES * 8192, PIECE = BN * 128, PART = PIECES * PIECE };\n"
    "template <int N_> FN void hold(float *a) {\n"
    "\t#pragma unroll\n"
    "\tfor (int i = 0; i < N_; i++) asm volatile(\"\" : \"+f\"(a[i]) :: \"memory\");\n"
    "}\n"
    "FN void scores(float *s, u32 q, u32 k) {\n"
    "\tconst u64 dq = matrix(q, 16), dk = matrix(k, 16);\n"
    "\t#pragma unroll\n"
    "\tfor (int j = 0; j < SIZE / 16; j++) multiply_s(s, dq + j / 4 * (8192 >> 4) + j % 4 * 2, dk + j / 4 * "
    "(PIECE >> 4) + j % 4 * 2, j);\n"
    "}\n"
    "FN void values(float *o, const u32 *p, u32 v, int more) {\n"
    "\tconst u64 dv = matrix(v, PIECES > 1 ? PIECE : 16);\n"
    "\t#pragma unroll\n"
    "\tfor (int j = 0; j < BN / 16; j++) multiply_o(o, p + j * 4, dv + j * 128, more | j);\n"
    "}\n"
    "/* the scores of block t become powers; by: what sums until now shrink by */\n"
    "FN void powers(float *s, float *m, float *sum, float *by, const M *mask, int t, int row) {\n"
    "\tconst int lane = LANE % 32;\n"
    "\tfloat top[2] = {m[0], m[1]};\n"
    "#if MASKED\n"
    "\tconst int i0 = row + LANE / 32 % 4 * 16 + lane / 4, j0 = t * BN + lane % 4 * 2;\n"
    "\tconst M *const m0 = mask + least(i0, LEN - 1) * M2, *const m1 = mask + least(i0 + 8, LEN - 1) * M2;\n"
    "\t#pragma unroll\n"
    "\tfor (int i = 0; i < BN / 2; i++) {\n"
    "\t\tconst int j = j0 + i / 4 * 8 + i % 2;\n"
    "\t\tif (j >= (int)(COLUMNS > 1 ? COLUMNS : KV)) { s[i] = low(); continue; }\n"
    "\t\tconst M x = (i / 2 % 2 ? m1 : m0)[j * M3];\n"
    "\t\ts[i] = CHOOSES ? ld(x) ? s[i] : low() : fmaf(s[i], SCALE, (float)ld(x));\n"
    "\t}\n"
    "#endif\n"
    "\tif ((KV % BN && (t + 1) * BN > KV) || (RIGHT >= 0 && (t + 1) * BN - 1 > row + PAST + RIGHT)) {\n"
    "\t\tconst int first = t * BN + lane % 4 * 2, at = row + LANE / 32 % 4 * 16 + lane / 4 + (int)(PAST + "
    "RIGHT);\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int i = 0; i < BN / 2; i++)\n"
    "\t\t\tif (first + i / 4 * 8 + i % 2 >= (int)KV || (RIGHT >= 0 && first + i / 4 * 8 + i % 2 > at + i / 2 "
    "% 2 * "
    "8)) s[i] = -__int_as_float(0x7f800000);\n"
    "\t}\n"
    "\t#pragma unroll\n"
    "\tfor (int i = 0; i < BN / 2; i++) top[i / 2 % 2] = fmaxf(top[i / 2 % 2], s[i]);\n"
    "\tfloat base[2];\n"
    "\t#pragma unroll\n"
    "\tfor (int r = 0; r < 2; r++) {\n"
    "\t\ttop[r] = fmaxf(top[r], __shfl_xor_sync(~0u, top[r], 1));\n"
    "\t\ttop[r] = fmaxf(top[r], __shfl_xor_sync(~0u, top[r], 2));\n"
    "\t\tconst float from = MASKED && top[r] == low() ? 0 : top[r];\n"
    "\t\tby[r] = exp_of_2((m[r] - from) * SCALE2);\n"
    "\t\tm[r] = top[r];\n"
    "\t\tbase[r] = from * SCALE2;\n"
    "\t\tsum[r] *= by[r];\n"
    "\t}\n"
    "\t#pragma unroll\n"
    "\tfor (int i = 0; i < BN / 2; i++) {\n"
    "\t\ts[i] = exp_of_2(fmaf(s[i], SCALE2, -base[i / 2 % 2]));\n"
    "\t\tsum[i / 2 % 2] += s[i];\n"
    "\t}\n"
    "}\n"
    "FN void shrink(float *o, const float *by) {\n"
    "\t#pragma unroll\n"
    "\tfor (int i = 0; i < SIZE / 2; i++) o[i] *= by[i / 2 % 2];\n"
    "}\n"
    "FN void pack(u32 *p, const float *s) {\n"
    "\t#pragma unroll\n"
    "\tfor (int i = 0; i < BN / 4; i++) p[i] = pair(s[2 * i], s[2 * i + 1], is<T>());\n"
    "}\n"
    "FN void fill(int t, u32 ring, u32 full, u32 empty, const map *mk, const map *mv, int h, int b) {\n"
    "\tconst u32 i = t % STAGES, to = ring + i * 2 * PART, turn = t / STAGES & 1 ^ 1;\n"
    "\tbar_wait(empty + i * 16, turn);\n"
    "\tbar_expect(full + i * 16, PART);\n"
    "\tfor (int p = 0; p < PIECES; p++) bring(to + p * PIECE, mk, p * 64, t * BN, h, b, full + i * 16);\n"
    "\tbar_wait(empty + i * 16 + 8, turn);\n"
    "\tbar_expect(full + i * 16 + 8, PART);\n"
    "\tfor (int p = 0; p < PIECES; p++) bring(to + PART + p * PIECE, mv, p * 64, t * BN, h, b, full + i * 16 "
    "+ 8);\n"
    "}\n"
    "#define REFILL(t) { if (LANE == 0 && (t) + STAGES < blocks) fill((t) + STAGES, ring, full, empty, mk, "
    "mv, h / (int)GROUP, b); }\n"
    "FN void consume(const M *mask, u32 q, u32 ring, u32 ready, u32 full, u32 empty, const map *mk, const "
    "map *mv, const "
    "map *my, int row, int h, int b, int blocks) {\n"
    "\tfloat s[BN / 2], o[SIZE / 2], m[2] = {-__int_as_float(0x7f800000), -__int_as_float(0x7f800000)}, "
    "sum[2] = "
    "{0, 0}, by[2];\n"
    "\tu32 p[BN / 4];\n"
    "\tconst int lane = LANE % 32, one = LANE % 128 == 0;\n"
    "\tbar_wait(ready, 0);\n"
    "#if OVERLAP\n"
    "\tbar_wait(full, 0);\n"
    "\tFENCE(); scores(s, q, ring); SEND(); DONE(0);\n"
    "\thold<BN / 2>(s);\n"
    "\tif (one) bar_arrive(empty);\n"
    "\tpowers(s, m, sum, by, mask, 0, row);\n"
    "\tpack(p, s);\n"
    "\t#pragma unroll 1\n"
    "\tfor (int t = 1; t < blocks; t++) {\n"
    "\t\tconst u32 i = t % STAGES, l = (t - 1) % STAGES;\n"
    "\t\tbar_wait(full + i * 16, t / STAGES & 1);\n"
    "\t\tbar_wait(full + l * 16 + 8, (t - 1) / STAGES & 1);\n"
    "\t\tFENCE(); scores(s, q, ring + i * 2 * PART); SEND();\n"
    "\t\tvalues(o, p, ring + l * 2 * PART + PART, t > 1); SEND();\n"
    "\t\tDONE(1);\n"
    "\t\thold<BN / 2>(s);\n"
    "\t\tif (one) bar_arrive(empty + i * 16);\n"
    "\t\tpowers(s, m, sum, by, mask, t, row);\n"
    "\t\tDONE(0);\n"
    "\t\thold<SIZE / 2>(o);\n"
    "\t\tif (one) bar_arrive(empty + l * 16 + 8);\n"
    "\t\tshrink(o, by);\n"
    "\t\tpack(p, s);\n"
    "\t\tREFILL(t - 1);\n"
    "\t}\n"
    "\tbar_wait(full + (blocks - 1) % STAGES * 16 + 8, (blocks - 1) / STAGES & 1);\n"
    "\tFENCE(); values(o, p, ring + (blocks - 1) % STAGES * 2 * PART + PART, blocks > 1); SEND(); DONE(0);\n"
    "\thold<SIZE / 2>(o);\n"
    "#else\n"
    "\t#pragma unroll 1\n"
    "\tfor (int t = 0; t < blocks; t++) {\n"
    "\t\tconst u32 i = t % STAGES;\n"
    "\t\tbar_wait(full + i * 16, t / STAGES & 1);\n"
    "\t\tFENCE(); scores(s, q, ring + i * 2 * PART); SEND(); DONE(0);\n"
    "\t\thold<BN / 2>(s);\n"
    "\t\tif (one) bar_arrive(empty + i * 16);\n"
    "\t\tpowers(s, m, sum, by, mask, t, row);\n"
    "\t\tpack(p, s);\n"
    "\t\tif (t) shrink(o, by);\n"
    "\t\tbar_wait(full + i * 16 + 8, t / STAGES & 1);\n"
    "\t\tFENCE(); values(o, p, ring + i * 2 * PART + PART, t > 0); SEND(); DONE(0);\n"
    "\t\thold<SIZE / 2>(o);\n"
    "\t\tif (one) bar_arrive(empty + i * 16 + 8);\n"
    "\t\tif (t) REFILL(t - 1);\n"
    "\t}\n"
    "#endif\n"
    "\t#pragma unroll\n"
    "\tfor (int r = 0; r < 2; r++) {\n"
    "\t\tsum[r] += __shfl_xor_sync(~0u, sum[r], 1);\n"
    "\t\tsum[r] += __shfl_xor_sync(~0u, sum[r], 2);\n"
    "\t\tby[r] = MASKED && sum[r] == 0 ? 0 : 1 / sum[r];\n"
    "\t}\n"
    "\tshrink(o, by);\n"
    "\t#pragma unroll\n"
    "\tfor (int j = 0; j < SIZE / 16; j++) {\n"
    "\t\tu32 r[4];\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int e = 0; e < 4; e++) r[e] = pair(o[j * 8 + e * 2], o[j * 8 + e * 2 + 1], is<T>());\n"
    "\t\tconst u32 at = q + j / 4 * 8192 + (LANE / 32 % 4 * 16 + lane % 16) * 128 + ((j % 4 * 2 + lane / 16 "
    "^ "
    "lane & 7) << 4);\n"
    "\t\tput4(at, r);\n"
    "\t}\n"
    "\tasm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");\n"
    "\tasm volatile(\"bar.sync %0, 128;\" :: \"r\"(LANE / 128 + 1) : \"memory\");\n"
    "\tif (one) {\n"
    "\t\tfor (int p = 0; p < PIECES; p++) store(my, q + p * 8192, p * 64, row, h, b);\n"
    "\t\tasm volatile(\"cp.async.bulk.commit_group;\" ::: \"memory\");\n"
    "\t\tasm volatile(\"cp.async.bulk.wait_group.read 0;\" ::: \"memory\");\n"
    "\t}\n"
    "}\n"
    "KERNEL(const T *gq, const T *gk, const T *gv, const M *gm, const i64 *len, T *gy, MAPS)\n"
    "{\n"
    "\textern __shared__ __align__(1024) u8 mem[];\n"
    "\tconst u32 q = ((u32)__cvta_generic_to_shared(mem) + 1023) & ~1023u, ring = q + WGS * OWN;\n"
    "\tconst u32 ready = ring + STAGES * 2 * PART, full = ready + 8, empty = full + STAGES * 16;\n"
    "\tPLACE;\n"
    "\tconst int all = (KV + BN - 1) / BN, far = (least((tile + 1) * WGS * 64, LEN) + PAST + RIGHT + BN - 1) "
    "/ "
    "BN;\n"
    "\tconst int blocks = RIGHT >= 0 && far < all ? far : all;\n"
    "\tif (LANE == 0) {\n"
    "\t\tforesee(&mq); foresee(&mk); foresee(&mv); foresee(&my);\n"
    "\t\tbar_init(ready, 1);\n"
    "\t\tfor (int i = 0; i < STAGES * 2; i++) { bar_init(full + i * 8, 1); bar_init(empty + i * 8, WGS); }\n"
    "\t\tasm volatile(\"fence.mbarrier_init.release.cluster;\" ::: \"memory\");\n"
    "\t}\n"
    "\t__syncthreads();\n"
    "\tif (LANE == 0) {\n"
    "\t\tbar_expect(ready, WGS * OWN);\n"
    "\t\tfor (int g = 0; g < WGS * PIECES; g++) bring(q + g * 8192, &mq, g % PIECES * 64, (tile * WGS + g / "
    "PIECES) * 64, h, b, ready);\n"
    "\t\t#pragma unroll 1\n"
    "\t\tfor (int t = 0; t < STAGES && t < blocks; t++) fill(t, ring, full, empty, &mk, &mv, h / GROUP, b);\n"
    "\t}\n"
    "\t__syncwarp();\n"
    "\tconsume(gm + b * M0 + h * M1, q + LANE / 128 * OWN, ring, ready, full, empty, &mk, &mv, &my, (tile * "
    "WGS + LANE / 128) * "
    "64, "
    "h, b, blocks);\n"
    "}\n"
    "#else\n"
    "KERNEL(const T *q, const T *k, const T *v, const M *m, const i64 *len, T *y)\n"
    "{\n"
    "\tPLACE;\n"
    "\trows(q, k, v, m, len, y, b, h, tile * WGS * 64, (tile + 1) * WGS * 64);\n"
    "}\n"
    "#endif\n";

bool cuda_flash_fits(const cuda_attend *o)
{
	return cuda_sm == 90 && gg_dtype_size(o->dtype) == 2 && (o->size == 64 || o->size == 128) &&
	       o->vsize == o->size && o->scale > 0 && o->scale < INFINITY && !o->lengths && o->cap == 0 &&
	       o->left < 0 && o->right < 1 << 30 && o->kv > 0 && o->kv < 1 << 30 && o->q < 1 << 30 &&
	       o->batch * o->heads * ((o->q + 63) / 64) < 1 << 30 && cuda_attend_aligned(o, 8);
}

/* Groups of a block, keys of a place of the ring, places, whether products and powers of one group overlap,
 * blocks that a processor holds; of heads of 64, then of 128. The second has smaller blocks, where there
 * are few. */
static const struct way {
	int groups, keys, places, overlap, resident;
} ways[2][2] = {{{2, 128, 3, 0, 2}, {1, 64, 4, 1, 4}}, {{2, 64, 5, 1, 1}, {1, 64, 3, 1, 2}}};

static int tiles(const cuda_attend *o, const struct way *w)
{
	return (int)((o->q + w->groups * 64 - 1) / (w->groups * 64));
}

static const struct way *way_of(const cuda_attend *o)
{
	const struct way *w = ways[o->size == 128];
	bool few = o->batch * o->heads * tiles(o, w) < 2 * w->resident * cuda_processors;
	return w + (few || o->kv <= 64);
}

bool cuda_flash_make(gg_diag *d, const cuda_attend *o, cuda_kernel *k)
{
	const struct way *w = way_of(o);
	const char *half = cuda_type(o->dtype);
	int wide = (int)o->size * 2;
	bool added = o->mask && o->mask != GG_BOOL;
	gg_buf b = {0}, s = {0};
	gg_buf_printf(&b,
	              "#define GG_EXACT_SM\n#define BD %d, %d\n#define WGS %d\n#define BN %d\n"
	              "#define STAGES %d\n#define OVERLAP %d\n#define SCALE2 %af\n#define TILES %d\n"
	              "#define SCALE ((C)%a)\n",
	              w->groups * 128, w->resident, w->groups, w->keys, w->places, w->overlap,
	              (added ? 1 : o->scale) * 1.4426950408889634, tiles(o, w), o->scale);
	cuda_attend_defines(&b, o);
	gg_buf_printf(&s, "%s%s", cuda_hopper_text, cuda_attend_text);
	cuda_put_wgmma(&s, "multiply_s", half, w->keys, false, false);
	cuda_put_wgmma(&s, "multiply_o", half, (int)o->size, true, true);
	gg_buf_str(&s, text);
	bool good = cuda_compile(d, b.p, s.p, k);
	k->block = (unsigned)w->groups * 128;
	k->grid = (unsigned)(o->batch * o->heads * tiles(o, w));
	gg_buf_fini(&b);
	gg_buf_fini(&s);
	return good &&
	       cuda_share(d, k,
	                  (unsigned)(w->groups * 64 * wide + w->places * (2 * w->keys * wide + 32) + 8));
}

/* Pieces of 64 elements of `high` rows of one head. */
static bool map(gg_diag *d, CUtensorMap *m, const cuda_attend *o, const void *p, int64_t heads, int64_t rows,
                const int64_t *stride, int high)
{
	cuuint64_t dim[] = {(cuuint64_t)o->size, (cuuint64_t)rows, (cuuint64_t)heads, (cuuint64_t)o->batch};
	cuuint64_t step[] = {(cuuint64_t)stride[2] * 2, (cuuint64_t)stride[1] * 2, (cuuint64_t)stride[0] * 2};
	cuuint32_t box[] = {64, (cuuint32_t)high, 1, 1};
	return cuda_describe(d, m, o->dtype, p, 4, dim, step, box, "cannot describe heads");
}

bool cuda_flash_run(gg_diag *d, const cuda_attend *o, const cuda_kernel *k, const void *q, const void *key,
                    const void *v, const void *mask, void *y)
{
	int keys = way_of(o)->keys;
	int64_t shared = o->heads / o->group;
	const void *none = NULL;
	CUtensorMap mq, mk, mv, my;
	void *at[] = {&q, &key, &v, &mask, &none, &y, &mq, &mk, &mv, &my};
	return map(d, &mq, o, q, o->heads, o->q, o->sq, 64) &&
	       map(d, &mk, o, key, shared, o->kv, o->sk, keys) &&
	       map(d, &mv, o, v, shared, o->kv, o->sv, keys) &&
	       map(d, &my, o, y, o->heads, o->q, o->sy, 64) && cuda_launch_at(d, k, at);
}
