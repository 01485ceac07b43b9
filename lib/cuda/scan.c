/* CumSum and CumProd, in double or 64 bits as the reference's.
 *
 * A thread takes a line where many lie side by side. Elsewhere a block takes one, V neighbours a thread:
 *
 *     a thread's own ── those of lanes before it ── of warps before that ── of the pieces before this one */
#include "cuda.h"
#include "../move.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char text[] =
    "FN C join(C a, C b) { return PRODUCT ? a * b : a + b; }\n"
    /* What lanes before this one have, and all of them. */
    "#ifndef GG_HOST\n"
    "FN C before(C x, C *all) {\n"
    "\t__shared__ C part[32];\n"
    "\tfor (int m = 1; m < 32; m *= 2) {"
    " const C o = __shfl_up_sync(~0u, x, m); if (LANE % 32 >= m) x = join(o, x); }\n"
    "\t__syncthreads();\n"
    "\tif (LANE % 32 == 31) part[LANE / 32] = x;\n"
    "\t__syncthreads();\n"
    "\tx = __shfl_up_sync(~0u, x, 1);\n"
    "\tC s = PRODUCT, mine = PRODUCT;\n"
    "\tfor (int w = 0; w < BD / 32; w++) { if (w == LANE / 32) mine = s; s = join(s, part[w]); }\n"
    "\t*all = s;\n"
    "\treturn LANE % 32 ? join(mine, x) : mine;\n}\n"
    "#else\n"
    "FN C before(C x, C *all) { *all = x; return PRODUCT; }\n"
    "#endif\n"
    "#define AT(j) ((REVERSE ? N - 1 - (j) : (j)) * STEP)\n"
    "#define NEXT(j, a) { const C q = (C)ld(x[AT(j)]), next = join(a, q);"
    " y[AT(j)] = st(EXCLUSIVE ? a : next, is<T>()); a = next; }\n"
    "KERNEL(const T *in, T *out)\n{\nLINES(o) {\n"
    "\tconst T *x = in + o / STEP * (N * STEP) + o % STEP; T *y = out + (x - in);\n"
    "\tC s = PRODUCT;\n"
    "#if LANES\n"
    "\tfor (long j0 = 0; j0 < N; j0 += (long)BLOCK * V) {\n"
    "\t\tconst long j = j0 + LANE * V;\n"
    "\t\tC own = PRODUCT, all;\n"
    "\t\tfor (int e = 0; e < V; e++) if (j + e < N) own = join(own, (C)ld(x[AT(j + e)]));\n"
    "\t\tC a = before(own, &all); a = join(s, a);\n"
    "\t\tfor (int e = 0; e < V; e++) if (j + e < N) NEXT(j + e, a)\n"
    "\t\ts = join(s, all);\n"
    "\t}\n"
    "#else\n"
    "\tfor (long j = 0; j < N; j++) NEXT(j, s)\n"
    "#endif\n"
    "}\n}\n";

static bool prepare(gg_call *c)
{
	const gg_shape *s = &c->in[0].shape;
	gg_dtype t = c->in[0].dtype;
	cuda_kernel *k = c->state = gg_xcalloc(1, sizeof *k);
	char defines[512];
	if (!cuda_known(c, 1))
		return false;
	c->taken |= 2;
	int64_t at = gg_get_i64(&c->in[1], 0);
	if (at < -s->rank || at >= s->rank)
		return gg_node_error(c->d, GG_MALFORMED, c->node, "axis %lld is out of range for rank %d",
		                     (long long)at, s->rank);
	if (gg_count(&c->out[0]) == 0)
		return true;
	int axis = gg_eval_axis(at, s->rank);
	int64_t n = s->dim[axis], inner = gg_span(s, axis + 1, s->rank), total = gg_span(s, 0, axis) * inner;
	bool lanes = inner == 1 || total < 4096;
	cuda_spread(k, total, 256);
	if (lanes) {
		k->block = n >= 4096 ? 512 : n >= 512 ? 128 : 32;
		k->grid = (unsigned)(total > 1 << 20 ? 1 << 20 : total);
	}
	snprintf(defines, sizeof defines,
	         "#define BD %u\n#define INDEX unsigned long\n#define T %s\n#define C %s\n#define V 4\n"
	         "#define N %lldL\n#define STEP %lldL\n#define OUTER %lldL\n#define PRODUCT %d\n"
	         "#define EXCLUSIVE %d\n#define REVERSE %d\n#define LANES %d\n#define LINES(o) %s\n",
	         k->block, cuda_type(t), gg_dtype_class(t) == 'F' ? "double" : "u64", (long long)n,
	         (long long)inner, (long long)total, !strcmp(c->node->op->name, "CumProd"),
	         gg_get_int(c->node, "exclusive") != 0, gg_get_int(c->node, "reverse") != 0, lanes,
	         lanes ? "for (long o = blockIdx.x; o < OUTER; o += gridDim.x)" : "SPREAD(o, OUTER)");
	return cuda_compile(c->d, defines, text, k);
}

static bool run(gg_call *c)
{
	const cuda_kernel *k = c->state;
	void *arg[] = {c->in[0].data, c->out[0].data};
	return !k->f || cuda_launch(c->d, k, 2, arg);
}

static void release(gg_call *c) { free(c->state); }
const gg_kernel cuda_scan = {"cuda_scan", prepare, run, release};
