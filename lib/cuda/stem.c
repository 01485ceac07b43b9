/* What image networks begin with, as one kernel: y = max_pool(relu(conv(x) * scale + shift)), of half types.
 *
 *     a block ── some rows of one image, as they lie ──▶ shared memory ── words of two pixels ──▶ registers
 *     a warp  ── 16 places of a row of the convolution ── wgmma, w in shared memory ──▶ 16 x 64 results
 *             └─ the larger of three rows in registers, of three places in shared memory ──▶ 7 places of y
 *
 * What lies between, which would be the largest value of the network, is never written. A window's row has at
 * most 8 places: 16 of K are two such rows, and nothing has to be gathered. Neighbours make the row and the
 * place that they share twice. Where the kernel does not serve, the two nodes run one after the other. */
#include "cuda.h"
#include "../window.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const gg_kernel cuda_conv, cuda_pool;

enum { COUT = 64 };

/* Pair j of channel and row of the window has 8 of K, of which the first may lie before the window. Tiles of
 * 64 of K have rows of 128 bytes for each output, with their pieces in wgmma's places. */
static const char common[] = "#define ROWS (4 * PR + KH)\n"
                             "#define PAIRS (CIN * KH)\n"
                             "#define STEPS ((PAIRS + 1) / 2)\n"
                             "#define WEIGHTS ((STEPS + 3) / 4 * 8192)\n"
                             "#define INPUT ((ROWS * CIN * PITCH + 127) / 128 * 128)\n";

static const char text[] =
    "#ifdef GG_HOST\n"
    "FN float result(const T *x, const T *w, long image, int oh, int ow, int n) {\n"
    "\tfloat s = 0;\n"
    "\tfor (int j = 0; j < PAIRS; j++) for (int k = 0; k < 8; k++) {\n"
    "\t\tconst int h = 2 * oh - UP + j % KH, v = 2 * ow - LEFT + k, at = j % 8 ^ n & 7;\n"
    "\t\tif (h >= 0 && h < IH && v >= 0 && v < IW)\n"
    "\t\t\ts += ld(x[((image * CIN + j / KH) * IH + h) * IW + v]) * ld(w[j / 8 * 4096 + n * 64 + at * 8 + "
    "k]);\n"
    "\t}\n"
    "\treturn s;\n"
    "}\n"
    "KERNEL(const T *x, const T *w, const float *scale, const float *shift, T *y)\n"
    "{\n"
    "\tconst long image = blockIdx.x / STRIPS;\n"
    "\tconst int first = blockIdx.x % STRIPS * PR;\n"
    "\tfor (int q = first; q < first + PR && q < PH; q++) for (int p = 0; p < PW; p++) for (int n = 0; n < "
    "64; n++) {\n"
    "\t\tfloat best = 0;\n"
    "\t\tfor (int a = 2 * q - 1; a < 2 * q + 2; a++) for (int b = 2 * p - 1; b < 2 * p + 2; b++)\n"
    "\t\t\tif (a >= 0 && a < OH && b >= 0 && b < OW)\n"
    "\t\t\t\tbest = pick_max(best, result(x, w, image, a, b, n) * scale[n] + shift[n]);\n"
    "\t\ty[((image * PH + q) * PW + p) * 64 + n] = st(best, is<T>());\n"
    "\t}\n"
    "}\n"
    "#else\n"
    "FN u32 word(u32 at) { u32 r; asm volatile(\"ld.shared.b32 %0, [%1];\" : \"=r\"(r) : \"r\"(at)); return "
    "r; "
    "}\n"
    "FN w128 words(u32 at) { w128 r; asm volatile(\"ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];\" : "
    "\"=r\"(r.v[0]), \"=r\"(r.v[1]), \"=r\"(r.v[2]), \"=r\"(r.v[3]) : \"r\"(at) : \"memory\"); return r; }\n"
    "/* The rows of a block: 8 zeros before each, and some behind; rows outside of the image are zeros. */\n"
    "FN void bring(u32 rows, u8 *mem, const T *x, long image, int top) {\n"
    "\tfor (int j = LANE; j < ROWS * CIN * (PITCH / 16); j += BLOCK) {\n"
    "\t\tconst int p = j % (PITCH / 16), c = j / (PITCH / 16) % CIN, r = j / (PITCH / 16) / CIN, at = (r * "
    "CIN "
    "+ c) * PITCH + p * 16;\n"
    "\t\tif (p > 0 && p <= IW / 8 && (unsigned)(top + r) < IH)\n"
    "\t\t\tcopy16(rows + at, x + ((image * CIN + c) * IH + top + r) * IW + (p - 1) * 8);\n"
    "\t\telse\n"
    "\t\t\t*(w128 *)(mem + at) = w128{0, 0, 0, 0};\n"
    "\t}\n"
    "}\n"
    "/* One row of the convolution: 16 places of this warp, in pairs of channels. */\n"
    "FN void convolve(u32 *v, u32 from, u32 weights, const float *norm, bool good0, bool good1) {\n"
    "\tconst int lane = LANE % 32;\n"
    "\tu32 a[STEPS][4];\n"
    "\tfloat acc[32];\n"
    "\t#pragma unroll\n"
    "\tfor (int j = 0; j < STEPS * 2; j++) {\n"
    "\t\tconst u32 row = from + (j % KH * CIN + j / KH) * PITCH;\n"
    "\t\ta[j / 2][j % 2 * 2] = j < PAIRS ? word(row) : 0;\n"
    "\t\ta[j / 2][j % 2 * 2 + 1] = j < PAIRS ? word(row + 32) : 0;\n"
    "\t}\n"
    "\tFENCE();\n"
    "\t#pragma unroll\n"
    "\tfor (int j = 0; j < STEPS; j++) multiply(acc, a[j], matrix(weights + j / 4 * 8192, 16) + j % 4 * 2, "
    "j);\n"
    "\tSEND();\n"
    "\tDONE(0);\n"
    "\t#pragma unroll\n"
    "\tfor (int i = 0; i < 32; i++) asm volatile(\"\" : \"+f\"(acc[i]) :: \"memory\");\n"
    "\t#pragma unroll\n"
    "\tfor (int i = 0; i < 8; i++) {\n"
    "\t\tconst float *n = norm + i * 8 + lane % 4 * 2;\n"
    "\t\tconst float s0 = n[0], s1 = n[1], t0 = n[64], t1 = n[65];\n"
    "\t\tv[2 * i] = max_pair(pair(acc[4 * i] * s0 + t0, acc[4 * i + 1] * s1 + t1, is<T>()), 0, is<T>());\n"
    "\t\tv[2 * i + 1] = max_pair(pair(acc[4 * i + 2] * s0 + t0, acc[4 * i + 3] * s1 + t1, is<T>()), 0, "
    "is<T>());\n"
    "\t\tif (!good0) v[2 * i] = 0;\n"
    "\t\tif (!good1) v[2 * i + 1] = 0;\n"
    "\t}\n"
    "}\n"
    "/* The largest of three neighbours each; `left`: places of y from here on. */\n"
    "FN void emit(const u32 *best, u32 own, T *y, int left) {\n"
    "\tconst int lane = LANE % 32, px = lane % 16;\n"
    "\t#pragma unroll\n"
    "\tfor (int j = 0; j < 4; j++) put4(own + px * 128 + ((j * 2 + lane / 16 ^ px & 7) << 4), best + 4 * "
    "j);\n"
    "\t__syncwarp();\n"
    "\t#pragma unroll\n"
    "\tfor (int k = 0; k < 2; k++) {\n"
    "\t\tconst int i = lane + k * 32, p = i / 8, piece = i % 8;\n"
    "\t\tif (i < 56 && p < left) {\n"
    "\t\t\tw128 a = words(own + 2 * p * 128 + ((piece ^ 2 * p & 7) << 4));\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int o = 1; o < 3; o++) {\n"
    "\t\t\t\tconst w128 b = words(own + (2 * p + o) * 128 + ((piece ^ 2 * p + o & 7) << 4));\n"
    "\t\t\t\t#pragma unroll\n"
    "\t\t\t\tfor (int e = 0; e < 4; e++) a.v[e] = max_pair(a.v[e], b.v[e], is<T>());\n"
    "\t\t\t}\n"
    "\t\t\t*(w128 *)(y + p * 64 + piece * 8) = a;\n"
    "\t\t}\n"
    "\t}\n"
    "\t__syncwarp();\n"
    "}\n"
    "KERNEL(const T *x, const T *w, const float *scale, const float *shift, T *y)\n"
    "{\n"
    "\textern __shared__ __align__(1024) u8 mem[];\n"
    "\tconst u32 weights = (u32)__cvta_generic_to_shared(mem), rows = weights + WEIGHTS;\n"
    "\tconst long image = blockIdx.x / STRIPS;\n"
    "\tconst int first = blockIdx.x % STRIPS * PR, lane = LANE % 32, g = LANE / 32;\n"
    "\tfloat *const norm = (float *)(mem + WEIGHTS + INPUT + GROUPS * 2048);\n"
    "\tfor (int j = LANE; j < WEIGHTS / 16; j += BLOCK) copy16(weights + j * 16, (const u8 *)w + j * 16);\n"
    "\tbring(rows, mem + WEIGHTS, x, image, 4 * first - 2 - UP);\n"
    "\tif (LANE < 64) { norm[LANE] = scale[LANE]; norm[64 + LANE] = shift[LANE]; }\n"
    "\tCOMMIT();\n"
    "\tWAIT(0);\n"
    "\tasm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");\n"
    "\t__syncthreads();\n"
    "\tconst int c = 14 * g - 1 + lane / 4;\n"
    "\tconst u32 own = rows + INPUT + g * 2048, from = rows + (c + (8 - LEFT) / 2 + lane % 4) * 4;\n"
    "\tconst bool good0 = (unsigned)c < OW, good1 = (unsigned)(c + 8) < OW;\n"
    "\tu32 best[16];\n"
    "\t#pragma unroll 1\n"
    "\tfor (int r = 0; r <= 2 * PR; r++) {\n"
    "\t\tu32 v[16];\n"
    "\t\tif ((unsigned)(2 * first - 1 + r) < OH)\n"
    "\t\t\tconvolve(v, from + 2 * r * CIN * PITCH, weights, norm, good0, good1);\n"
    "\t\telse\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int i = 0; i < 16; i++) v[i] = 0;\n"
    "\t\tif (r) {\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int i = 0; i < 16; i++) best[i] = max_pair(best[i], v[i], is<T>());\n"
    "\t\t}\n"
    "\t\tif (r % 2 == 0) {\n"
    "\t\t\tconst int q = first + r / 2 - 1;\n"
    "\t\t\tif (r && q < PH) emit(best, own, y + ((image * PH + q) * PW + 7 * g) * 64, PW - 7 * g);\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int i = 0; i < 16; i++) best[i] = v[i];\n"
    "\t\t}\n"
    "\t}\n"
    "}\n"
    "#endif\n";

/* ---- shapes -------------------------------------------------------------------------------------- */

typedef struct stem {
	gg_call conv, pool; /* the two parts, where they run one after the other */
	gg_tensor between;
	size_t at, at_conv, at_pool; /* in scratch */
	cuda_kernel k;               /* else f is NULL */
	void *weight, *norm;
} stem;

typedef struct shape {
	int batch, cin, ih, iw, kh, up, left, oh, ow, ph, pw;
	int groups, pitch, rows; /* warps, bytes of a row, rows of y a block */
} shape;

bool cuda_is_stem(const gg_call *c)
{
	return c->ncover > 1 && !strcmp(c->cover[c->ncover - 1]->op->name, "MaxPool");
}

static int pairs(const shape *s) { return s->cin * s->kh; }
static int weight_bytes(const shape *s) { return ((pairs(s) + 1) / 2 + 3) / 4 * 8192; }

static int shared_bytes(const shape *s, int rows)
{
	int input = (4 * rows + s->kh) * s->cin * s->pitch;
	return weight_bytes(s) + (input + 127) / 128 * 128 + s->groups * 2048 + 2 * COUT * 4;
}

/* Two blocks a processor, as one works while the other reads; one of them where it has all threads. A wave
 * of blocks takes its rows of the convolution, and as long as three of them to begin. */
static bool choose_rows(shape *s)
{
	int each = s->groups > 8 ? 1 : 2, best = 0;
	s->rows = 0;
	for (int rows = 1; rows <= 16 && shared_bytes(s, rows) <= 231424 / each - 1024; rows++) {
		int blocks = s->batch * ((s->ph + rows - 1) / rows), room = each * cuda_processors;
		int cost = (blocks + room - 1) / room * (2 * rows + 4);
		if (!s->rows || cost < best) {
			best = cost;
			s->rows = rows;
		}
	}
	return s->rows > 0;
}

/* What gg_target_cover has seen to holds: lib/target/cuda.c. False: reported, or it does not fit. */
static bool measure_up(gg_call *c, const stem *k, shape *s, gg_window *w)
{
	const gg_shape *x = &c->in[0].shape, *y = &c->out[0].shape;
	if (!gg_window_conv(c->d, c->node, x, &c->in[1].shape, w))
		return false;
	*s = (shape){.batch = (int)x->dim[0],
	             .cin = (int)x->dim[1],
	             .ih = (int)x->dim[2],
	             .iw = (int)x->dim[3],
	             .kh = (int)w->kernel[0],
	             .up = (int)w->begin[0],
	             .left = (int)(w->begin[1] + 1) / 2 * 2,
	             .oh = (int)k->between.shape.dim[2],
	             .ow = (int)k->between.shape.dim[3],
	             .ph = (int)y->dim[2],
	             .pw = (int)y->dim[3]};
	s->groups = ((s->pw + 6) / 7 + 3) / 4 * 4;
	int reach = (14 * s->groups + 8) * 4, row = (s->iw + 16) * 2;
	s->pitch = ((reach > row ? reach : row) + 15) / 16 * 16;
	return cuda_sm == 90 && s->groups <= 16 && choose_rows(s);
}

/* ---- preparing ------------------------------------------------------------------------------------ */

static bool pack_weight(gg_call *c, stem *k, const shape *s, const gg_window *w)
{
	int kw = (int)w->kernel[1], shift = s->left - (int)w->begin[1];
	size_t bytes = (size_t)weight_bytes(s);
	uint16_t *p = gg_xcalloc(bytes, 1);
	const uint16_t *from = c->in[1].data;
	for (int n = 0; n < COUT; n++)
		for (int j = 0; j < pairs(s); j++)
			memcpy(p + j / 8 * 4096 + n * 64 + ((j % 8) ^ (n & 7)) * 8 + shift,
			       from + (n * pairs(s) + j) * kw, (size_t)kw * 2);
	k->weight = cuda_device.alloc(c->d, bytes, c->in_value[1]->name);
	bool good = k->weight && cuda_device.upload(c->d, k->weight, p, bytes);
	free(p);
	c->taken |= 2;
	return good;
}

static bool make(gg_call *c, stem *k, const shape *s)
{
	const char *half = cuda_type(c->out[0].dtype);
	int strips = (s->ph + s->rows - 1) / s->rows, threads = s->groups * 32;
	gg_buf b = {0}, t = {0};
	gg_buf_printf(&b,
	              "#define GG_EXACT_SM\n#define BD %d, %d\n#define INDEX unsigned\n#define T %s\n"
	              "#define HALF \"%s\"\n#define CIN %d\n#define IH %d\n#define IW %d\n#define KH %d\n"
	              "#define UP %d\n#define LEFT %d\n",
	              threads, s->groups > 8 ? 1 : 2, half, half, s->cin, s->ih, s->iw, s->kh, s->up,
	              s->left);
	gg_buf_printf(&b,
	              "#define OH %d\n#define OW %d\n#define PH %d\n#define PW %d\n#define PR %d\n"
	              "#define STRIPS %d\n#define GROUPS %d\n#define PITCH %d\n",
	              s->oh, s->ow, s->ph, s->pw, s->rows, strips, s->groups, s->pitch);
	gg_buf_printf(&t, "%s%s", cuda_tensor_text, cuda_hopper_text);
	cuda_put_wgmma(&t, "multiply", half, COUT, true, false);
	gg_buf_printf(&t, "%s%s", common, text);
	bool good = cuda_compile(c->d, b.p, t.p, &k->k);
	k->k.block = (unsigned)threads;
	k->k.grid = (unsigned)(s->batch * strips);
	gg_buf_fini(&b);
	gg_buf_fini(&t);
	return good && cuda_share(c->d, &k->k, (unsigned)shared_bytes(s, s->rows));
}

static size_t take(gg_call *c, size_t bytes)
{
	size_t at = c->workspace;
	c->workspace = cuda_round(at + bytes);
	return at;
}

static const uint8_t nhwc = GG_NHWC;
static const bool changes;

/* The call's two parts, whose tensors are the call's own but for the one between. */
static bool divide(gg_call *c, stem *k)
{
	gg_window w;
	const gg_shape *x = &c->in[0].shape;
	gg_node *const *out = (gg_node *const *)&c->cover[c->ncover - 2];
	if (!gg_window_conv(c->d, c->node, x, &c->in[1].shape, &w))
		return false;
	k->between = (gg_tensor){c->out[0].dtype, gg_window_shape(&w, x->dim[0], c->in[1].shape.dim[0]),
	                         NULL};
	k->conv = k->pool = *c;
	k->conv.state = k->pool.state = NULL;
	k->conv.ncover = c->ncover - 1;
	k->conv.out = k->pool.in = &k->between;
	k->conv.out_value = k->pool.in_value = (*out)->out;
	k->conv.out_layout = k->pool.in_layout = &nhwc;
	k->pool.node = c->cover[c->ncover - 1];
	k->pool.cover = &c->cover[c->ncover - 1];
	k->pool.ncover = k->pool.nin = 1;
	k->pool.in_const = &changes;
	return true;
}

static bool prepare_parts(gg_call *c, stem *k)
{
	bool good = cuda_conv.prepare(&k->conv) && cuda_pool.prepare(&k->pool);
	c->taken |= k->conv.taken;
	k->at = take(c, gg_nbytes(&k->between));
	k->at_conv = take(c, k->conv.workspace);
	k->at_pool = take(c, k->pool.workspace);
	return good;
}

bool cuda_stem_prepare(gg_call *c)
{
	stem *k = c->state = gg_xcalloc(1, sizeof *k);
	gg_window w;
	shape s;
	if (!divide(c, k))
		return false;
	if (!gg_count(&c->out[0]) || !measure_up(c, k, &s, &w))
		return prepare_parts(c, k);
	if (!cuda_conv_norm(&k->conv, &k->norm))
		return false;
	return k->norm ? pack_weight(c, k, &s, &w) && make(c, k, &s) : prepare_parts(c, k);
}

/* ---- running -------------------------------------------------------------------------------------- */

bool cuda_stem_run(gg_call *c)
{
	stem *k = c->state;
	char *scratch = c->scratch;
	if (k->k.f) {
		void *arg[] = {c->in[0].data, k->weight, k->norm, (char *)k->norm + cuda_round(COUT * 4),
		               c->out[0].data};
		return cuda_launch(c->d, &k->k, 5, arg);
	}
	k->between.data = scratch + k->at;
	k->conv.scratch = scratch + k->at_conv;
	k->pool.scratch = scratch + k->at_pool;
	return cuda_conv.run(&k->conv) && cuda_pool.run(&k->pool);
}

void cuda_stem_release(gg_call *c)
{
	stem *k = c->state;
	if (!k)
		return;
	cuda_conv.release(&k->conv);
	cuda_pool.release(&k->pool);
	if (k->weight)
		cuda_device.release(k->weight);
	if (k->norm)
		cuda_device.release(k->norm);
	free(k);
}
