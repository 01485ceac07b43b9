/* A product of half types by the tensor cores of Hopper: y = act(x w * scale + shift + add).
 *
 *     producer, one thread ── x, w by TMA ──▶ a ring of tiles, 64 of K each ──┐
 *     producer, another ───── add by TMA ───▶ tiles of the output             │ wgmma
 *     two groups of 128 threads, consumers ◀──────────────────────────────────┘
 *           └─ scale, shift, add, act in registers ──▶ tiles of the output ── TMA ──▶ y
 *
 * The grid stays: a block takes tile after tile. Where the groups take turns, one has the tensor cores while
 * the other finishes its tile; else each has half of the rows of one tile. A full and an empty
 * barrier for each place of the ring carry all order between producers and consumers. Rows and
 * columns that a tile has too many are zeros as TMA brings them, and not stored. */
#include "cuda.h"
#include "../tool.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Gelu is x / (1 + 2^(-x p(x^2))), p fitted to log2(Phi(x) / Phi(-x)) / x: within 2e-4 of the exact form
 * wherever the result is normal in f16. */
static const char common[] = "#define KT ((K + 63) / 64)\n"
                             "#define NB ((N + BN - 1) / BN)\n"
                             "#define TILES ((M + BM - 1) / BM * NB)\n"
                             "#define ROWS (TURNS ? BM : BM / 2)\n"
                             "#define STAGE ((BM + BN) * 128)\n"
                             "#define OUT (ROWS * BN * 2)\n"
                             "#ifdef GG_HOST\n"
                             "FN float reciprocal(float x) { return 1 / x; }\n"
                             "#else\n"
                             "FN float reciprocal(float x) { float y; asm(\"rcp.approx.ftz.f32 %0, %1;\" : "
                             "\"=f\"(y) : \"f\"(x)); return y; }\n"
                             "#endif\n"
                             "FN float finish(float x) {\n"
                             "\tif (RELU) return x < 0 ? 0 : x;\n"
                             "\tif (!GELU) return x;\n"
                             "\tconst float t = fminf(x * x, 40.f);\n"
                             "\tfloat p = -5.3318096604471066e-08f;\n"
                             "\tp = fmaf(p, t, 3.427103365538642e-06f);\n"
                             "\tp = fmaf(p, t, -6.697726348647848e-05f);\n"
                             "\tp = fmaf(p, t, -6.100203027017415e-04f);\n"
                             "\tp = fmaf(p, t, 0.10606130212545395f);\n"
                             "\tp = fmaf(p, t, 2.3013787269592285f);\n"
                             "\treturn x * reciprocal(1 + exp_of_2(-x * p));\n"
                             "}\n";

static const char text[] =
    "#ifndef GG_HOST\n"
    "FN void bring(u32 to, const map *m, int c, int r, u32 b) { asm "
    "volatile(\"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
    "%3}], [%4];\" :: \"r\"(to), \"l\"(m), \"r\"(c), \"r\"(r), \"r\"(b) : \"memory\"); }\n"
    "FN void store(const map *m, u32 from, int c, int r) { asm "
    "volatile(\"cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\" :: \"l\"(m), "
    "\"r\"(c), \"r\"(r), \"r\"(from) : \"memory\"); }\n"
    "#define MAPS const __grid_constant__ map mx, const __grid_constant__ map mw, const __grid_constant__ "
    "map madd, const __grid_constant__ map my\n"
    "FN void produce(u32 ring, u32 full, u32 empty, const map *mx, const map *mw) {\n"
    "\tu32 s = 0, turn = 0;\n"
    "\tfor (int t = blockIdx.x; t < TILES; t += gridDim.x) {\n"
    "\t\tconst int m0 = t / NB * BM, n0 = t % NB * BN;\n"
    "\t\tfor (int k = 0; k < KT; k++) {\n"
    "\t\t\tconst u32 a = ring + s * STAGE, b = a + BM * 128, f = full + s * 8;\n"
    "\t\t\tbar_wait(empty + s * 8, turn ^ 1);\n"
    "\t\t\tbar_expect(f, STAGE);\n"
    "\t\t\tbring(a, mx, k * 64, m0, f);\n"
    "\t\t\tif (TURNED)\n"
    "\t\t\t\tfor (int i = 0; i < BN / 64; i++) bring(b + i * 8192, mw, n0 + i * 64, k * 64, f);\n"
    "\t\t\telse\n"
    "\t\t\t\tbring(b, mw, k * 64, n0, f);\n"
    "\t\t\tif (++s == STAGES) { s = 0; turn ^= 1; }\n"
    "\t\t}\n"
    "\t}\n"
    "}\n"
    "FN void produce_add(u32 out, u32 ready, u32 clear, const map *madd) {\n"
    "\tint turn = 0;\n"
    "\tfor (int t = blockIdx.x; t < TILES; t += gridDim.x, turn++)\n"
    "\t\tfor (int g = TURNS ? turn & 1 : 0; g < (TURNS ? (turn & 1) + 1 : 2); g++) {\n"
    "\t\t\tbar_wait(clear + g * 8, ((TURNS ? turn >> 1 : turn) & 1) ^ 1);\n"
    "\t\t\tbar_expect(ready + g * 8, OUT);\n"
    "\t\t\tfor (int i = 0; i < BN / 64; i++)\n"
    "\t\t\t\tbring(out + g * OUT + i * ROWS * 128, madd, t % NB * BN + i * 64, t / NB * BM + (TURNS ? 0 : g "
    "* ROWS), ready + g * 8);\n"
    "\t\t}\n"
    "}\n"
    "/* 16 columns of the tile from c on, which is column `at` of the whole; where fragments lie, ldmatrix "
    "and stmatrix find them. */\n"
    "FN void finish_columns(float (*acc)[BN / 2], int j, u32 out, int at, const float *scale, const SHIFT "
    "*shift) {\n"
    "\tconst int lane = LANE % 32;\n"
    "\tfloat by[4], up[4];\n"
    "\t#pragma unroll\n"
    "\tfor (int e = 0; e < 4; e++) { by[e] = 1; up[e] = 0; }\n"
    "\t#pragma unroll\n"
    "\tfor (int e = 0; e < 4; e += 2) {\n"
    "\t\tconst int c = at + lane % 4 * 2 + e * 4;\n"
    "\t\tif (SCALED && c < N) { const vec<float, 2> v = *(const vec<float, 2> *)(scale + c); by[e] = v.v[0]; "
    "by[e + 1] = v.v[1]; }\n"
    "\t\tif (SHIFTED && c < N) { const vec<SHIFT, 2> v = *(const vec<SHIFT, 2> *)(shift + c); up[e] = "
    "ld(v.v[0]); up[e + 1] = ld(v.v[1]); }\n"
    "\t}\n"
    "\t#pragma unroll\n"
    "\tfor (int i = 0; i < ROWS / 64; i++) {\n"
    "\t\tconst u32 p = out + j / 4 * (ROWS * 128) + (i * 64 + LANE / 32 % 4 * 16 + lane % 16) * 128 + ((j % "
    "4 * 2 + lane / 16 ^ lane & 7) << 4);\n"
    "\t\tu32 r[4] = {0, 0, 0, 0};\n"
    "\t\tif (ADD) asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\" : "
    "\"=r\"(r[0]), \"=r\"(r[1]), \"=r\"(r[2]), \"=r\"(r[3]) : \"r\"(p) : \"memory\");\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int e = 0; e < 4; e++) {\n"
    "\t\t\tfloat u = acc[i][j * 8 + e * 2], v = acc[i][j * 8 + e * 2 + 1];\n"
    "\t\t\tif (SCALED) { u *= by[e / 2 * 2]; v *= by[e / 2 * 2 + 1]; }\n"
    "\t\t\tif (SHIFTED) { u += up[e / 2 * 2]; v += up[e / 2 * 2 + 1]; }\n"
    "\t\t\tif (ADD) { u += ld(T{(u16)r[e]}); v += ld(T{(u16)(r[e] >> 16)}); }\n"
    "\t\t\tr[e] = pair(finish(u), finish(v), is<T>());\n"
    "\t\t}\n"
    "\t\tput4(p, r);\n"
    "\t}\n"
    "}\n"
    "FN void consume(int g, u32 ring, u32 out, u32 full, u32 empty, u32 ready, u32 clear, const float "
    "*scale, const SHIFT *shift, const map *my) {\n"
    "\tfloat acc[ROWS / 64][BN / 2];\n"
    "\tint turn = 0, mine = 0;\n"
    "\t/* A group waits for fills of the ring only when the other has seen those before: a parity tells two "
    "apart, no more. */\n"
    "\tif (TURNS && g) asm volatile(\"bar.arrive 3, 256;\" ::: \"memory\");\n"
    "\tfor (int t = blockIdx.x; t < TILES; t += gridDim.x, turn++) {\n"
    "\t\tif (TURNS && (turn & 1) != g) continue;\n"
    "\t\tconst int m0 = t / NB * BM + (TURNS ? 0 : g * ROWS), n0 = t % NB * BN;\n"
    "\t\tu32 q = (u32)turn * KT, last = 0;\n"
    "\t\tif (TURNS) asm volatile(\"bar.sync %0, 256;\" :: \"r\"(g + 3) : \"memory\");\n"
    "\t\tfor (int k = 0; k < KT; k++, q++) {\n"
    "\t\t\tconst u32 s = q % STAGES, a = ring + s * STAGE + (TURNS ? 0 : g * ROWS * 128), b = ring + s * "
    "STAGE + BM * 128;\n"
    "\t\t\tconst u64 da = matrix(a, 16), db = matrix(b, TURNED ? 8192 : 16);\n"
    "\t\t\tbar_wait(full + s * 8, q / STAGES & 1);\n"
    "\t\t\tFENCE();\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int j = 0; j < 4; j++)\n"
    "\t\t\t\t#pragma unroll\n"
    "\t\t\t\tfor (int i = 0; i < ROWS / 64; i++)\n"
    "\t\t\t\t\tmultiply(acc[i], da + i * 512 + j * 2, db + j * (TURNED ? 128 : 2), k | j);\n"
    "\t\t\tSEND();\n"
    "\t\t\tif (k) {\n"
    "\t\t\t\tDONE(1);\n"
    "\t\t\t\tif (LANE % 128 == 0) bar_arrive(empty + last * 8);\n"
    "\t\t\t}\n"
    "\t\t\tlast = s;\n"
    "\t\t}\n"
    "\t\tif (TURNS) asm volatile(\"bar.arrive %0, 256;\" :: \"r\"(4 - g) : \"memory\");\n"
    "\t\tDONE(0);\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int i = 0; i < ROWS / 64; i++)\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int j = 0; j < BN / 2; j++) asm volatile(\"\" : \"+f\"(acc[i][j]) :: \"memory\");\n"
    "\t\tif (LANE % 128 == 0) bar_arrive(empty + last * 8);\n"
    "\t\tif (ADD) bar_wait(ready + g * 8, mine++ & 1);\n"
    "\t\telse {\n"
    "\t\t\tif (LANE % 128 == 0) asm volatile(\"cp.async.bulk.wait_group.read 0;\" ::: \"memory\");\n"
    "\t\t\tasm volatile(\"bar.sync %0, 128;\" :: \"r\"(g + 1) : \"memory\");\n"
    "\t\t}\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int j = 0; j < BN / 16; j++) finish_columns(acc, j, out + g * OUT, n0 + j * 16, scale, "
    "shift);\n"
    "\t\tasm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");\n"
    "\t\tasm volatile(\"bar.sync %0, 128;\" :: \"r\"(g + 1) : \"memory\");\n"
    "\t\tif (LANE % 128 == 0) {\n"
    "\t\t\tfor (int i = 0; i < BN / 64; i++) store(my, out + g * OUT + i * ROWS * 128, n0 + i * 64, m0);\n"
    "\t\t\tasm volatile(\"cp.async.bulk.commit_group;\" ::: \"memory\");\n"
    "\t\t\tif (ADD) {\n"
    "\t\t\t\tasm volatile(\"cp.async.bulk.wait_group.read 0;\" ::: \"memory\");\n"
    "\t\t\t\tbar_arrive(clear + g * 8);\n"
    "\t\t\t}\n"
    "\t\t}\n"
    "\t}\n"
    "\tif (LANE % 128 == 0) asm volatile(\"cp.async.bulk.wait_group.read 0;\" ::: \"memory\");\n"
    "}\n"
    "KERNEL(const T *x, const T *w, const float *scale, const SHIFT *shift, const T *add, T *y, MAPS)\n"
    "{\n"
    "\textern __shared__ __align__(1024) u8 mem[];\n"
    "\tconst u32 ring = ((u32)__cvta_generic_to_shared(mem) + 1023) & ~1023u, out = ring + STAGES * STAGE;\n"
    "\tconst u32 full = out + 2 * OUT, empty = full + STAGES * 8, ready = empty + STAGES * 8, clear = ready "
    "+ 16;\n"
    "\tif (LANE == 0) {\n"
    "\t\tforesee(&mx); foresee(&mw); foresee(&my);\n"
    "\t\tif (ADD) foresee(&madd);\n"
    "\t\tfor (int s = 0; s < STAGES; s++) { bar_init(full + s * 8, 1); bar_init(empty + s * 8, TURNS ? 1 : "
    "2); }\n"
    "\t\tfor (int g = 0; g < 2; g++) { bar_init(ready + g * 8, 1); bar_init(clear + g * 8, 1); }\n"
    "\t\tasm volatile(\"fence.mbarrier_init.release.cluster;\" ::: \"memory\");\n"
    "\t}\n"
    "\t__syncthreads();\n"
    "\tif (LANE < 128) {\n"
    "\t\tasm volatile(\"setmaxnreg.dec.sync.aligned.u32 40;\");\n"
    "\t\tif (LANE == 0) produce(ring, full, empty, &mx, &mw);\n"
    "\t\tif (ADD && LANE == 32) produce_add(out, ready, clear, &madd);\n"
    "\t} else {\n"
    "\t\tasm volatile(\"setmaxnreg.inc.sync.aligned.u32 232;\");\n"
    "\t\tconsume(LANE / 128 - 1, ring, out, full, empty, ready, clear, scale, shift, &my);\n"
    "\t}\n"
    "}\n"
    "#else\n"
    "KERNEL(const T *x, const T *w, const float *scale, const SHIFT *shift, const T *add, T *y)\n"
    "{\n"
    "\tfor (long m = blockIdx.x; m < M; m += gridDim.x) for (long n = 0; n < N; n++) {\n"
    "\t\tfloat s = 0;\n"
    "\t\tfor (long k = 0; k < K; k++) s += ld(x[m * K + k]) * ld(w[TURNED ? k * N + n : n * K + k]);\n"
    "\t\ts = s * (SCALED ? scale[n] : 1) + (SHIFTED ? ld(shift[n]) : 0) + (ADD ? ld(add[m * N + n]) : 0);\n"
    "\t\ty[m * N + n] = st(finish(s), is<T>());\n"
    "\t}\n"
    "}\n"
    "#endif\n";

/* Rows and columns of a tile, places of the ring, and whether the two groups take turns at tiles; how much
 * longer than by the largest tiles a result takes, as a factor. */
typedef struct tile {
	int bm, bn, stages;
	bool turns;
	double slow;
} tile;
static const tile tiles[] = {{128, 128, 5, true, 1},
                             {128, 192, 4, false, 1},
                             {128, 192, 3, true, 1.12},
                             {128, 64, 6, true, 1.25},
                             {128, 64, 6, false, 1.1}};
enum { NTILES = sizeof tiles / sizeof *tiles };

static int64_t blocks(const cuda_wgmma *o, const tile *t)
{
	return (o->m + t->bm - 1) / t->bm * ((o->n + t->bn - 1) / t->bn);
}

bool cuda_wgmma_fits(const cuda_wgmma *o)
{
	return cuda_sm == 90 && gg_dtype_size(o->dtype) == 2 && o->m > 0 && o->n > 0 && o->k > 0 &&
	       o->n % 8 == 0 && o->k % 8 == 0 && o->m < 1 << 30 && o->n < 1 << 24 && o->k < 1 << 30 &&
	       blocks(o, &tiles[3]) < 1 << 30;
}

static bool make(gg_diag *d, const cuda_wgmma *o, int which, cuda_wgmma_plan *p)
{
	const tile *t = &tiles[which];
	const char *half = cuda_type(o->dtype);
	gg_buf b = {0}, s = {0};
	int64_t n = blocks(o, t);
	p->o = *o;
	p->rows = t->turns ? t->bm : t->bm / 2;
	p->bm = t->bm;
	p->bn = t->bn;
	gg_buf_printf(&b,
	              "#define GG_EXACT_SM\n#define BD 384, 1\n#define INDEX unsigned\n#define T %s\n"
	              "#define M %lld\n#define N %lld\n#define K %lld\n#define BM %d\n#define BN %d\n"
	              "#define STAGES %d\n#define TURNS %d\n#define TURNED %d\n",
	              half, (long long)o->m, (long long)o->n, (long long)o->k, t->bm, t->bn, t->stages,
	              t->turns, o->turned);
	gg_buf_printf(&b,
	              "#define ADD %d\n#define RELU %d\n#define GELU %d\n#define SCALED %d\n"
	              "#define SHIFTED %d\n#define SHIFT %s\n",
	              o->add, o->relu, o->gelu, o->scale, o->shift != 0,
	              cuda_type(o->shift ? o->shift : GG_F32));
	gg_buf_str(&s, cuda_hopper_text);
	cuda_put_wgmma(&s, "multiply", half, t->bn, false, o->turned);
	gg_buf_printf(&s, "%s%s", common, text);
	bool good = cuda_compile(d, b.p, s.p, &p->k);
	p->k.block = 384;
	p->k.grid = (unsigned)(n < cuda_processors ? n : cuda_processors);
	gg_buf_fini(&b);
	gg_buf_fini(&s);
	return good && cuda_share(d, &p->k,
	                          (unsigned)(t->stages * (t->bm + t->bn) * 128 + 2 * p->rows * t->bn * 2 +
	                                     16 * t->stages + 32 + 1024));
}

static bool map(gg_diag *d, CUtensorMap *m, gg_dtype t, const void *p, int64_t rows, int64_t cols, int high)
{
	cuuint64_t dim[] = {(cuuint64_t)cols, (cuuint64_t)rows}, stride[] = {(cuuint64_t)cols * 2};
	cuuint32_t box[] = {64, (cuuint32_t)high};
	return cuda_describe(d, m, t, p, 2, dim, stride, box, "cannot describe a matrix");
}

bool cuda_wgmma_run(gg_diag *d, const cuda_wgmma_plan *p, const void *x, const void *w, const void *scale,
                    const void *shift, const void *add, void *y)
{
	const cuda_wgmma *o = &p->o;
	CUtensorMap mx, mw, madd, my;
	void *at[] = {&x, &w, &scale, &shift, &add, &y, &mx, &mw, &madd, &my};
	return map(d, &mx, o->dtype, x, o->m, o->k, p->bm) &&
	       map(d, &mw, o->dtype, w, o->turned ? o->k : o->n, o->turned ? o->n : o->k,
	           o->turned ? 64 : p->bn) &&
	       map(d, &madd, o->dtype, o->add ? add : y, o->m, o->n, p->rows) &&
	       map(d, &my, o->dtype, y, o->m, o->n, p->rows) && cuda_launch_at(d, &p->k, at);
}

/* ---- choosing a tile ----------------------------------------------------------------------------- */

/* Microseconds of the tensor cores, from what an H200 was seen to do: 0.345 for 64 of K of 128 x 128
 * results, more for their end, with Gelu and `add` more again. Groups that take turns hide most of
 * the ends but the last. */
static double cost(const cuda_wgmma *o, const tile *t)
{
	double n = (double)((blocks(o, t) + cuda_processors - 1) / cuda_processors),
	       area = t->bm * t->bn / 16384.;
	double step = 0.345 * t->slow * area * (double)((o->k + 63) / 64);
	double end = 0.4 + area * (0.4 + (o->gelu ? 1.7 : 0) + (o->add ? 0.9 : 0));
	double turn = step + 0.35 + area * ((o->gelu ? 0.7 : 0) + (o->add ? 0.4 : 0));
	double both = (step + end) / 2;
	return t->turns ? n * (turn > both ? turn : both) + end : n * (step + end);
}

static int cheapest(const cuda_wgmma *o)
{
	int best = 0;
	for (int i = 1; i < NTILES; i++)
		best = cost(o, &tiles[i]) < cost(o, &tiles[best]) ? i : best;
	return best;
}

/* Microseconds of a kernel that has so many for its operations, or is bound by memory. */
static double bound(const cuda_wgmma *o, double operations, double rate)
{
	double bytes = 2 * ((double)o->m * (double)o->k + (double)o->n * (double)o->k +
	                    (double)o->m * (double)o->n * (o->add ? 2 : 1));
	return 2.5 + (operations > bytes / rate ? operations : bytes / rate);
}

double cuda_wgmma_us(const cuda_wgmma *o) { return bound(o, cost(o, &tiles[cheapest(o)]), 3.7e6); }

/* As if `add` took a pass of its own, which it nearly does. */
double cuda_library_us(const cuda_wgmma *o)
{
	double flop = 2 * (double)o->m * (double)o->n * (double)o->k;
	double add = o->add ? (double)o->m * (double)o->n * 2 / 4e6 : 0;
	return add + bound(o, flop / (4.9e6 * cuda_processors), 3.2e6);
}

typedef struct trial {
	const cuda_wgmma_plan *p;
	gg_diag *d;
	void *x, *w, *scale, *shift, *add, *y;
} trial;

static bool run_trial(void *q)
{
	const trial *t = q;
	return cuda_wgmma_run(t->d, t->p, t->x, t->w, t->scale, t->shift, t->add, t->y);
}

/* ---- choices as text ----------------------------------------------------------------------------- */

static const char *library(void)
{
	static char text[512];

	if (!*text)
		snprintf(text, sizeof text, "gg %s, sm_%d%s", gg_version, cuda_sm, cuda_where());
	return text;
}

static const char *key_of(const char *what, const cuda_wgmma *o, char key[256])
{
	snprintf(key, 256, "%s %s m %lld n %lld k %lld%s%s%s%s%s%s%s", what, gg_dtype_name(o->dtype),
	         (long long)o->m, (long long)o->n, (long long)o->k, o->turned ? " turned" : "",
	         o->scale ? " scale" : "", o->shift ? " shift " : "", o->shift ? gg_dtype_name(o->shift) : "",
	         o->add ? " add" : "", o->relu ? " relu" : "", o->gelu ? " gelu" : "");
	return key;
}

int cuda_wgmma_known(const cuda_wgmma *o)
{
	char key[256];
	const char *text = cuda_choice(library(), key_of("kernel of product", o, key));
	return !text ? 0 : !strncmp(text, "own", 3) ? 1 : -1;
}

void cuda_wgmma_judge(const cuda_wgmma *o, bool better, float ms)
{
	char key[256], text[64];
	snprintf(text, sizeof text, "%s, %.4g ms", better ? "own" : "library", (double)ms);
	cuda_choose(library(), key_of("kernel of product", o, key), text);
}

/* Below 0: nobody has measured. */
static int known_tile(const cuda_wgmma *o)
{
	char key[256];
	const char *text = cuda_choice(library(), key_of("tile of product", o, key));
	int i = -1;
	return text && sscanf(text, "tile %d", &i) == 1 && i < NTILES ? i : -1;
}

static void keep_tile(const cuda_wgmma *o, int i, float ms)
{
	char key[256], text[64];
	snprintf(text, sizeof text, "tile %d, %.4g ms", i, (double)ms);
	cuda_choose(library(), key_of("tile of product", o, key), text);
}

/* What was measured before: networks repeat their layers. */
typedef struct chosen {
	cuda_wgmma_plan p;
	struct chosen *next;
} chosen;
static chosen *all_chosen;

static bool measure(gg_diag *d, const cuda_wgmma *o, cuda_wgmma_plan *best)
{
	gg_diag silent = {.silent = true};
	trial t = {.d = &silent};
	void **buffer[] = {&t.x, &t.w, &t.scale, &t.shift, &t.add, &t.y};
	const int64_t elements[] = {o->m * o->k, o->n * o->k, o->n * 2, o->n * 2, o->add ? o->m * o->n : 0,
	                            o->m * o->n};
	bool good = true;
	int first = -1;
	for (int i = 0; i < 6 && good; i++)
		good = (*buffer[i] = cuda_device.alloc(d, (size_t)elements[i] * 2, "tuning")) &&
		       cuda_device.fill(d, *buffer[i], 0x2a, (size_t)elements[i] * 2);
	for (int i = 0; i < NTILES && good; i++) {
		cuda_wgmma_plan p;
		good = make(d, o, i, &p);
		t.p = &p;
		p.ms = good ? cuda_measure(run_trial, &t) : -1;
		if (p.ms > 0 && (best->ms == 0 || p.ms < best->ms)) {
			*best = p;
			first = i;
		}
	}
	if (first >= 0)
		keep_tile(o, first, best->ms);
	for (int i = 0; i < 6; i++)
		if (*buffer[i])
			cuda_device.release(*buffer[i]);
	return good;
}

bool cuda_own(void)
{
	const char *s = getenv("GG_CUDA_OWN");
	return s && *s == '1';
}

bool cuda_wgmma_make(gg_diag *d, const cuda_wgmma *o, cuda_wgmma_plan *p)
{
	chosen *k = all_chosen;
	memset(p, 0, sizeof *p);
	while (k && memcmp(&k->p.o, o, sizeof *o))
		k = k->next;
	if (k) {
		*p = k->p;
		return true;
	}
	int known = known_tile(o);
	if (known < 0 && cuda_tune() > 1 && !measure(d, o, p))
		return false;
	if (p->ms == 0 && !make(d, o, known < 0 ? cheapest(o) : known, p))
		return false;
	gg_verbose(d, "product %lld x %lld x %lld%s%s: tiles of %d x %d, %.4f ms%s", (long long)o->m,
	           (long long)o->n, (long long)o->k, o->add ? ", add" : "", o->gelu ? ", Gelu" : "", p->bm,
	           p->bn, p->ms > 0 ? (double)p->ms : cuda_wgmma_us(o) / 1e3,
	           p->ms > 0 ? "" : " by estimate");
	k = gg_xcalloc(1, sizeof *k);
	k->p = *p;
	k->next = all_chosen;
	all_chosen = k;
	return true;
}
