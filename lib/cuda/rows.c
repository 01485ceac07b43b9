/* Kernels that fold: Softmax, norms, reductions and pools.
 *
 * Rows: a block takes a row of n elements, `step` apart. A row that fits is held in registers, V
 * neighbours at a time; a longer one is read again for each pass. */
#include "cuda.h"
#include "../move.h"
#include "../window.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rows {
	cuda_kernel k;
	int nargs;
	int arg[8]; /* inputs of the call; the output follows */
	bool empty;
} rows;

static const char row_text[] =
    "#ifdef GG_HOST\n#undef BD\n#define BD 1\n#endif\n"
    "#define PER ((N + BD * V - 1) / (BD * V))\n"
    "#define HELD (PER * V <= 64)\n"
    "typedef vec<T, V> W;\n"
    "#if V > 1\n#define READ(j) (*(const W *)(x + (j)))\n#else\n"
    "#define READ(j) W{x[(long)(j) * STEP]}\n#endif\n"
    "#if V > 1\n#define WRITE(j, w) *(W *)(y + (j)) = w\n#else\n#define WRITE(j, w) y[(long)(j) * STEP] = "
    "w.v[0]\n"
    "#endif\n"
    /* EACH: body over p (piece), j (first element) and, for each of the V elements, e and its value a */
    "#if HELD\n"
    "#define START C held[PER * V]; _Pragma(\"unroll\") for (int p = 0; p < PER; p++) {"
    " const int j = (p * BD + LANE) * V; if (j < N) { W w = READ(j);"
    " _Pragma(\"unroll\") for (int e = 0; e < V; e++) held[p * V + e] = ld(w.v[e]); } }\n"
    "#define EACH(...) _Pragma(\"unroll\") for (int p = 0; p < PER; p++) { const int j = (p * BD + LANE) * V;"
    " if (j < N) { _Pragma(\"unroll\") for (int e = 0; e < V; e++) { const C a = held[p * V + e]; "
    "__VA_ARGS__ } } }\n"
    "#define STORE(...) KEEP(;, __VA_ARGS__)\n"
    "#define KEEP(first, ...) _Pragma(\"unroll\") for (int p = 0; p < PER; p++) {"
    " const int j = (p * BD + LANE) * V; if (j < N) { first; W w; _Pragma(\"unroll\") for (int e = 0; e < V; "
    "e++) { const C a = held[p * V + e];"
    " w.v[e] = st((C)(__VA_ARGS__), is<T>()); } WRITE(j, w); } }\n"
    "#else\n"
    "#define START\n"
    "#define EACH(...) for (int p = 0; p < PER; p++) { const int j = (p * BD + LANE) * V;"
    " if (j < N) { const W w = READ(j); for (int e = 0; e < V; e++) { const C a = ld(w.v[e]); __VA_ARGS__ } "
    "} }\n"
    "#define STORE(...) KEEP(;, __VA_ARGS__)\n"
    "#define KEEP(first, ...) for (int p = 0; p < PER; p++) { const int j = (p * BD + LANE) * V;"
    " if (j < N) { first; W w = READ(j); for (int e = 0; e < V; e++) { const C a = ld(w.v[e]);"
    " w.v[e] = st((C)(__VA_ARGS__), is<T>()); } WRITE(j, w); } }\n"
    "#endif\n"
    "struct add { template <class Q> FN0 Q operator()(Q a, Q b) const { return a + b; } };\n"
    "struct most { template <class Q> FN0 Q operator()(Q a, Q b) const { return pick_max(a, b); } };\n"
    "#define ROWS(body) for (long row = blockIdx.x; row < OUTER; row += gridDim.x) {"
    " const T *x = in + row / STEP * ((long)N * STEP) + row % STEP; T *y = out + (x - in); body }\n";

static const char softmax_text[] =
    "KERNEL(const T *in, T *out)\n{\nROWS(START"
    " C m = -(C)1e300; C s = 0; EACH(m = pick_max(m, a);)"
    " m = fold_block(m, m, most()); EACH(s += exp(a - m);) s = fold_block(s, (C)0, add());"
    " const C r = LOG ? m + log(s) : 1 / s;"
    " STORE(LOG ? a - r : exp(a - m) * r)"
    ")\n}\n";

/* Scale and bias by element of the row (PARTS 0), or by channel: row % ROWS_OF * PARTS + element / LEN. */
static const char norm_text[] =
    "KERNEL(const T *in, const S *scale, const B *bias, T *out)\n{\nROWS(START"
    " C s = 0; C q = 0; if (CENTER) { EACH(s += a;) s = fold_block(s, (C)0, add()) / N; }"
    " EACH(q += (a - s) * (a - s);) q = fold_block(q, (C)0, add()) / N;"
    " const C r = 1 / sqrt(q + (C)EPS);"
    " KEEP(STAT, (a - s) * r * ld(SCALE) + BIAS)"
    ")\n}\n";

static const char *compute_of(gg_dtype t) { return t == GG_F64 ? "double" : "float"; }

/* The common defines; a row of n elements, inner apart; outer rows in all. */
static void describe(gg_buf *b, rows *k, gg_dtype t, int64_t outer, int64_t n, int64_t inner)
{
	int64_t v = 16 / (int64_t)gg_dtype_size(t);
	unsigned block = n <= 1024 ? 32 : n <= 4096 ? 128 : 512;
	while (v > 1 && (inner != 1 || n % v))
		v /= 2;
	gg_buf_printf(
	    b,
	    "#define INDEX unsigned long\n#define T %s\n#define C %s\n#define V %d\n#define N %lld\n"
	    "#define STEP %lldL\n#define OUTER %lldL\n#define BD %u\n",
	    cuda_type(t), compute_of(t), (int)v, (long long)n, (long long)inner, (long long)outer, block);
	k->k.block = block;
	k->k.grid = (unsigned)(outer < 1 ? 1 : outer > 1 << 20 ? 1 << 20 : outer);
}

static bool build(gg_call *c, rows *k, gg_buf *defines, const char *head, const char *text)
{
	gg_buf s = {0};
	gg_buf_printf(&s, "%s%s", head, text);
	bool good = cuda_compile(c->d, defines->p, s.p, &k->k);
	gg_buf_fini(&s);
	gg_buf_fini(defines);
	return good;
}

static bool run(gg_call *c)
{
	const rows *k = c->state;
	void *arg[10];
	if (k->empty)
		return true;
	for (int i = 0; i < k->nargs; i++)
		arg[i] = k->arg[i] < 0 ? NULL : c->in[k->arg[i]].data;
	arg[k->nargs] = c->out[0].data;
	return cuda_launch(c->d, &k->k, k->nargs + 1, arg);
}

static void release(gg_call *c) { free(c->state); }

static int64_t span(const gg_shape *s, int from, int to)
{
	int64_t n = 1;
	for (int i = from; i < to; i++)
		n *= s->dim[i];
	return n;
}

/* ---- Softmax, LogSoftmax ------------------------------------------------------------------------- */

static bool prepare_softmax(gg_call *c)
{
	const gg_shape *s = &c->in[0].shape;
	int axis = (int)gg_eval_axis(gg_get_int(c->node, "axis"), s->rank);
	int64_t n = s->dim[axis], inner = span(s, axis + 1, s->rank), outer = span(s, 0, axis) * inner;
	rows *k = c->state = gg_xcalloc(1, sizeof *k);
	gg_buf b = {0};
	k->nargs = 1;
	k->empty = gg_count(&c->out[0]) == 0;
	if (k->empty)
		return true;
	describe(&b, k, c->in[0].dtype, outer, n, inner);
	gg_buf_printf(&b, "#define LOG %d\n", !strcmp(c->node->op->name, "LogSoftmax"));
	return build(c, k, &b, row_text, softmax_text);
}
const gg_kernel cuda_softmax = {"cuda_softmax", prepare_softmax, run, release};

/* ---- norms --------------------------------------------------------------------------------------- */

static bool prepare_norm(gg_call *c)
{
	const gg_node *n = c->node;
	const gg_shape *s = &c->in[0].shape;
	bool trailing = gg_op_attr(n->op, "axis") != NULL, bias = c->nin > 2 && c->in[2].dtype;
	bool groups = gg_op_attr(n->op, "num_groups") != NULL;
	int64_t total = gg_count(&c->in[0]), parts, outer, channels = s->rank > 1 ? s->dim[1] : 1;
	rows *k = c->state = gg_xcalloc(1, sizeof *k);
	gg_buf b = {0};
	k->nargs = 3;
	k->arg[1] = 1;
	k->arg[2] = bias ? 2 : -1;
	k->empty = total == 0;
	if (k->empty)
		return true;
	parts = groups ? channels / gg_get_int(n, "num_groups") : 1; /* channels of a row */
	outer = trailing ? span(s, 0, (int)gg_eval_axis(gg_get_int(n, "axis"), s->rank))
	                 : s->dim[0] * channels / parts;
	describe(&b, k, c->in[0].dtype, outer, total / outer, 1);
	gg_buf_printf(&b, "#define S %s\n#define B %s\n#define EPS %.9g\n#define CENTER %d\n",
	              cuda_type(c->in[1].dtype), cuda_type(bias ? c->in[2].dtype : c->in[1].dtype),
	              (double)gg_get_float(n, "epsilon"), strcmp(n->op->name, "RMSNormalization") != 0);
	if (trailing) /* read as the row is, V at a time */
		gg_buf_printf(&b,
		              "#define STAT const vec<S, V> sc = *(const vec<S, V> *)(scale + j)%s\n"
		              "#define SCALE sc.v[e]\n#define BIAS %s\n",
		              bias ? "; const vec<B, V> bi = *(const vec<B, V> *)(bias + j)" : "",
		              bias ? "ld(bi.v[e])" : "(C)0");
	else
		gg_buf_printf(&b,
		              "#define STAT\n#define SCALE scale[PLACE]\n#define BIAS %s\n"
		              "#define PLACE (row %% %lldL * %lldL + (j + e) / %lldL)\n",
		              bias ? "ld(bias[PLACE])" : "(C)0", (long long)(channels / parts),
		              (long long)parts, (long long)(total / outer / parts));
	return build(c, k, &b, row_text, norm_text);
}
const gg_kernel cuda_norm = {"cuda_norm", prepare_norm, run, release};

/* ---- reductions ---------------------------------------------------------------------------------- */

static const struct fold {
	const char *op, *start, *step, *join, *end;
} folds[] = {
    {"ReduceSum", "0", "s + a", "a + b", "s"},
    {"ReduceMean", "0", "s + a", "a + b", "s / N"},
    {"ReduceMax", "-(C)1e300 * (C)1e300", "pick_max(s, a)", "pick_max(a, b)", "s"},
    {"ReduceMin", "(C)1e300 * (C)1e300", "pick_min(s, a)", "pick_min(a, b)", "s"},
    {"ReduceProd", "1", "s * a", "a * b", "s"},
    {"ReduceSumSquare", "0", "s + a * a", "a + b", "s"},
    {"ReduceL1", "0", "s + (a < 0 ? -a : a)", "a + b", "s"},
    {"ReduceL2", "0", "s + a * a", "a + b", "sqrt(s)"},
    {"GlobalAveragePool", "0", "s + a", "a + b", "s / N"},
    {"GlobalMaxPool", "-(C)1e300 * (C)1e300", "pick_max(s, a)", "pick_max(a, b)", "s"},
};

static const struct fold *fold_of(const char *op)
{
	for (size_t i = 0; i < sizeof folds / sizeof *folds; i++)
		if (!strcmp(folds[i].op, op))
			return &folds[i];
	gg_bug("op '%s' has a row for cuda_reduce but no fold", op);
}

/* Element i of the output folds N elements of the input: a block's lanes take turns where those lie side
 * by side, a thread takes them all where the outputs do. */
static bool make_reduce(gg_call *c, rows *k, int rank, const int64_t *dim, uint32_t bits)
{
	const struct fold *f = fold_of(c->node->op->name);
	int64_t kept[GG_MAX_RANK], folded[GG_MAX_RANK], ks[1][GG_MAX_RANK], fs[1][GG_MAX_RANK];
	int64_t stride = 1, n = 1, total = 1;
	int nk = 0, nf = 0;
	gg_dtype t = c->in[0].dtype;
	gg_buf b = {0}, s = {0};
	for (int i = rank; i-- > 0; stride *= dim[i]) {
		bool fold = bits >> i & 1;
		*(fold ? &folded[nf] : &kept[nk]) = dim[i];
		*(fold ? &fs[0][nf++] : &ks[0][nk++]) = stride;
		*(fold ? &n : &total) *= dim[i];
	}
	for (int i = 0; i < nk / 2; i++) {
		int64_t x = kept[i], y = ks[0][i];
		kept[i] = kept[nk - 1 - i];
		ks[0][i] = ks[0][nk - 1 - i];
		kept[nk - 1 - i] = x;
		ks[0][nk - 1 - i] = y;
	}
	for (int i = 0; i < nf / 2; i++) {
		int64_t x = folded[i], y = fs[0][i];
		folded[i] = folded[nf - 1 - i];
		fs[0][i] = fs[0][nf - 1 - i];
		folded[nf - 1 - i] = x;
		fs[0][nf - 1 - i] = y;
	}
	cuda_merge(&nk, kept, 1, ks);
	cuda_merge(&nf, folded, 1, fs);
	bool lanes = (nf && fs[0][nf - 1] == 1) || total < 4096;
	gg_buf_printf(
	    &b, "#define INDEX unsigned%s\n#define T %s\n#define C %s\n#define N %lld\n#define OUTER %lld\n",
	    (n | total) >> 31 ? " long" : "", cuda_type(t), compute_of(t), (long long)n, (long long)total);
	gg_buf_printf(&s,
	              "struct fold { template <class Q> FN0 Q operator()(Q a, Q b) const { return %s; } };\n",
	              f->join);
	gg_buf_printf(&s, "KERNEL(const T *in, T *out)\n{\n%s {\n\tC s = %s;\n",
	              lanes ? "for (INDEX o = blockIdx.x; o < OUTER; o += gridDim.x)" : "SPREAD(o, OUTER)",
	              f->start);
	cuda_offset(&s, "at", "o", nk, kept, ks[0]);
	gg_buf_printf(&s, "\tfor (INDEX i = %s; i < N; i += %s) {\n", lanes ? "LANE" : "0",
	              lanes ? "BLOCK" : "1");
	cuda_offset(&s, "by", "i", nf, folded, fs[0]);
	gg_buf_printf(&s, "\tconst C a = ld(in[at + by]);\n\ts = %s;\n\t}\n", f->step);
	if (lanes)
		gg_buf_printf(&s, "\ts = fold_block(s, (C)(%s), fold());\n\tif (LANE == 0)\n", f->start);
	gg_buf_printf(&s, "\tout[o] = st((C)(%s), is<T>());\n}\n}\n", f->end);
	cuda_spread(&k->k, total, 256);
	if (lanes) {
		k->k.block = n >= 4096 ? 512 : n >= 512 ? 128 : 32;
		k->k.grid = (unsigned)(total < 1 ? 1 : total > 1 << 20 ? 1 << 20 : total);
	}
	bool good = cuda_compile(c->d, b.p, s.p, &k->k);
	gg_buf_fini(&b);
	gg_buf_fini(&s);
	return good;
}

static bool axes_of(gg_call *c, int rank, uint32_t *bits)
{
	bool given = c->nin > 1 && c->in[1].dtype;
	int64_t n = given ? gg_count(&c->in[1]) : 0;
	*bits = 0;
	if (given && !c->in_const[1])
		return gg_node_error(c->d, GG_UNSUPPORTED, c->node, "input 1 is not known before the run");
	if (!n)
		*bits = gg_get_int(c->node, "noop_with_empty_axes") ? 0 : (1u << rank) - 1;
	for (int64_t i = 0; i < n; i++)
		*bits |= 1u << gg_eval_axis(gg_get_i64(&c->in[1], i), rank);
	c->taken |= 2;
	return true;
}

static bool prepare_reduce(gg_call *c)
{
	rows *k = c->state = gg_xcalloc(1, sizeof *k);
	const gg_shape *s = &c->in[0].shape;
	uint32_t bits;
	k->nargs = 1;
	k->empty = gg_count(&c->out[0]) == 0;
	return axes_of(c, s->rank, &bits) && (k->empty || make_reduce(c, k, s->rank, s->dim, bits));
}
const gg_kernel cuda_reduce = {"cuda_reduce", prepare_reduce, run, release};

/* The result is the same bytes in both layouts. */
static bool prepare_global(gg_call *c)
{
	rows *k = c->state = gg_xcalloc(1, sizeof *k);
	int64_t dim[GG_MAX_RANK];
	int rank = cuda_physical(&c->in[0].shape, (gg_layout)c->in_layout[0], dim);
	uint32_t all = (1u << rank) - 1, channel = c->in_layout[0] == GG_NHWC ? 1u << (rank - 1) : 2;
	k->nargs = 1;
	k->empty = gg_count(&c->out[0]) == 0;
	return k->empty || make_reduce(c, k, rank, dim, all & ~1u & ~channel);
}
const gg_kernel cuda_global_pool = {"cuda_global_pool", prepare_global, run, release};

/* ---- pools --------------------------------------------------------------------------------------- */

/* A thread makes V channels of one output; in both layouts, each value its own. The largest of half
 * types is found in pairs. */
static const char pool_text[] =
    "KERNEL(const T *in, T *out)\n{\nSPREAD(t, TOTAL) {\n"
    "\tINDEX r = t; LONG n, c, o[3];\n"
    "\tif (YLAST) { c = r % (CH / V) * V; r /= CH / V; }\n"
    "\to[2] = r % O2; r /= O2; o[1] = r % O1; r /= O1; o[0] = r % O0; r /= O0;\n"
    "\tif (!YLAST) { c = r % CH; r /= CH; }\n"
    "\tn = r;\n"
    "#if PAIRS\n"
    "\tu32 s[V / 2]; for (int e = 0; e < V / 2; e++) s[e] = LEAST;\n"
    "#else\n"
    "\tC s[V]; for (int e = 0; e < V; e++) s[e] = MAX ? -(C)1e300 * (C)1e300 : (C)0;\n"
    "#endif\n"
    "\tint inside = 0, padded = 0;\n"
    "\tfor (int a = 0; a < K0; a++) for (int b = 0; b < K1; b++) for (int g = 0; g < K2; g++) {\n"
    "\t\tconst LONG z = o[0] * S0 - B0 + a * D0, h = o[1] * S1 - B1 + b * D1, w = o[2] * S2 - B2 + g * D2;\n"
    "\t\tpadded += z < I0 + E0 && h < I1 + E1 && w < I2 + E2;\n"
    "\t\tif (z < 0 || z >= I0 || h < 0 || h >= I1 || w < 0 || w >= I2) continue;\n"
    "\t\tinside++;\n"
    "\t\tconst T *p = in + (XLAST ? (((n * I0 + z) * I1 + h) * I2 + w) * CH + c"
    " : (((n * CH + c) * I0 + z) * I1 + h) * I2 + w);\n"
    "#if PAIRS\n"
    "\t\tconst vec<u32, V / 2> v = *(const vec<u32, V / 2> *)p;\n"
    "\t\tfor (int e = 0; e < V / 2; e++) s[e] = max_pair(s[e], v.v[e], is<T>());\n"
    "#else\n"
    "\t\tvec<T, V> v; if (V > 1) v = *(const vec<T, V> *)p; else v.v[0] = *p;\n"
    "\t\tfor (int e = 0; e < V; e++) { const C q = ld(v.v[e]); s[e] = MAX ? pick_max(s[e], q) : s[e] + q; }\n"
    "#endif\n"
    "\t}\n"
    "\tT *p = out + (YLAST ? (((n * O0 + o[0]) * O1 + o[1]) * O2 + o[2]) * CH + c"
    " : (((n * CH + c) * O0 + o[0]) * O1 + o[1]) * O2 + o[2]);\n"
    "#if PAIRS\n"
    "\tvec<u32, V / 2> y; for (int e = 0; e < V / 2; e++) y.v[e] = s[e];\n"
    "\t*(vec<u32, V / 2> *)p = y;\n"
    "#else\n"
    "\tvec<T, V> y;\n"
    "\tfor (int e = 0; e < V; e++)"
    " y.v[e] = st((C)(MAX ? s[e] : s[e] / (C)(PADS ? padded : inside)), is<T>());\n"
    "\tif (V > 1) *(vec<T, V> *)p = y; else *p = y.v[0];\n"
    "#endif\n"
    "}\n}\n";

static bool prepare_pool(gg_call *c)
{
	const gg_shape *x = &c->in[0].shape, *y = &c->out[0].shape;
	bool xl = c->in_layout[0] == GG_NHWC, yl = c->out_layout[0] == GG_NHWC;
	rows *k = c->state = gg_xcalloc(1, sizeof *k);
	int64_t total = gg_count(&c->out[0]), v = 16 / (int64_t)gg_dtype_size(c->out[0].dtype);
	bool max = !strcmp(c->node->op->name, "MaxPool");
	gg_dtype t = c->in[0].dtype;
	gg_window w;
	gg_buf b = {0};
	k->nargs = 1;
	k->empty = total == 0;
	if (k->empty)
		return true;
	if (!gg_window_pool(c->d, c->node, x, &w))
		return false;
	while (v > 1 && (!xl || !yl || x->dim[1] % v))
		v /= 2;
	gg_buf_printf(
	    &b,
	    "#define INDEX unsigned%s\n#define LONG %s\n#define T %s\n#define C %s\n#define V %d\n"
	    "#define TOTAL %lluu\n#define PAIRS %d\n#define LEAST %s\n"
	    "#define CH %lld\n#define XLAST %d\n#define YLAST %d\n#define MAX %d\n#define PADS %d\n",
	    total >> 31 ? " long" : "", (total | gg_count(&c->in[0])) >> 30 ? "long" : "int", cuda_type(t),
	    compute_of(t), (int)v, (unsigned long long)(total / v), max && gg_dtype_size(t) == 2 && v > 1,
	    t == GG_F16 ? "0xfc00fc00u" : "0xff80ff80u", (long long)x->dim[1], xl, yl, max,
	    gg_op_attr(c->node->op, "count_include_pad") != NULL &&
	        gg_get_int(c->node, "count_include_pad") != 0);
	for (int i = 0; i < 3; i++) {
		int a = i - (3 - w.nd);
		gg_buf_printf(&b,
		              "#define I%d %lld\n#define O%d %lld\n#define K%d %lld\n#define S%d %lld\n"
		              "#define D%d %lld\n#define B%d %lld\n#define E%d %lld\n",
		              i, (long long)(a < 0 ? 1 : x->dim[2 + a]), i,
		              (long long)(a < 0 ? 1 : y->dim[2 + a]), i, (long long)(a < 0 ? 1 : w.kernel[a]),
		              i, (long long)(a < 0 ? 1 : w.stride[a]), i,
		              (long long)(a < 0 ? 1 : w.dilation[a]), i, (long long)(a < 0 ? 0 : w.begin[a]),
		              i, (long long)(a < 0 ? 0 : w.end[a]));
	}
	cuda_spread(&k->k, total / v, 256);
	return build(c, k, &b, "", pool_text);
}
const gg_kernel cuda_pool = {"cuda_pool", prepare_pool, run, release};
