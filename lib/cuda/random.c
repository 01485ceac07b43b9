/* Ops that draw: the numbers of lib/dtype.c, each from the seed and its place. All arithmetic on the way is
 * rounded as there, never two steps at once, so that they are the same bit for bit; but Multinomial sums
 * exponentials, whose last bits may differ. */
#include "cuda.h"
#include "../move.h"
#include <stdlib.h>
#include <string.h>

static const char draw_text[] =
    "#ifndef GG_HOST\n"
    "#define MUL(a, b) __dmul_rn(a, b)\n#define ADD(a, b) __dadd_rn(a, b)\n"
    "#else\n"
    "#define MUL(a, b) ((a) * (b))\n#define ADD(a, b) ((a) + (b))\n"
    "#endif\n"
    "FN u64 mix(u64 z) {\n"
    "\tz = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull; z = (z ^ z >> 27) * 0x94d049bb133111ebull;\n"
    "\treturn z ^ z >> 31;\n}\n"
    "FN u64 random_bits(u64 seed, u64 i) {\n"
    "\tconst u64 golden = 0x9e3779b97f4a7c15ull;\n"
    "\treturn mix(mix(seed + golden) + (i + 1) * golden);\n}\n"
    "FN double uniform(u64 seed, u64 i) { return (double)(random_bits(seed, i) >> 11) * 0x1p-53; }\n";

static const char normal_text[] =
    "FN double plain_log(double x) {\n"
    "\tint e; double m = frexp(x, &e), sum = 0;\n"
    "\tif (m < 0.70710678118654752) { m *= 2; e--; }\n"
    "\tconst double s = (m - 1) / (m + 1), z = MUL(s, s);\n"
    "\tfor (int k = 21; k > 0; k -= 2) sum = ADD(MUL(sum, z), 1.0 / k);\n"
    "\treturn ADD(MUL(2 * s, sum), MUL((double)e, 0.69314718055994531));\n}\n"
    "FN double ratio(double x, const double *num, const double *den) {\n"
    "\tdouble p = num[7], q = den[7];\n"
    "\tfor (int k = 6; k >= 0; k--) { p = ADD(MUL(p, x), num[k]); q = ADD(MUL(q, x), den[k]); }\n"
    "\treturn p / q;\n}\n"
    "FN double tail(double p) {\n"
    "\tconst double c[] = {1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,\n"
    "\t\t3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,\n"
    "\t\t2.27238449892691845833e-2, 7.74545014278341407640e-4};\n"
    "\tconst double d[] = {1, 2.05319162663775882187e0, 1.67638483018380384940e0, "
    "6.89767334985100004550e-1,\n"
    "\t\t1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,\n"
    "\t\t1.05075007164441684324e-9};\n"
    "\tconst double x = ratio(sqrt(-plain_log(p < 0.5 ? p : 1 - p)) - 1.6, c, d);\n"
    "\treturn p < 0.5 ? -x : x;\n}\n"
    "FN double normal(u64 seed, u64 i) {\n"
    "\tconst double a[] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,\n"
    "\t\t1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,\n"
    "\t\t3.3430575583588128105e4, 2.5090809287301226727e3};\n"
    "\tconst double b[] = {1, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,\n"
    "\t\t2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,\n"
    "\t\t5.2264952788528545610e3};\n"
    "\tconst double p = ((double)(i64)(random_bits(seed, i) >> 29) + 0.5) * 0x1p-35, q = p - 0.5;\n"
    "\treturn p < 0.075 || p > 0.925 ? tail(p) : MUL(q, ratio(ADD(0.180625, -MUL(q, q)), a, b));\n}\n";

/* from + by x of a number x, which `draw` makes from the seed and i. */
static void put_scaled(gg_buf *b, const char *draw, double from, double by)
{
	gg_buf_printf(b, "\ty[i] = st(ADD(real(%lluull), MUL(real(%lluull), %s(seed, i))), is<Y>());\n",
	              cuda_bits(from), cuda_bits(by), draw);
}

static bool has(const gg_call *c, int i) { return i < c->nout && c->out[i].dtype; }

/* False: reported. */
static bool put_dropout(gg_call *c, gg_buf *b)
{
	bool given = c->nin > 1 && c->in[1].dtype, mode = c->nin > 2 && c->in[2].dtype;
	if ((given && !c->in_const[1]) || (mode && !c->in_const[2]))
		return gg_node_error(c->d, GG_UNSUPPORTED, c->node,
		                     "its ratio or mode is not known before the run");
	c->taken |= 6;
	bool training = mode && gg_get_i64(&c->in[2], 0);
	double ratio = given ? gg_get_f64(&c->in[1], 0) : 0.5;
	if (training && !(ratio >= 0 && ratio < 1))
		return gg_node_error(c->d, GG_MALFORMED, c->node,
		                     "ratio is %g, expected a number from 0 to below 1", ratio);
	training = training && ratio != 0;
	if (training)
		gg_buf_printf(b, "\tconst bool keep = uniform(seed, i) >= real(%lluull);\n",
		              cuda_bits(ratio));
	else
		gg_buf_str(b, "\tconst bool keep = true;\n");
	gg_buf_printf(b, "\ty[i] = st(keep ? (double)ld(x[i]) / real(%lluull) : 0.0, is<Y>());\n",
	              cuda_bits(training ? 1 - ratio : 1));
	if (has(c, 1))
		gg_buf_str(b, "\tmask[i] = keep;\n");
	return true;
}

static bool put_draw(gg_call *c, gg_buf *b)
{
	const gg_node *n = c->node;
	const char *op = n->op->name;
	if (!strncmp(op, "RandomNormal", 12))
		put_scaled(b, "normal", gg_get_float(n, "mean"), gg_get_float(n, "scale"));
	else if (!strncmp(op, "RandomUniform", 13))
		put_scaled(b, "uniform", gg_get_float(n, "low"),
		           (double)gg_get_float(n, "high") - gg_get_float(n, "low"));
	else if (!strcmp(op, "Bernoulli"))
		gg_buf_str(b, "\ty[i] = st((float)(uniform(seed, i) < (double)ld(x[i])), is<Y>());\n");
	else
		return put_dropout(c, b);
	return true;
}

static bool prepare(gg_call *c)
{
	cuda_kernel *k = c->state = gg_xcalloc(1, sizeof *k);
	int64_t total = gg_count(&c->out[0]);
	const char *y = cuda_type(c->out[0].dtype);
	bool reads = !strcmp(c->node->op->name, "Bernoulli") || !strcmp(c->node->op->name, "Dropout");
	gg_buf defines = {0}, s = {0};
	gg_buf_printf(&defines, "#define INDEX unsigned long\n#define X %s\n#define Y %s\n",
	              reads ? cuda_type(c->in[0].dtype) : y, y);
	gg_buf_printf(
	    &s,
	    "%s%sKERNEL(const u64 *from, const X *x, Y *y, b8 *mask)\n{\n\tconst u64 seed = *from;\n"
	    "SPREAD(i, %lluul) {\n",
	    draw_text, normal_text, (unsigned long long)total);
	bool good = put_draw(c, &s);
	gg_buf_str(&s, "}\n}\n");
	cuda_spread(k, total, 256);
	good = good && (!total || cuda_compile(c->d, defines.p, s.p, k));
	gg_buf_fini(&defines);
	gg_buf_fini(&s);
	return good;
}

static void *seed_of(const gg_call *c)
{
	if (!c->seed_at)
		gg_bug("node '%s': it draws, and has no seed", gg_node_name(c->node));
	return (void *)(uintptr_t)c->seed_at;
}

static bool run(gg_call *c)
{
	const cuda_kernel *k = c->state;
	void *arg[] = {seed_of(c), c->nin ? c->in[0].data : NULL, c->out[0].data,
	               has(c, 1) ? c->out[1].data : NULL};
	return !k->f || cuda_launch(c->d, k, 4, arg);
}

static void release(gg_call *c) { free(c->state); }
const gg_kernel cuda_random = {"cuda_random", prepare, run, release};

/* ---- Multinomial ------------------------------------------------------------------------------- */

/* A block takes a row, a thread one sample after another. */
static const char classes_text[] =
    "struct most { template <class Q> FN0 Q operator()(Q a, Q b) const { return a > b ? a : b; } };\n"
    "struct sum { template <class Q> FN0 Q operator()(Q a, Q b) const { return a + b; } };\n"
    "#define LEAST (-real(0x7ff0000000000000ull))\n"
    "#define WEIGHT(k) exp((double)ld(x[k]) - top)\n"
    "KERNEL(const u64 *from, const X *in, Y *out)\n{\n"
    "for (long o = blockIdx.x; o < ROWS; o += gridDim.x) {\n"
    "\tconst X *x = in + o * N;\n"
    "\tdouble top = LEAST, all = 0;\n"
    "\tfor (long k = LANE; k < N; k += BLOCK) { const double q = (double)ld(x[k]); top = q > top ? q : top; "
    "}\n"
    "\ttop = fold_block(top, LEAST, most());\n"
    "\tfor (long k = LANE; k < N; k += BLOCK) all += WEIGHT(k);\n"
    "\tall = fold_block(all, 0.0, sum());\n"
    "\tfor (long s = LANE; s < SAMPLES; s += BLOCK) {\n"
    "\t\tdouble r = all * uniform(*from, o * SAMPLES + s); long last = 0, k = 0;\n"
    "\t\tfor (; k < N; k++) { const double w = WEIGHT(k); if (w > 0) last = k; if (r < w) break; r -= w; }\n"
    "\t\tout[o * SAMPLES + s] = (Y)(k < N ? k : last);\n"
    "\t}\n"
    "}\n}\n";

static bool prepare_classes(gg_call *c)
{
	cuda_kernel *k = c->state = gg_xcalloc(1, sizeof *k);
	const gg_shape *s = &c->in[0].shape;
	int64_t rows = s->dim[0], n = s->dim[1], samples = c->out[0].shape.dim[1];
	gg_buf defines = {0}, b = {0};
	if (n == 0 && rows * samples > 0)
		return gg_node_error(c->d, GG_MALFORMED, c->node, "there is no class to draw from");
	gg_buf_printf(
	    &defines,
	    "#define X %s\n#define Y %s\n#define ROWS %lldL\n#define N %lldL\n#define SAMPLES %lldL\n",
	    cuda_type(c->in[0].dtype), cuda_type(c->out[0].dtype), (long long)rows, (long long)n,
	    (long long)samples);
	gg_buf_printf(&b, "%s%s", draw_text, classes_text);
	k->block = 128;
	k->grid = (unsigned)(rows > 1 << 20 ? 1 << 20 : rows);
	bool good = rows * samples == 0 || cuda_compile(c->d, defines.p, b.p, k);
	gg_buf_fini(&defines);
	gg_buf_fini(&b);
	return good;
}

static bool run_classes(gg_call *c)
{
	const cuda_kernel *k = c->state;
	void *arg[] = {seed_of(c), c->in[0].data, c->out[0].data};
	return !k->f || cuda_launch(c->d, k, 3, arg);
}
const gg_kernel cuda_multinomial = {"cuda_multinomial", prepare_classes, run_classes, release};
