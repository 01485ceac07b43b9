/* RNN, GRU and LSTM. The inputs' part of all gates and steps is one product; then a step of both directions
 * is a launch, so that nothing has to wait inside a kernel:
 *
 *     x W' ────────────────────┐ (workspace)
 *     start ── h0 ── step 0 ── step 1 ── ... ── step T-1       h of a step lies in two places in turn
 *                      │ a block: 16 rows of R (all gates of its units) times h of up to 32 entries,
 *                      │ the warps side by side along h; then its units' cells
 *                      └▶ Y
 *
 * GRU's last gate reads r * h of all units, unless linear_before_reset is set: its step is two launches.
 * The product is one of tensor cores: of halves as they are, of f32 in three parts that keep its precision
 * (one with tf32). Where rows of R do not end at 16 bytes, and in f64, a warp takes one sum after another. */
#include "cuda.h"
#include "../recur.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 256, ROWS = 16, ENTRIES = 32, AHEAD = 8 };

typedef struct recur {
	const gg_recur_op *op;
	bool split, tf32, none; /* split: two launches a step */
	gg_dtype dtype;
	int64_t seq, batch, in, hidden, dirs;
	cuda_product *inputs;
	cuda_kernel start, step[2];
	/* In the workspace: the inputs' part, h twice, c or an exact h, GRU's z and r * h, and the product's.
	 */
	size_t at_h[2], at_own, at_z, at_rh, at_product;
} recur;

/* ---- generated source -------------------------------------------------------------------------- */

static const char squash_text[] =
    "FN C Relu(C x, C a, C b) { return x < 0 ? (C)0 : x; }\n"
    "FN C Tanh(C x, C a, C b) { return tanh(x); }\n"
    "FN C Sigmoid(C x, C a, C b) { return 1 / (1 + exp(-x)); }\n"
    "FN C Affine(C x, C a, C b) { return a * x + b; }\n"
    "FN C LeakyRelu(C x, C a, C b) { return x < 0 ? a * x : x; }\n"
    "FN C ThresholdedRelu(C x, C a, C b) { return x >= a || x != x ? x : (C)0; }\n"
    "FN C ScaledTanh(C x, C a, C b) { return a * tanh(b * x); }\n"
    "FN C HardSigmoid(C x, C a, C b) { x = a * x + b; return x < 0 ? (C)0 : x > 1 ? (C)1 : x; }\n"
    "FN C Elu(C x, C a, C b) { return x < 0 ? a * expm1(x) : x; }\n"
    "FN C Softsign(C x, C a, C b) { return x / (1 + (x < 0 ? -x : x)); }\n"
    "FN C Softplus(C x, C a, C b) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }\n"
    "FN C within(C x, C most) { return x > most ? most : x < -most ? -most : x; }\n";

static const char start_text[] =
    "KERNEL(const T *h0, const T *c0, M *h, C *own, T *yh, T *yc)\n{\n"
    "SPREAD(i, DIRS * B * H) {\n"
    "\tconst long u = i % H, b = i / H % B, dir = i / H / B, from = STATE(dir, b) + u;\n"
    "\tconst C x = h0 ? (C)ld(h0[from]) : 0, c = c0 ? (C)ld(c0[from]) : 0;\n"
    "\th[i] = st(x, is<M>());\n"
    "\tif (own) own[i] = MEMORY ? c : x;\n"
    "\tif (yh) yh[from] = st(x, is<T>());\n"
    "\tif (yc) yc[from] = st(c, is<T>());\n"
    "}\n}\n";

/* Places of a lane in the factors of mma: rows lane / 4 and 8 below, and one of four pieces of 16 bytes of
 * each 64. In which order a product takes its terms is free, as long as both factors take the same. */
static const char multiply_text[] =
    "#ifdef GG_HOST\n#undef TENSOR\n#define TENSOR 0\n#define STRIDE 1\n#define WARP 0\n#define WARPS 1\n"
    "#define INWARP 0\n#define CELLS (UNITS * NB)\n"
    "#else\n#define STRIDE 32\n#define WARP (LANE / 32)\n#define WARPS (BD / 32)\n#define INWARP (LANE % "
    "32)\n"
    "#define CELLS ((UNITS * NB + BD - 1) / BD)\n#endif\n"
    "#define PARTS (TENSOR ? WARPS : 1)\n"
    "#if TENSOR\n"
    "#if PIECES\n"
    "FN u32 tf32(float x) { u32 u; asm(\"cvt.rna.tf32.f32 %0, %1;\" : \"=r\"(u) : \"f\"(x)); return u; }\n"
    "FN u32 rest(u32 x, u32 top) { const float r = __uint_as_float(x) - __uint_as_float(top);"
    " return tf32(r - r == 0 ? r : 0); }\n"
    "FN void one(float *d, const u32 *a, const u32 *b) {"
    " asm volatile(\"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3},"
    " {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\""
    " : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3])"
    " : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1])); }\n"
    "FN void multiply(float *d, const u32 *a, const u32 *b) {\n"
    "\tu32 p[4], q[2], r[4], s[2];\n"
    "\tfor (int i = 0; i < 4; i++) { p[i] = tf32(__uint_as_float(a[i])); r[i] = rest(a[i], p[i]); }\n"
    "\tfor (int i = 0; i < 2; i++) { q[i] = tf32(__uint_as_float(b[i])); s[i] = rest(b[i], q[i]); }\n"
    "\tif (PIECES > 1) { one(d, r, q); one(d, p, s); }\n"
    "\tone(d, p, q);\n}\n"
    "#endif\n"
    "FN w128 piece(const u8 *p, int i) {\n"
    "\tconst int at = (i * WARPS + WARP) * 64; w128 v = {{0, 0, 0, 0}};\n"
    "\tif (at + LANE % 4 * 16 < BYTES) v = *(const w128 *)(p + at);\n"
    "\treturn v;\n}\n"
    "FN void multiply_all(float (*d)[4], const u8 *a0, const u8 *a1, const u8 *const *b) {\n"
    "\tfor (int i0 = 0; i0 < CHUNKS; i0 += AHEAD) {\n"
    "\t\tw128 x[AHEAD], y[AHEAD];\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int i = 0; i < AHEAD; i++) { x[i] = piece(a0, i0 + i); y[i] = piece(a1, i0 + i); }\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int i = 0; i < AHEAD; i++) {\n"
    "\t\t\tconst u32 lo[4] = {x[i].v[0], y[i].v[0], x[i].v[1], y[i].v[1]};\n"
    "\t\t\tconst u32 hi[4] = {x[i].v[2], y[i].v[2], x[i].v[3], y[i].v[3]};\n"
    "\t\t\t#pragma unroll\n"
    "\t\t\tfor (int j = 0; j < NB / 8; j++) {\n"
    "\t\t\t\tconst w128 v = piece(b[j], i0 + i);\n"
    "\t\t\t\tmultiply(d[j], lo, v.v); multiply(d[j], hi, v.v + 2);\n"
    "\t\t\t}\n\t\t}\n\t}\n}\n"
    "#endif\n";

/* x: what the inputs give. at: the number of the step, in place of an address. */
static const char step_text[] =
    "#define LENGTH(b) (lens ? lens[b] < 0 ? 0L : lens[b] > SEQ ? SEQ : (long)lens[b] : SEQ)\n"
    "#define ROW(m) (r + ((dir * ALL + FIRST + ((m) / UNITS < GATES ? (m) / UNITS : GATES - 1)) * H"
    " + (u0 + (m) % UNITS < H ? u0 + (m) % UNITS : H - 1)) * H)\n"
    "#define CELL(e) const int i_ = LANE + (e) * BLOCK, k = i_ % UNITS, j = i_ / UNITS;"
    " const long u = u0 + k, b = b0 + j; if (j >= NB || u >= H || b >= B) continue;"
    " const long n = LENGTH(b); const bool live = s < n; const long t = live && back ? n - 1 - s : s;\n"
    "KERNEL(const T *x, const T *r, const T *bias, const T *peep, const i32 *lens, const M *h, M *next, C "
    "*own,"
    " C *z, T *y, T *yh, T *yc, const u8 *at)\n{\n"
    "\tSHARED C sums[PARTS * 16 * PITCH];\n"
    "\tconst long s = (long)at, dir = blockIdx.x / TILES % DIRS, u0 = blockIdx.x % TILES * (long)UNITS,"
    " b0 = blockIdx.x / (TILES * DIRS) * (long)NB;\n"
    "\tconst bool back = dir || BACK;\n"
    "\tC in[CELLS][GATES];\n"
    "\t#pragma unroll\n"
    "\tfor (int e = 0; e < CELLS; e++) {\n"
    "\t\tCELL(e)\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int g = 0; g < GATES; g++) {\n"
    "\t\t\tconst long row = FIRST + g;\n"
    "\t\t\tin[e][g] = (C)ld(x[(INPUT(t, b) * DIRS + dir) * (ALL * H) + row * H + u])"
    " + (bias ? (C)ld(bias[(dir * 2 * ALL + row) * H + u]) : 0);\n"
    "\t\t}\n\t}\n"
    "#if TENSOR\n"
    "\tfloat d[NB / 8][4] = {};\n"
    "\tconst u8 *b[NB / 8];\n"
    "\tconst long from = LANE % 4 * 16, row = INWARP / 4;\n"
    "\tfor (int j = 0; j < NB / 8; j++) { const long e = b0 + j * 8 + row;"
    " b[j] = (const u8 *)(h + (dir * B + (e < B ? e : B - 1)) * H) + from; }\n"
    "\tmultiply_all(d, (const u8 *)ROW(row) + from, (const u8 *)ROW(row + 8) + from, b);\n"
    "\tC *to = sums + (WARP * 16 + row) * PITCH + LANE % 4 * 2;\n"
    "\t#pragma unroll\n"
    "\tfor (int j = 0; j < NB / 8; j++, to += 8) {"
    " to[0] = d[j][0]; to[1] = d[j][1]; to[8 * PITCH] = d[j][2]; to[8 * PITCH + 1] = d[j][3]; }\n"
    "#else\n"
    "\tfor (int i = WARP; i < GATES * UNITS * NB; i += WARPS) {\n"
    "\t\tconst int m = i / NB, j = i % NB;\n"
    "\t\tif (b0 + j >= B) continue;\n"
    "\t\tconst T *p = ROW(m); const M *q = h + (dir * B + b0 + j) * H;\n"
    "\t\tC sum = 0;\n"
    "\t\tfor (long e = INWARP; e < H; e += STRIDE) sum += (C)ld(p[e]) * (C)ld(q[e]);\n"
    "#ifndef GG_HOST\n"
    "\t\tfor (int w = 16; w; w >>= 1) sum += __shfl_xor_sync(~0u, sum, w);\n"
    "#endif\n"
    "\t\tif (INWARP == 0) sums[m * PITCH + j] = sum;\n"
    "\t}\n"
    "#endif\n"
    "\tMEET();\n"
    "\t#pragma unroll\n"
    "\tfor (int e = 0; e < CELLS; e++) {\n"
    "\t\tCELL(e)\n"
    "\t\tconst long i = (dir * B + b) * H + u;\n"
    "\t\tC p[GATES], old = 0, now;\n"
    "\t\tif (own) old = own[i];\n"
    "\t\t#pragma unroll\n"
    "\t\tfor (int g = 0; g < GATES; g++) {\n"
    "\t\t\tp[g] = bias ? (C)ld(bias[(dir * 2 * ALL + ALL + FIRST + g) * H + u]) : 0;\n"
    "\t\t\tfor (int w = 0; w < PARTS; w++) p[g] += sums[(w * 16 + g * UNITS + k) * PITCH + j];\n"
    "\t\t}\n"
    "#define GATE(f, g) f(in[e][g] + p[g], dir)\n"
    "#define PEEP(g) (peep ? (C)ld(peep[(dir * 3 + g) * H + u]) * old : (C)0)\n";

/* What follows: the cell makes `now` of gates, and a new `old` of it. */
static const char rnn_text[] = "\t\tnow = GATE(f0, 0);\n";
static const char lstm_text[] = "\t\tconst C ig = f0(in[e][0] + p[0] + PEEP(0), dir);\n"
                                "\t\tconst C fg = FLAG ? 1 - ig : f0(in[e][2] + p[2] + PEEP(2), dir);\n"
                                "\t\told = fg * old + ig * GATE(f1, 3);\n"
                                "\t\tnow = f0(in[e][1] + p[1] + PEEP(1), dir) * f2(old, dir);\n";
static const char gru_text[] = "\t\tconst C zg = GATE(f0, 0), hg = f1(in[e][2] + GATE(f0, 1) * p[2], dir);\n"
                               "\t\told = now = (1 - zg) * hg + zg * old;\n";
static const char gru_reset_text[] =
    "\t\tz[i] = GATE(f0, 0); next[i] = st(GATE(f0, 1) * old, is<M>());\n\t}\n}\n";
static const char gru_last_text[] = "\t\told = now = (1 - z[i]) * GATE(f1, 0) + z[i] * old;\n";

static const char end_text[] = "\t\tif (own) own[i] = old;\n"
                               "\t\tnext[i] = st(live ? now : 0, is<M>());\n"
                               "\t\tif (y) y[OUTPUT(t, dir, b) + u] = st(live ? now : 0, is<T>());\n"
                               "\t\tif (s != n - 1) continue;\n"
                               "\t\tif (yh) yh[STATE(dir, b) + u] = st(now, is<T>());\n"
                               "\t\tif (yc) yc[STATE(dir, b) + u] = st(old, is<T>());\n"
                               "\t}\n}\n";

static void put_activations(const gg_call *c, const recur *k, gg_buf *b)
{
	gg_squash act[6];
	gg_recur_activations(c->node, k->op, (int)k->dirs * k->op->funcs, act);
	for (int i = 0; i < k->op->funcs; i++) {
		gg_buf_printf(b, "FN C f%d(C x, long dir) {\n", i);
		for (int64_t dir = k->dirs; dir-- > 0;) {
			const gg_squash *a = &act[dir * k->op->funcs + i];
			gg_buf_printf(b, dir ? "\tif (dir) return " : "\treturn ");
			/* what a memory passes on its way out is not clipped */
			if (isfinite(a->clip) && i < 2)
				gg_buf_printf(b, "%s(within(x, (C)real(%lluull)), ", a->name,
				              cuda_bits(a->clip));
			else
				gg_buf_printf(b, "%s(x, ", a->name);
			gg_buf_printf(b, "(C)real(%lluull), (C)real(%lluull));\n", cuda_bits(a->alpha),
			              cuda_bits(a->beta));
		}
		gg_buf_str(b, "}\n");
	}
}

static void put_defines(const gg_call *c, const recur *k, gg_buf *b)
{
	const char *t = cuda_type(k->dtype);
	bool last = gg_get_int(c->node, "layout");
	gg_buf_printf(b,
	              "#define BD %d\n#define INDEX unsigned long\n#define T %s\n#define M T\n#define C %s\n"
	              "#define B %lldL\n#define H %lldL\n#define SEQ %lldL\n#define DIRS %lldL\n"
	              "#define ALL %d\n#define MEMORY %d\n#define BACK %d\n#define FLAG %d\n",
	              THREADS, t, cuda_compute(k->dtype), (long long)k->batch, (long long)k->hidden,
	              (long long)k->seq, (long long)k->dirs, k->op->gates, k->op->memory,
	              !strcmp(gg_get_string(c->node, "direction"), "reverse"),
	              k->op->flag && gg_get_int(c->node, k->op->flag));
	gg_buf_str(b, last ? "#define INPUT(t, b) ((b) * SEQ + (t))\n"
	                     "#define OUTPUT(t, dir, b) ((((b) * SEQ + (t)) * DIRS + (dir)) * H)\n"
	                     "#define STATE(dir, b) (((b) * DIRS + (dir)) * H)\n"
	                   : "#define INPUT(t, b) ((t) * B + (b))\n"
	                     "#define OUTPUT(t, dir, b) ((((t) * DIRS + (dir)) * B + (b)) * H)\n"
	                     "#define STATE(dir, b) (((dir) * B + (b)) * H)\n");
}

/* Gates `first` and up to `gates` of them, with the cell's text and what ends it. */
static bool make_step(gg_call *c, const recur *k, int first, int gates, const char *cell, const char *end,
                      cuda_kernel *to)
{
	int64_t units = ROWS / gates, tiles = (k->hidden + units - 1) / units;
	int64_t entries = k->batch < ENTRIES ? gg_round_up((size_t)k->batch, 8) : ENTRIES;
	int64_t bytes = k->hidden * (int64_t)gg_dtype_size(k->dtype), warps = THREADS / 32;
	int64_t chunks = ((bytes + 63) / 64 + warps - 1) / warps;
	bool tensor = k->dtype != GG_F64 && bytes % 16 == 0 && cuda_sm >= 80;
	gg_buf b = {0}, s = {0};
	put_defines(c, k, &b);
	gg_buf_printf(&b,
	              "#define FIRST %d\n#define GATES %d\n#define UNITS %d\n#define TILES %lld\n"
	              "#define NB %d\n#define PITCH %d\n#define BYTES %lld\n#define CHUNKS %lld\n"
	              "#define AHEAD %lld\n#define TENSOR %d\n#define PIECES %d\n#define HALF \"%s\"\n",
	              first, gates, (int)units, (long long)tiles, (int)entries, (int)entries + 8,
	              (long long)bytes, (long long)chunks, (long long)(chunks < AHEAD ? chunks : AHEAD),
	              tensor,
	              k->dtype != GG_F32 ? 0
	              : k->tf32          ? 1
	                                 : 3,
	              cuda_type(k->dtype));
	if (tensor && k->dtype != GG_F32)
		gg_buf_str(&s, cuda_tensor_text);
	gg_buf_printf(&s, "%s%s", squash_text, multiply_text);
	put_activations(c, k, &s);
	gg_buf_printf(&s, "%s%s%s", step_text, cell, end);
	to->block = THREADS;
	to->grid = (unsigned)(tiles * k->dirs * ((k->batch + entries - 1) / entries));
	bool good = cuda_compile(c->d, b.p, s.p, to);
	gg_buf_fini(&b);
	gg_buf_fini(&s);
	return good;
}

static bool make_steps(gg_call *c, recur *k)
{
	if (k->split)
		return make_step(c, k, 0, 2, gru_reset_text, "", &k->step[0]) &&
		       make_step(c, k, 2, 1, gru_last_text, end_text, &k->step[1]);
	const char *cell = k->op == &gg_recur_rnn ? rnn_text : k->op == &gg_recur_gru ? gru_text : lstm_text;
	return make_step(c, k, 0, k->op->gates, cell, end_text, &k->step[0]);
}

static bool make_start(gg_call *c, recur *k)
{
	gg_buf b = {0};
	put_defines(c, k, &b);
	cuda_spread(&k->start, k->dirs * k->batch * k->hidden, THREADS);
	bool good = cuda_compile(c->d, b.p, start_text, &k->start);
	gg_buf_fini(&b);
	return good;
}

/* ---- the kernel -------------------------------------------------------------------------------- */

static bool has_in(const gg_call *c, int i) { return i < c->nin && c->in[i].dtype; }
static void *in(const gg_call *c, int i) { return has_in(c, i) ? c->in[i].data : NULL; }
static void *out(const gg_call *c, int i) { return i < c->nout && c->out[i].dtype ? c->out[i].data : NULL; }

static size_t take(size_t *at, int64_t n, size_t size)
{
	size_t from = *at;
	*at += cuda_round((size_t)n * size);
	return from;
}

/* The inputs' part stands first. */
static void share_workspace(gg_call *c, recur *k)
{
	int64_t state = k->dirs * k->batch * k->hidden;
	size_t size = gg_dtype_size(k->dtype), wide = k->dtype == GG_F64 ? 8 : 4, at = 0;
	take(&at, k->seq * state * k->op->gates, size);
	for (int i = 0; i < 2; i++)
		k->at_h[i] = take(&at, state, size);
	k->at_own = take(&at, k->op == &gg_recur_rnn ? 0 : state, wide);
	k->at_z = take(&at, k->split ? state : 0, wide);
	k->at_rh = take(&at, k->split ? state : 0, size);
	k->at_product = at;
	c->workspace = at + (k->inputs ? cuda_product_workspace(k->inputs) : 0);
}

static bool prepare(gg_call *c, bool tf32)
{
	recur *k = c->state = gg_xcalloc(1, sizeof *k);
	const gg_shape *x = &c->in[GG_RECUR_X].shape, *r = &c->in[GG_RECUR_R].shape;
	const char *name = c->node->op->name;
	bool last = gg_get_int(c->node, "layout");
	gg_eval e = {.n = c->node, .d = c->d, .nin = c->nin, .nout = c->nout, .in = c->in, .out = c->out};
	k->op = !strcmp(name, "RNN") ? &gg_recur_rnn : !strcmp(name, "GRU") ? &gg_recur_gru : &gg_recur_lstm;
	k->split = k->op == &gg_recur_gru && !gg_get_int(c->node, "linear_before_reset");
	k->tf32 = tf32;
	k->dtype = c->in[GG_RECUR_X].dtype;
	k->seq = x->dim[last];
	k->batch = x->dim[!last];
	k->in = x->dim[2];
	k->dirs = r->dim[0];
	k->hidden = r->dim[2];
	k->none = !k->batch || !k->hidden;
	if (has_in(c, GG_RECUR_LENS) && c->in_const[GG_RECUR_LENS] && !gg_recur_lengths(&e, k->seq))
		return false;
	if (k->none)
		return true;
	if (k->seq && (!cuda_product_new(c, tf32, k->dtype, k->seq * k->batch,
	                                 k->dirs * k->op->gates * k->hidden, k->in, &k->inputs) ||
	               !make_steps(c, k)))
		return false;
	share_workspace(c, k);
	return make_start(c, k);
}

static bool prepare_strict(gg_call *c) { return prepare(c, false); }
static bool prepare_tf32(gg_call *c) { return prepare(c, true); }

static bool run_step(gg_call *c, const recur *k, int64_t s)
{
	char *room = c->scratch, *h = room + k->at_h[s % 2], *next = room + k->at_h[(s + 1) % 2];
	char *rh = room + k->at_rh, *own = k->op == &gg_recur_rnn ? NULL : room + k->at_own;
	void *arg[] = {room,
	               in(c, GG_RECUR_R),
	               in(c, GG_RECUR_B),
	               in(c, GG_RECUR_P),
	               in(c, GG_RECUR_LENS),
	               h,
	               k->split ? rh : next,
	               own,
	               room + k->at_z,
	               out(c, 0),
	               out(c, 1),
	               out(c, 2),
	               (void *)(uintptr_t)s};
	enum { NARGS = sizeof arg / sizeof *arg };
	if (!cuda_launch(c->d, &k->step[0], NARGS, arg))
		return false;
	arg[5] = rh;
	arg[6] = next;
	return !k->split || cuda_launch(c->d, &k->step[1], NARGS, arg);
}

static bool run(gg_call *c)
{
	const recur *k = c->state;
	char *room = c->scratch;
	if (k->none)
		return true;
	void *arg[] = {in(c, GG_RECUR_H0), k->op->memory ? in(c, GG_RECUR_C0) : NULL,
	               room + k->at_h[0],  k->op == &gg_recur_rnn ? NULL : room + k->at_own,
	               out(c, 1),          out(c, 2)};
	bool good = !k->seq || cuda_product_run(k->inputs, in(c, GG_RECUR_X), in(c, GG_RECUR_W), room,
	                                        room + k->at_product);
	good = good && cuda_launch(c->d, &k->start, 6, arg);
	for (int64_t s = 0; s < k->seq && good; s++)
		good = run_step(c, k, s);
	return good;
}

static void release(gg_call *c)
{
	recur *k = c->state;
	if (k)
		cuda_product_free(k->inputs);
	free(k);
}

const gg_kernel cuda_recur = {"cuda_recur", prepare_strict, run, release};
const gg_kernel cuda_recur_tf32 = {"cuda_recur_tf32", prepare_tf32, run, release};
