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
	bool top; /* m, the largest element, is found first */
} folds[] = {
    {"ReduceSum", "0", "s + a", "a + b", "s"},
    {"ReduceMean", "0", "s + a", "a + b", "MEAN(s)"},
    {"ReduceMax", "LEAST", "pick_max(s, a)", "pick_max(a, b)", "s"},
    {"ReduceMin", "MOST", "pick_min(s, a)", "pick_min(a, b)", "s"},
    {"ReduceProd", "1", "s * a", "a * b", "s"},
    {"ReduceSumSquare", "0", "s + a * a", "a + b", "s"},
    {"ReduceL1", "0", "s + (a < 0 ? -a : a)", "a + b", "s"},
    {"ReduceL2", "0", "s + a * a", "a + b", "ROOT(s)"},
    {"ReduceLogSum", "0", "s + a", "a + b", "log(s)"},
    {"ReduceLogSumExp", "0", "s + exp(a - m)", "a + b", "m - m == 0 ? m + log(s) : m", true},
    {"GlobalAveragePool", "0", "s + a", "a + b", "MEAN(s)"},
    {"GlobalMaxPool", "LEAST", "pick_max(s, a)", "pick_max(a, b)", "s"},
    {"GlobalLpPool", "0", "s + POWER(a)", "a + b", "NORM(s)"},
};

static const struct fold *fold_of(const char *op)
{
	for (size_t i = 0; i < sizeof folds / sizeof *folds; i++)
		if (!strcmp(folds[i].op, op))
			return &folds[i];
	gg_bug("op '%s' has a row for cuda_reduce but no fold", op);
}

/* Sums of integers are made in 64 bits, which wrap as the reference's do when they are stored. */
static void put_numbers(gg_buf *b, gg_dtype t)
{
	int bits = t == GG_BOOL ? 1 : gg_dtype_bits(t), sign = gg_dtype_class(t) == 'I';
	if (gg_dtype_class(t) == 'F')
		gg_buf_str(b, "#define ROOT(x) sqrt(x)\n#define MEAN(x) ((x) / N)\n"
		              "#define LEAST (-(C)1e300 * (C)1e300)\n#define MOST ((C)1e300 * (C)1e300)\n");
	else
		gg_buf_printf(b,
		              "#define ROOT(x) sqrt((double)(u64)(x))\n"
		              "#define MEAN(x) (N ? (x) / (N + !N) : 0)\n"
		              "#define LEAST (C)(%s)\n#define MOST (C)(~0ull >> %d)\n",
		              sign ? "~(~0ull >> (65 - 8 * sizeof(T)))" : "0", 64 + sign - bits);
}

/* |x|^p and its inverse, of ops that have a p. */
static void put_power(gg_buf *b, const gg_node *n)
{
	int64_t p = gg_op_attr(n->op, "p") ? gg_get_int(n, "p") : 0;
	if (p == 1)
		gg_buf_str(b, "#define POWER(x) ((x) < 0 ? -(x) : (x))\n#define NORM(x) (x)\n");
	else if (p == 2)
		gg_buf_str(b, "#define POWER(x) ((x) * (x))\n#define NORM(x) sqrt(x)\n");
	else if (p)
		gg_buf_printf(b,
		              "#define POWER(x) pow((x) < 0 ? -(x) : (x), (C)%lld)\n"
		              "#define NORM(x) pow((x), 1 / (C)%lld)\n",
		              (long long)p, (long long)p);
}

/* The axes that are kept and those that are folded, outermost first, merged where they lie as one. */
typedef struct split {
	int nk, nf;
	int64_t kept[GG_MAX_RANK], folded[GG_MAX_RANK], ks[1][GG_MAX_RANK], fs[1][GG_MAX_RANK];
	int64_t n, total; /* elements of a fold; folds */
} split;

static split split_axes(int rank, const int64_t *dim, uint32_t bits)
{
	split s = {.n = 1, .total = 1};
	int64_t stride[GG_MAX_RANK], step = 1;
	for (int i = rank; i-- > 0; step *= dim[i])
		stride[i] = step;
	for (int i = 0; i < rank; i++) {
		bool fold = bits >> i & 1;
		*(fold ? &s.folded[s.nf] : &s.kept[s.nk]) = dim[i];
		*(fold ? &s.fs[0][s.nf++] : &s.ks[0][s.nk++]) = stride[i];
		*(fold ? &s.n : &s.total) *= dim[i];
	}
	cuda_merge(&s.nk, s.kept, 1, s.ks);
	cuda_merge(&s.nf, s.folded, 1, s.fs);
	return s;
}

static void put_split(gg_buf *b, const split *p, gg_dtype t)
{
	gg_buf_printf(
	    b, "#define INDEX unsigned%s\n#define T %s\n#define C %s\n#define N %lld\n#define OUTER %lld\n",
	    (p->n | p->total) >> 31 ? " long" : "", cuda_type(t), cuda_compute(t), (long long)p->n,
	    (long long)p->total);
}

/* A fold is a block's. */
static void use_lanes(rows *k, const split *p)
{
	k->k.block = p->n >= 4096 ? 512 : p->n >= 512 ? 128 : 32;
	k->k.grid = (unsigned)(p->total < 1 ? 1 : p->total > 1 << 20 ? 1 << 20 : p->total);
}

/* For each element a of a fold: `body`. */
static void put_loop(gg_buf *s, const split *p, bool lanes, const char *body)
{
	gg_buf_printf(s, "\tfor (INDEX i = %s; i < N; i += %s) {\n", lanes ? "LANE" : "0",
	              lanes ? "BLOCK" : "1");
	cuda_offset(s, "by", "i", p->nf, p->folded, p->fs[0]);
	gg_buf_printf(s, "\tconst C a = ld(in[at + by]);\n\t%s;\n\t}\n", body);
}

/* Element i of the output folds N elements of the input: a block's lanes take turns where those lie side
 * by side, a thread takes them all where the outputs do. */
static bool make_reduce(gg_call *c, rows *k, int rank, const int64_t *dim, uint32_t bits)
{
	const struct fold *f = fold_of(c->node->op->name);
	const split p = split_axes(rank, dim, bits);
	bool lanes = (p.nf && p.fs[0][p.nf - 1] == 1) || p.total < 4096;
	char step[64];
	gg_buf b = {0}, s = {0};
	put_split(&b, &p, c->in[0].dtype);
	put_numbers(&b, c->in[0].dtype);
	put_power(&b, c->node);
	gg_buf_printf(&s,
	              "struct fold { template <class Q> FN0 Q operator()(Q a, Q b) const { return %s; } };\n"
	              "struct most { template <class Q> FN0 Q operator()(Q a, Q b) const"
	              " { return pick_max(a, b); } };\n",
	              f->join);
	gg_buf_printf(&s, "KERNEL(const T *in, T *out)\n{\n%s {\n\tC s = %s;\n",
	              lanes ? "for (INDEX o = blockIdx.x; o < OUTER; o += gridDim.x)" : "SPREAD(o, OUTER)",
	              f->start);
	cuda_offset(&s, "at", "o", p.nk, p.kept, p.ks[0]);
	if (f->top) {
		gg_buf_str(&s, "\tC m = LEAST;\n");
		put_loop(&s, &p, lanes, "m = pick_max(m, a)");
		gg_buf_str(&s, lanes ? "\tm = fold_block(m, LEAST, most());\n" : "");
	}
	snprintf(step, sizeof step, "s = %s", f->step);
	put_loop(&s, &p, lanes, step);
	if (lanes)
		gg_buf_printf(&s, "\ts = fold_block(s, (C)(%s), fold());\n\tif (LANE == 0)\n", f->start);
	gg_buf_printf(&s, "\tout[o] = st((C)(%s), is<T>());\n}\n}\n", f->end);
	cuda_spread(&k->k, p.total, 256);
	if (lanes)
		use_lanes(k, &p);
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

/* ---- what is divided by its own size --------------------------------------------------------------- */

/* LpNormalization, MeanVarianceNormalization: three readings, as any axes may be folded. */
static bool prepare_normalise(gg_call *c)
{
	const gg_shape *x = &c->in[0].shape;
	const gg_attr *axes = gg_op_attr(c->node->op, "axes") ? gg_get_list(c->node, "axes") : NULL;
	rows *k = c->state = gg_xcalloc(1, sizeof *k);
	uint32_t bits = axes ? 0 : 1u << gg_eval_axis(gg_get_int(c->node, "axis"), x->rank);
	gg_buf b = {0}, s = {0};
	k->nargs = 1;
	k->empty = gg_count(&c->out[0]) == 0;
	for (int i = 0; axes && i < axes->n; i++)
		bits |= 1u << gg_eval_axis(axes->ints[i], x->rank);
	const split p = split_axes(x->rank, x->dim, bits);
	if (k->empty)
		return true;
	put_split(&b, &p, c->in[0].dtype);
	put_power(&b, c->node);
	if (axes) /* the standard's function adds 1e-9 to the deviation */
		gg_buf_str(&b, "#define POWER(x) ((x) * (x))\n#define NORM(x) (sqrt((x) / N) + (C)1e-9)\n");
	gg_buf_str(&s,
	           "struct add { template <class Q> FN0 Q operator()(Q a, Q b) const { return a + b; } };\n"
	           "KERNEL(const T *in, T *out)\n{\n"
	           "for (INDEX o = blockIdx.x; o < OUTER; o += gridDim.x) {\n\tC s = 0, q = 0;\n");
	cuda_offset(&s, "at", "o", p.nk, p.kept, p.ks[0]);
	if (axes) {
		put_loop(&s, &p, true, "s += a");
		gg_buf_str(&s, "\ts = fold_block(s, (C)0, add()) / N;\n");
	}
	put_loop(&s, &p, true, "q += POWER(a - s)");
	gg_buf_str(&s, "\tq = fold_block(q, (C)0, add()); q = NORM(q);\n");
	put_loop(&s, &p, true, "out[at + by] = st(q != 0 ? (a - s) / q : a, is<T>())");
	gg_buf_str(&s, "}\n}\n");
	use_lanes(k, &p);
	bool good = build(c, k, &b, s.p, "");
	gg_buf_fini(&s);
	return good;
}
const gg_kernel cuda_normalise = {"cuda_normalise", prepare_normalise, run, release};

/* By what near channels of the same place sum up to. */
static bool prepare_lrn(gg_call *c)
{
	static const char text[] =
	    "KERNEL(const T *in, T *out)\n{\nSPREAD(i, TOTAL) {\n"
	    "\tconst long c = i / STEP % CH, lo = c < BEFORE ? -c : -BEFORE, hi = CH - 1 - c < AFTER ? CH - "
	    "1 - c : AFTER;\n"
	    "\tC s = 0;\n"
	    "\tfor (long k = lo; k <= hi; k++) { const C a = ld(in[(long)i + k * STEP]); s += a * a; }\n"
	    "\tout[i] = st(ld(in[i]) / pow((C)BIAS + (C)ALPHA * s, (C)BETA), is<T>());\n}\n}\n";
	const gg_shape *x = &c->in[0].shape;
	const gg_node *n = c->node;
	rows *k = c->state = gg_xcalloc(1, sizeof *k);
	int64_t total = gg_count(&c->out[0]), size = gg_get_int(n, "size");
	gg_dtype t = c->in[0].dtype;
	gg_buf b = {0};
	k->nargs = 1;
	k->empty = total == 0;
	if (k->empty)
		return true;
	gg_buf_printf(
	    &b,
	    "#define INDEX unsigned%s\n#define T %s\n#define C %s\n#define TOTAL %lluu\n#define CH %lldL\n"
	    "#define STEP %lldL\n#define BEFORE %lldL\n#define AFTER %lldL\n#define BIAS %.17g\n"
	    "#define ALPHA %.17g\n#define BETA %.17g\n",
	    total >> 31 ? " long" : "", cuda_type(t), cuda_compute(t), (unsigned long long)total,
	    (long long)x->dim[1], (long long)(c->in_layout[0] == GG_NHWC ? 1 : span(x, 2, x->rank)),
	    (long long)((size - 1) / 2), (long long)(size - 1 - (size - 1) / 2),
	    (double)gg_get_float(n, "bias"), (double)gg_get_float(n, "alpha") / (double)size,
	    (double)gg_get_float(n, "beta"));
	cuda_spread(&k->k, total, 256);
	return build(c, k, &b, "", text);
}
const gg_kernel cuda_lrn = {"cuda_lrn", prepare_lrn, run, release};

/* ---- pools --------------------------------------------------------------------------------------- */

/* A thread makes V channels of one output; in both layouts, each value its own. The largest of half
 * types is found in pairs, unless somebody asks where it was: the first of the largest. */
static const char pool_text[] =
    "KERNEL(const T *in, T *out, i64 *where)\n{\nSPREAD(t, TOTAL) {\n"
    "\tINDEX r = t; LONG n, c, o[3]; i64 first = -1;\n"
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
    "\t\tfor (int e = 0; e < V; e++) { const C q = ld(v.v[e]);\n"
    "#if WHERE\n"
    "\t\tif (first < 0 || q > s[e] || (q != q && s[e] == s[e])) first = (i64)(n * CH + c) * (I0 * I1 * "
    "(i64)I2)"
    " + (FIRST_FASTEST ? z + I0 * (h + I1 * (i64)w) : (z * I1 + h) * (i64)I2 + w);\n"
    "#endif\n"
    "\t\ts[e] = STEP(s[e], q); }\n"
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
    " y.v[e] = st((C)(END(s[e])), is<T>());\n"
    "\tif (V > 1) *(vec<T, V> *)p = y; else *p = y.v[0];\n"
    "#endif\n"
    "#if WHERE\n"
    "\twhere[WLAST ? (((n * O0 + o[0]) * O1 + o[1]) * O2 + o[2]) * CH + c"
    " : (((n * CH + c) * O0 + o[0]) * O1 + o[1]) * O2 + o[2]] = first;\n"
    "#endif\n"
    "}\n}\n";

static bool prepare_pool(gg_call *c)
{
	const gg_shape *x = &c->in[0].shape, *y = &c->out[0].shape;
	bool xl = c->in_layout[0] == GG_NHWC, yl = c->out_layout[0] == GG_NHWC;
	rows *k = c->state = gg_xcalloc(1, sizeof *k);
	int64_t total = gg_count(&c->out[0]), v = 16 / (int64_t)gg_dtype_size(c->out[0].dtype);
	bool max = !strcmp(c->node->op->name, "MaxPool"), where = c->nout > 1 && c->out[1].dtype;
	gg_dtype t = c->in[0].dtype;
	gg_window w;
	gg_buf b = {0};
	k->nargs = 1;
	k->empty = total == 0;
	if (k->empty)
		return true;
	if (!gg_window_pool(c->d, c->node, x, &w))
		return false;
	while (v > 1 && (!xl || !yl || where || x->dim[1] % v))
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
	put_power(&b, c->node);
	gg_buf_printf(&b,
	              "#define STEP(s, q) %s\n#define END(s) %s\n#define WHERE %d\n#define WLAST %d\n"
	              "#define FIRST_FASTEST %d\n",
	              max                            ? "pick_max(s, q)"
	              : gg_op_attr(c->node->op, "p") ? "s + POWER(q)"
	                                             : "s + q",
	              max                            ? "s"
	              : gg_op_attr(c->node->op, "p") ? "NORM(s)"
	                                             : "s / (C)(PADS ? padded : inside)",
	              where, where && c->out_layout[1] == GG_NHWC,
	              max && gg_get_int(c->node, "storage_order") != 0);
	cuda_spread(&k->k, total / v, 256);
	return build(c, k, &b, "", pool_text);
}

static bool run_pool(gg_call *c)
{
	const rows *k = c->state;
	void *arg[] = {c->in[0].data, c->out[0].data, c->nout > 1 ? c->out[1].data : NULL};
	return k->empty || cuda_launch(c->d, &k->k, 3, arg);
}
const gg_kernel cuda_pool = {"cuda_pool", prepare_pool, run_pool, release};
