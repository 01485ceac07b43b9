/* ArgMax, ArgMin, Hardmax: where in a line the best element is.
 *
 * A block's lanes take turns where a line lies side by side, a thread takes a line where the lines do. */
#include "cuda.h"
#include "../move.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whole numbers in the order of lib/op/order.h. */
const char cuda_order_text[] =
    "template <class U_> FN U_ float_key(U_ u, U_ infinite) {\n"
    "\tconst U_ top = (U_)1 << (sizeof(U_) * 8 - 1), size = u & ~top;\n"
    "\treturn size > infinite ? ~(U_)0 : size == 0 ? top : u & top ? ~u : u | top;\n}\n"
    "FN u64 key(f64 x) { union { f64 f; u64 u; } b; b.f = x; return float_key(b.u, 0x7ff0000000000000ull); "
    "}\n"
    "FN u32 key(f32 x) { union { f32 f; u32 u; } b; b.f = x; return float_key(b.u, 0x7f800000u); }\n"
    "FN u32 key(f16 x) { return key(ld(x)); }\nFN u32 key(bf16 x) { return key(ld(x)); }\n"
    "FN u64 key(i64 x) { return (u64)x ^ 1ull << 63; }\nFN u64 key(u64 x) { return x; }\n"
    "FN u32 key(i32 x) { return (u32)x ^ 1u << 31; }\nFN u32 key(u32 x) { return x; }\n"
    "FN u32 key(i16 x) { return key((i32)x); }\nFN u32 key(i8 x) { return key((i32)x); }\n"
    "FN u32 key(u16 x) { return x; }\nFN u32 key(u8 x) { return x; }\n";

const char *cuda_key(gg_dtype t) { return gg_dtype_size(t) == 8 ? "u64" : "u32"; }

/* NaN is the best either way. */
static const char text[] =
    "struct most { template <class Q> FN0 Q operator()(Q a, Q b) const { return a > b ? a : b; } };\n"
    "FN K rank(T x) {\n"
    "\tconst K k = key(x);\n"
    "\treturn LARGEST || (FLOAT && k == (K)~(K)0) ? k : (K)~k;\n}\n"
    "KERNEL(const T *in, Y *out)\n{\nLINES(o) {\n"
    "\tconst T *x = in + o / STEP * (N * STEP) + o % STEP;\n"
    "\tK best = 0; u64 at = 0;\n"
    "\tfor (long j = FIRST; j < N; j += TURNS) {\n"
    "\t\tconst K k = rank(x[j * STEP]);\n"
    "\t\tif (j == FIRST || k > best || (LAST && k == best)) { best = k; at = j; }\n"
    "\t}\n"
    "#if LANES\n"
    "\tconst K all = fold_block(best, (K)0, most());\n"
    "\tat = LANE >= N || best != all ? 0 : LAST ? at + 1 : ~at;\n"
    "\tat = fold_block(at, (u64)0, most());\n"
    "\tat = LAST ? at - 1 : ~at;\n"
    "#endif\n"
    "#if HARD\n"
    "\tY *y = out + (x - in);\n"
    "\tfor (long j = FIRST; j < N; j += TURNS) y[j * STEP] = st((float)(j == (long)at), is<Y>());\n"
    "#else\n"
    "\tif (FIRST == 0) out[o] = (Y)at;\n"
    "#endif\n"
    "}\n}\n";

static bool prepare(gg_call *c)
{
	const gg_shape *s = &c->in[0].shape;
	gg_dtype t = c->in[0].dtype;
	bool hard = !strcmp(c->node->op->name, "Hardmax");
	int axis = gg_eval_axis(gg_get_int(c->node, "axis"), s->rank);
	int64_t n = s->dim[axis], inner = gg_span(s, axis + 1, s->rank), total = gg_span(s, 0, axis) * inner;
	bool lanes = inner == 1 || total < 4096;
	cuda_kernel *k = c->state = gg_xcalloc(1, sizeof *k);
	char defines[640];
	gg_buf b = {0};
	if (gg_count(&c->out[0]) == 0)
		return true;
	if (n == 0)
		return gg_node_error(c->d, GG_MALFORMED, c->node, "axis %d of the input is empty", axis);
	snprintf(defines, sizeof defines,
	         "#define INDEX unsigned long\n#define T %s\n#define Y %s\n#define K %s\n#define N %lldL\n"
	         "#define STEP %lldL\n#define OUTER %lldL\n#define LARGEST %d\n#define FLOAT %d\n"
	         "#define LAST %d\n#define HARD %d\n#define LANES %d\n"
	         "#define LINES(o) %s\n#define FIRST (long)(%s)\n#define TURNS %s\n",
	         cuda_type(t), cuda_type(c->out[0].dtype), cuda_key(t), (long long)n, (long long)inner,
	         (long long)total, strcmp(c->node->op->name, "ArgMin") != 0, gg_dtype_class(t) == 'F',
	         !hard && gg_get_int(c->node, "select_last_index"), hard, lanes,
	         lanes ? "for (long o = blockIdx.x; o < OUTER; o += gridDim.x)" : "SPREAD(o, OUTER)",
	         lanes ? "LANE" : "0", lanes ? "BLOCK" : "1");
	gg_buf_printf(&b, "%s%s", cuda_order_text, text);
	cuda_spread(k, total, 256);
	if (lanes) {
		k->block = n >= 4096 ? 512 : n >= 512 ? 128 : 32;
		k->grid = (unsigned)(total > 1 << 20 ? 1 << 20 : total);
	}
	bool good = cuda_compile(c->d, defines, b.p, k);
	gg_buf_fini(&b);
	return good;
}

static bool run(gg_call *c)
{
	const cuda_kernel *k = c->state;
	void *arg[] = {c->in[0].data, c->out[0].data};
	return !k->f || cuda_launch(c->d, k, 2, arg);
}

static void release(gg_call *c) { free(c->state); }
const gg_kernel cuda_arg = {"cuda_arg", prepare, run, release};
