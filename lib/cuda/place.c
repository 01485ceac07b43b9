/* Elements that hang on their place: Tile, Trilu, OneHot, EyeLike, ReverseSequence. An element is its bytes.
 */
#include "cuda.h"
#include "../move.h"
#include <stdlib.h>

typedef struct place {
	cuda_kernel k;
	int n; /* arguments: inputs of the call, then the output */
	int arg[2];
} place;

static bool build(gg_call *c, int64_t total, const char *defines, const char *text)
{
	place *k = c->state;
	gg_buf b = {0};
	gg_buf_printf(&b, "#define INDEX unsigned%s\n#define TOTAL %lluu\n%s", total >> 31 ? " long" : "",
	              (unsigned long long)total, defines);
	cuda_spread(&k->k, total, 256);
	bool good = cuda_compile(c->d, b.p, text, &k->k);
	gg_buf_fini(&b);
	return good;
}

static bool run(gg_call *c)
{
	const place *k = c->state;
	void *arg[3];
	for (int i = 0; i < k->n; i++)
		arg[i] = k->arg[i] < c->nin ? c->in[k->arg[i]].data : NULL;
	arg[k->n] = c->out[0].data;
	return !k->k.f || cuda_launch(c->d, &k->k, k->n + 1, arg);
}

static void release(gg_call *c) { free(c->state); }

/* Axes with one copy lie within the axis before them. */
static bool prepare_tile(gg_call *c)
{
	const gg_shape *x = &c->in[0].shape, *y = &c->out[0].shape;
	int64_t own[GG_MAX_RANK + 1] = {1}, all[GG_MAX_RANK + 1] = {1}, total = gg_count(&c->out[0]),
	                          step = 1;
	size_t size = gg_dtype_size(c->out[0].dtype);
	int n = 0, v = (int)(16 / size);
	place *k = c->state = gg_xcalloc(1, sizeof *k);
	gg_buf s = {0};
	*k = (place){.n = 1};
	if (!total)
		return true;
	for (int i = 0; i < x->rank; i++) {
		n += x->dim[i] != y->dim[i];
		own[n] = (x->dim[i] == y->dim[i] ? own[n] : 1) * x->dim[i];
		all[n] = (x->dim[i] == y->dim[i] ? all[n] : 1) * y->dim[i];
	}
	while (v > 1 && own[n] % v)
		v /= 2;
	own[n] /= v;
	all[n] /= v;
	const char *w = cuda_word(size * (size_t)v);
	gg_buf_printf(
	    &s, "KERNEL(const %s *x, %s *y)\n{\nSPREAD(i, TOTAL) {\n\tINDEX r = i;\n\tlong o = 0;\n", w, w);
	for (int i = n; i >= 0; step *= own[i--])
		gg_buf_printf(&s, "\to += (long)(r %% %lldu %% %lldu) * %lldL; r /= %lldu;\n",
		              (long long)all[i], (long long)own[i], (long long)step, (long long)all[i]);
	gg_buf_str(&s, "\ty[i] = x[o];\n}\n}\n");
	bool good = build(c, total / v, "", s.p);
	gg_buf_fini(&s);
	return good;
}
const gg_kernel cuda_repeat = {"cuda_repeat", prepare_tile, run, release};

static bool prepare_trilu(gg_call *c)
{
	static const char text[] =
	    "KERNEL(const W *x, const i64 *diagonal, W *y)\n{\n"
	    "const long k = diagonal ? *diagonal : 0;\nSPREAD(i, TOTAL) {\n"
	    "\tconst long col = i % COLS, first = i / COLS % ROWS;\n"
	    "\ty[i] = (UPPER ? col - first >= k : col - first <= k) ? x[i] : W{};\n}\n}\n";
	const gg_shape *x = &c->in[0].shape;
	place *k = c->state = gg_xcalloc(1, sizeof *k);
	gg_buf b = {0};
	*k = (place){.n = 2, .arg = {0, 1}};
	if (!gg_count(&c->out[0]))
		return true;
	gg_buf_printf(&b, "#define W %s\n#define ROWS %lldu\n#define COLS %lldu\n#define UPPER %d\n",
	              cuda_word(gg_dtype_size(c->out[0].dtype)), (long long)x->dim[x->rank - 2],
	              (long long)x->dim[x->rank - 1], gg_get_int(c->node, "upper") != 0);
	bool good = build(c, gg_count(&c->out[0]), b.p, text);
	gg_buf_fini(&b);
	return good;
}
const gg_kernel cuda_trilu = {"cuda_trilu", prepare_trilu, run, release};

/* An index is cut to a whole number; one below zero counts from the end, and one outside is nowhere. */
static bool prepare_onehot(gg_call *c)
{
	static const char text[] = "KERNEL(const T *at, const W *value, W *y)\n{\nSPREAD(i, TOTAL) {\n"
	                           "\tconst INDEX r = i / INNER;\n\tconst long d = r % DEPTH;\n"
	                           "\tconst C k = (C)WHOLE(ld(at[(r / DEPTH) * INNER + i % INNER]));\n"
	                           "\ty[i] = value[k == (C)d || (SIGNED && k == (C)(d - DEPTH))];\n}\n}\n";
	const gg_shape *y = &c->out[0].shape;
	int axis = gg_eval_axis(gg_get_int(c->node, "axis"), y->rank);
	gg_dtype t = c->in[0].dtype;
	bool floats = gg_dtype_class(t) == 'F';
	place *k = c->state = gg_xcalloc(1, sizeof *k);
	gg_buf b = {0};
	*k = (place){.n = 2, .arg = {0, 2}};
	if (!gg_count(&c->out[0]))
		return true;
	gg_buf_printf(&b,
	              "#define T %s\n#define W %s\n#define C %s\n#define WHOLE %s\n#define SIGNED %d\n"
	              "#define INNER %lldu\n#define DEPTH %lldL\n",
	              cuda_type(t), cuda_word(gg_dtype_size(c->out[0].dtype)),
	              floats ? "double" : cuda_compute(t), floats ? "trunc" : "", t != GG_U64,
	              (long long)gg_span(y, axis + 1, y->rank), (long long)y->dim[axis]);
	bool good = build(c, gg_count(&c->out[0]), b.p, text);
	gg_buf_fini(&b);
	return good;
}
const gg_kernel cuda_onehot = {"cuda_onehot", prepare_onehot, run, release};

/* Nothing is read. */
static bool prepare_eye(gg_call *c)
{
	static const char text[] =
	    "KERNEL(T *y)\n{\nSPREAD(i, TOTAL)\n"
	    "\ty[i] = st((C)((long)(i % COLS) - (long)(i / COLS) == DIAGONAL), is<T>());\n}\n";
	gg_dtype t = c->out[0].dtype;
	gg_buf b = {0};
	c->state = gg_xcalloc(1, sizeof(place));
	if (!gg_count(&c->out[0]))
		return true;
	gg_buf_printf(&b, "#define T %s\n#define C %s\n#define COLS %lldu\n#define DIAGONAL %lldLL\n",
	              cuda_type(t), cuda_compute(t), (long long)c->out[0].shape.dim[1],
	              (long long)gg_get_int(c->node, "k"));
	bool good = build(c, gg_count(&c->out[0]), b.p, text);
	gg_buf_fini(&b);
	return good;
}
const gg_kernel cuda_eye = {"cuda_eye", prepare_eye, run, release};

static bool check_lengths(gg_call *c, int64_t n)
{
	for (int64_t b = 0; c->in_const[1] && b < gg_count(&c->in[1]); b++) {
		int64_t len = gg_get_i64(&c->in[1], b);
		if (len < 0 || len > n)
			return gg_node_error(c->d, GG_MALFORMED, c->node,
			                     "sequence %lld has the length %lld of %lld", (long long)b,
			                     (long long)len, (long long)n);
	}
	return true;
}

/* A length that is outside, which only the device sees, is the nearest that is not. */
static bool prepare_reverse(gg_call *c)
{
	static const char text[] =
	    "KERNEL(const W *x, const i64 *length, W *y)\n{\nSPREAD(i, TOTAL) {\n"
	    "\tconst long row = i / INNER, t = TIME_FIRST ? row / BATCH : row % TIME, b = TIME_FIRST ? row % "
	    "BATCH : row / TIME;\n"
	    "\tconst long n = length[b] > TIME ? TIME : length[b], from = t < n ? n - 1 - t : t;\n"
	    "\ty[i] = x[(TIME_FIRST ? from * BATCH + b : b * TIME + from) * INNER + i % INNER];\n}\n}\n";
	const gg_shape *x = &c->in[0].shape;
	int batch = (int)gg_get_int(c->node, "batch_axis");
	int64_t inner = gg_span(x, 2, x->rank), size = (int64_t)gg_dtype_size(c->out[0].dtype), v = 16 / size;
	place *k = c->state = gg_xcalloc(1, sizeof *k);
	gg_buf b = {0};
	*k = (place){.n = 2, .arg = {0, 1}};
	if (!gg_count(&c->out[0]))
		return true;
	if (!check_lengths(c, x->dim[1 - batch]))
		return false;
	while (v > 1 && inner % v)
		v /= 2;
	gg_buf_printf(&b,
	              "#define W %s\n#define INNER %lldL\n#define BATCH %lldL\n#define TIME %lldL\n"
	              "#define TIME_FIRST %d\n",
	              cuda_word((size_t)(size * v)), (long long)(inner / v), (long long)x->dim[batch],
	              (long long)x->dim[1 - batch], batch == 1);
	bool good = build(c, gg_count(&c->out[0]) / v, b.p, text);
	gg_buf_fini(&b);
	return good;
}
const gg_kernel cuda_reverse = {"cuda_reverse", prepare_reverse, run, release};
