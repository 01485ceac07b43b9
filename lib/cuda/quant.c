/* QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear, rounded where the reference rounds. */
#include "cuda.h"
#include "../move.h"
#include "../opkit.h"
#include <stdlib.h>
#include <string.h>

typedef struct quant {
	cuda_kernel k, range; /* range: of what is quantised by its own range */
} quant;

static void release(gg_call *c) { free(c->state); }

/* ---- by a scale that is given ------------------------------------------------------------------ */

/* Element i has the scale of its place on one axis, or all have one. */
static const char place_text[] = "#define AT (N == 1 ? 0 : i / STEP % N)\n"
                                 "#define SCALE ((double)ld(scale[AT]))\n"
                                 "#define ZERO (zero ? (double)ld(zero[AT]) : 0.0)\n";

/* In the precision P: x, the scale and the quotient. What a half type divides in float is rounded once. */
static const char quantise_text[] =
    "FN float near(double x) { return ld(st(x, is<P>())); }\n"
    "KERNEL(const X *x, const S *scale, const Y *zero, Y *y)\n{\nSPREAD(i, TOTAL) {\n"
    "\tconst float q = near(near((double)ld(x[i])) / near(SCALE));\n"
    "\tconst double z = ZERO, v = q != q ? z : rint((double)q) + z;\n"
    "\ty[i] = (Y)(v < LO ? LO : v > HI ? HI : v);\n}\n}\n";

static const char dequantise_text[] = "KERNEL(const X *x, const S *scale, const X *zero, Y *y)\n{\n"
                                      "SPREAD(i, TOTAL)\n"
                                      "\ty[i] = st(((double)ld(x[i]) - ZERO) * SCALE, is<Y>());\n}\n";

static void put_range(gg_buf *b, gg_dtype t)
{
	int bits = gg_dtype_bits(t), sign = gg_dtype_class(t) == 'I';
	gg_buf_printf(b, "#define LO %lld.0\n#define HI %lld.0\n", sign ? -(1LL << (bits - 1)) : 0LL,
	              (1LL << (bits - sign)) - 1);
}

static bool prepare(gg_call *c)
{
	const gg_shape *x = &c->in[0].shape;
	bool one = gg_count(&c->in[1]) == 1, back = !strcmp(c->node->op->name, "DequantizeLinear");
	gg_dtype s = c->in[1].dtype, p = back ? GG_NONE : gg_get_dtype(c->node, "precision");
	int64_t stride[GG_MAX_RANK], total = gg_count(&c->out[0]);
	int axis = one ? 0 : gg_eval_axis(gg_get_int(c->node, "axis"), x->rank);
	quant *k = c->state = gg_xcalloc(1, sizeof *k);
	gg_buf b = {0}, text = {0};
	if (!total)
		return true;
	p = p ? p : gg_dtype_class(s) == 'F' ? s : GG_F32;
	cuda_strides(x, (gg_layout)c->in_layout[0], x, GG_PLAIN, stride);
	gg_buf_printf(&b,
	              "#define INDEX unsigned%s\n#define X %s\n#define S %s\n#define Y %s\n#define P %s\n"
	              "#define TOTAL %lluu\n#define N %lldu\n#define STEP %lldu\n",
	              total >> 31 ? " long" : "", cuda_type(c->in[0].dtype), cuda_type(s),
	              cuda_type(c->out[0].dtype), cuda_type(p), (unsigned long long)total,
	              (long long)(one ? 1 : x->dim[axis]),
	              (long long)(one || x->dim[axis] == 1 ? 1 : stride[axis]));
	if (!back)
		put_range(&b, c->out[0].dtype);
	gg_buf_printf(&text, "%s%s", place_text, back ? dequantise_text : quantise_text);
	cuda_spread(&k->k, total, 256);
	bool good = cuda_compile(c->d, b.p, text.p, &k->k);
	gg_buf_fini(&b);
	gg_buf_fini(&text);
	return good;
}

static bool run(gg_call *c)
{
	const quant *k = c->state;
	void *arg[] = {c->in[0].data, c->in[1].data, c->nin > 2 ? c->in[2].data : NULL, c->out[0].data};
	return !k->k.f || cuda_launch(c->d, &k->k, 4, arg);
}

const gg_kernel cuda_quantise = {"cuda_quantise", prepare, run, release};

/* ---- by its own range -------------------------------------------------------------------------- */

/* Blocks find the least and the largest of their shares; then each block folds what all have found. */
static const char range_text[] =
    "typedef vec<float, 2> range;\n"
    "struct less { template <class Q> FN0 Q operator()(Q a, Q b) const { return a < b ? a : b; } };\n"
    "struct more { template <class Q> FN0 Q operator()(Q a, Q b) const { return a > b ? a : b; } };\n"
    "#define FOLD(from, to, step, lo, hi) float least = 0, most = 0;"
    " for (INDEX i = (from); i < (to); i += (step)) {"
    " const float a = lo, b = hi; least = a < least ? a : least; most = b > most ? b : most; }"
    " least = fold_block(least, 0.0f, less()); most = fold_block(most, 0.0f, more());\n";

static const char find_text[] =
    "KERNEL(const float *x, range *part)\n{\n"
    "\tFOLD(blockIdx.x * (INDEX)BLOCK + LANE, TOTAL, (INDEX)BLOCK * gridDim.x, x[i], x[i])\n"
    "\tif (LANE == 0) part[blockIdx.x] = range{{least, most}};\n}\n";

static const char use_text[] =
    "KERNEL(const float *x, const range *part, u8 *y, float *scale, u8 *zero)\n{\n"
    "\tFOLD(LANE, PARTS, BLOCK, part[i].v[0], part[i].v[1])\n"
    "\tconst float s = most == least ? 1 : (most - least) / 255, low = 0 - least / s;\n"
    "\tconst float z = rint(low > 255 ? 255.0f : low > 0 ? low : 0.0f);\n"
    "\tif (blockIdx.x == 0 && LANE == 0) { *scale = s; *zero = (u8)z; }\n"
    "\tSPREAD(i, TOTAL) {\n"
    "\t\tconst float q = rint(x[i] / s) + z;\n"
    "\t\ty[i] = q > 255 ? 255 : q > 0 ? (u8)q : 0;\n\t}\n}\n";

static bool build(gg_call *c, cuda_kernel *k, unsigned parts, const char *what)
{
	int64_t total = gg_count(&c->in[0]);
	gg_buf b = {0}, text = {0};
	gg_buf_printf(&b,
	              "#define BD 256\n#define INDEX unsigned%s\n#define TOTAL %lluu\n#define PARTS %uu\n",
	              total >> 31 ? " long" : "", (unsigned long long)total, parts);
	gg_buf_printf(&text, "%s%s", range_text, what);
	bool good = cuda_compile(c->d, b.p, text.p, k);
	gg_buf_fini(&b);
	gg_buf_fini(&text);
	return good;
}

static bool prepare_dynamic(gg_call *c)
{
	quant *k = c->state = gg_xcalloc(1, sizeof *k);
	int64_t total = gg_count(&c->in[0]);
	cuda_spread(&k->range, (total + 15) / 16, 256);
	cuda_spread(&k->k, total, 256);
	c->workspace = k->range.grid * 2 * sizeof(float);
	return build(c, &k->range, 0, find_text) && build(c, &k->k, k->range.grid, use_text);
}

static bool run_dynamic(gg_call *c)
{
	const quant *k = c->state;
	void *find[] = {c->in[0].data, c->scratch};
	void *use[] = {c->in[0].data, c->scratch, c->out[0].data, c->out[1].data, c->out[2].data};
	return cuda_launch(c->d, &k->range, 2, find) && cuda_launch(c->d, &k->k, 5, use);
}

const gg_kernel cuda_quantise_dynamic = {"cuda_quantise_dynamic", prepare_dynamic, run_dynamic, release};
