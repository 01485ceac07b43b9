/* Moving elements: every such op is one or more strided copies. An element is its bytes. */
#include "cuda.h"
#include "../move.h"
#include "../op/blocks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one copy ---------------------------------------------------------------------------------- */

const char *cuda_word(size_t bytes)
{
	return bytes == 16 ? "w128" : bytes == 8 ? "u64" : bytes == 4 ? "u32" : bytes == 2 ? "u16" : "u8";
}

/* Elements that move as one: both sides have them side by side, at addresses that allow it. */
static int together(size_t size, int rank, const int64_t *dim, int64_t (*stride)[GG_MAX_RANK],
                    const int64_t *off)
{
	int64_t v = 16 / (int64_t)size;
	for (bool good = false; v > 1 && !good; v = good ? v : v / 2) {
		good = rank > 0 && stride[0][rank - 1] == 1 && stride[1][rank - 1] == 1 &&
		       dim[rank - 1] % v == 0;
		for (int s = 0; s < 2; s++) {
			good = good && off[s] % v == 0;
			for (int i = 0; i < rank - 1; i++)
				good = good && stride[s][i] % v == 0;
		}
	}
	return (int)v;
}

bool cuda_copy_make(gg_diag *d, size_t size, int rank, const int64_t *dims, const int64_t *from,
                    int64_t from_off, const int64_t *to, int64_t to_off, cuda_copy *out)
{
	int64_t dim[GG_MAX_RANK], stride[2][GG_MAX_RANK], off[2] = {from_off, to_off}, total = 1;
	char defines[128];
	gg_buf s = {0};
	memcpy(dim, dims, (size_t)rank * sizeof *dim);
	memcpy(stride[0], from, (size_t)rank * sizeof *from);
	memcpy(stride[1], to, (size_t)rank * sizeof *to);
	for (int i = 0; i < rank; i++)
		total *= dim[i];
	*out = (cuda_copy){
	    .from = from_off * (int64_t)size, .to = to_off * (int64_t)size, .empty = total == 0};
	if (!total)
		return true;
	cuda_merge(&rank, dim, 2, stride);
	int v = together(size, rank, dim, stride, off);
	if (v > 1) {
		dim[rank - 1] /= v;
		total /= v;
		for (int i = 0; i < 2 * (rank - 1); i++)
			stride[i % 2][i / 2] /= v;
	}
	snprintf(defines, sizeof defines, "#define INDEX unsigned%s\n", total >> 31 ? " long" : "");
	const char *t = cuda_word(size * (size_t)v);
	gg_buf_printf(&s, "KERNEL(const %s *in, %s *out)\n{\nSPREAD(i, %lluu) {\n", t, t,
	              (unsigned long long)total);
	cuda_offset(&s, "a", "i", rank, dim, stride[0]);
	cuda_offset(&s, "b", "i", rank, dim, stride[1]);
	gg_buf_str(&s, "\tout[b] = in[a];\n}\n}\n");
	bool good = cuda_compile(d, defines, s.p, &out->k);
	cuda_spread(&out->k, total, 256);
	gg_buf_fini(&s);
	return good;
}

bool cuda_copy_run(gg_diag *d, const cuda_copy *k, const void *in, void *out)
{
	void *arg[] = {(char *)(uintptr_t)in + k->from, (char *)out + k->to};
	return k->empty || cuda_launch(d, &k->k, 2, arg);
}

/* A kernel that gives every element the same value, which is read from in[0], or zero. */
static bool fill_make(gg_diag *d, size_t size, int64_t total, bool zero, cuda_copy *out)
{
	char text[256], defines[64];
	*out = (cuda_copy){.empty = total == 0};
	snprintf(defines, sizeof defines, "#define INDEX unsigned%s\n", total >> 31 ? " long" : "");
	snprintf(text, sizeof text, "KERNEL(const %s *in, %s *out)\n{\nSPREAD(i, %lluu)\n\tout[i] = %s;\n}\n",
	         cuda_word(size), cuda_word(size), (unsigned long long)total, zero ? "0" : "in[0]");
	cuda_spread(&out->k, total, 256);
	return !total || cuda_compile(d, defines, text, &out->k);
}

/* Channels last with more channels than there are: a thread makes those of one position. */
static bool pad_make(gg_diag *d, gg_dtype t, const gg_shape *s, gg_layout from, int64_t channels,
                     cuda_copy *out)
{
	static const char text[] =
	    "KERNEL(const W *in, W *out)\n{\nSPREAD(i, TOTAL) {\n"
	    "\tconst INDEX n = i / POS, p = i % POS;\n"
	    "\tvec<W, CP> v;\n"
	    "\tfor (int c = 0; c < CP; c++)\n"
	    "\t\tv.v[c] = c >= CH ? (W)0 : in[LAST ? (long)i * CH + c : ((long)n * CH + c) * POS + p];\n"
	    "\tif (sizeof(W) * CP <= 16) ((vec<W, CP> *)out)[i] = v;\n"
	    "\telse for (int c = 0; c < CP; c++) out[(long)i * CP + c] = v.v[c];\n}\n}\n";
	int64_t total = s->dim[0], positions = 1;
	char defines[256];
	for (int i = 2; i < s->rank; i++)
		positions *= s->dim[i];
	total *= positions;
	*out = (cuda_copy){.empty = total == 0};
	snprintf(defines, sizeof defines,
	         "#define INDEX unsigned%s\n#define W %s\n#define TOTAL %lluu\n#define POS %lluu\n#define CP "
	         "%lld\n"
	         "#define CH %lld\n#define LAST %d\n",
	         total >> 31 ? " long" : "", cuda_word(gg_dtype_size(t)), (unsigned long long)total,
	         (unsigned long long)positions, (long long)channels, (long long)s->dim[1], from == GG_NHWC);
	cuda_spread(&out->k, total, 256);
	return !total || cuda_compile(d, defines, text, &out->k);
}

bool cuda_reorder_make(gg_diag *d, gg_dtype t, const gg_shape *s, gg_layout from, gg_layout to,
                       int64_t channels, cuda_copy *out)
{
	int64_t dim[GG_MAX_RANK], a[GG_MAX_RANK], b[GG_MAX_RANK];
	int rank = cuda_physical(s, to, dim);
	if (channels > s->dim[1])
		return pad_make(d, t, s, from, channels, out);
	cuda_strides(s, from, s, to, a);
	cuda_strides(s, to, s, to, b);
	return cuda_copy_make(d, gg_dtype_size(t), rank, dim, a, 0, b, 0, out);
}

/* ---- nodes ------------------------------------------------------------------------------------- */

typedef struct step {
	cuda_copy copy;
	int in, out; /* of the call; in -1: nothing is read */
} step;
typedef struct moves {
	int n;
	step *step;
} moves;

static step *add(moves *m, int in, int out)
{
	m->step = gg_xrealloc(m->step, (size_t)(m->n + 1) * sizeof *m->step);
	m->step[m->n] = (step){.in = in, .out = out};
	return &m->step[m->n++];
}

static size_t size_of(const gg_call *c) { return gg_dtype_size(c->out[0].dtype); }

static bool make_transpose(gg_call *c, moves *m)
{
	const gg_shape *x = &c->in[0].shape, *y = &c->out[0].shape;
	const gg_attr *perm = gg_find_attr(c->node, "perm");
	int64_t own[GG_MAX_RANK], from[GG_MAX_RANK], to[GG_MAX_RANK];
	int rank = x->rank;
	gg_strides(x, own);
	gg_strides(y, to);
	for (int i = 0; i < rank; i++)
		from[i] = own[perm ? gg_eval_axis(perm->ints[i], rank) : rank - 1 - i];
	return cuda_copy_make(c->d, size_of(c), rank, y->dim, from, 0, to, 0, &add(m, 0, 0)->copy);
}

static bool make_expand(gg_call *c, moves *m)
{
	const gg_shape *y = &c->out[0].shape;
	int64_t from[GG_MAX_RANK], to[GG_MAX_RANK];
	gg_bcast_strides(&c->in[0].shape, y, from);
	gg_strides(y, to);
	return cuda_copy_make(c->d, size_of(c), y->rank, y->dim, from, 0, to, 0, &add(m, 0, 0)->copy);
}

static bool make_same(gg_call *c, moves *m)
{
	int64_t n = gg_count(&c->out[0]), one = 1;
	return cuda_copy_make(c->d, size_of(c), 1, &n, &one, 0, &one, 0, &add(m, 0, 0)->copy);
}

/* The axis in the order of memory. */
static int physical_axis(int axis, int rank, gg_layout l)
{
	return l != GG_NHWC || rank < 3 || axis == 0 ? axis : axis == 1 ? rank - 1 : axis - 1;
}

/* Pieces along an axis: of the output (Concat) or of the input (Split). */
static bool make_pieces(gg_call *c, moves *m, bool join)
{
	const gg_tensor *whole = join ? &c->out[0] : &c->in[0];
	int n = join ? gg_nargs(c->node) : c->nout, rank = whole->shape.rank;
	gg_layout l = join ? (gg_layout)c->out_layout[0] : GG_PLAIN;
	int axis = physical_axis(gg_eval_axis(gg_get_int(c->node, "axis"), rank), rank, l);
	int64_t dim[GG_MAX_RANK], big[GG_MAX_RANK], small[GG_MAX_RANK], all[GG_MAX_RANK], at = 0;
	gg_shape s;
	cuda_physical(&whole->shape, l, all);
	s = gg_shape_of(rank, all);
	gg_strides(&s, big);
	for (int i = 0; i < n; i++) {
		const gg_tensor *t = join ? &c->in[i] : &c->out[i];
		if (t->dtype == GG_NONE)
			continue;
		cuda_physical(&t->shape, l, dim);
		s = gg_shape_of(rank, dim);
		gg_strides(&s, small);
		step *p = add(m, join ? i : 0, join ? 0 : i);
		if (!cuda_copy_make(c->d, size_of(c), rank, dim, join ? small : big,
		                    join ? 0 : at * big[axis], join ? big : small, join ? at * big[axis] : 0,
		                    &p->copy))
			return false;
		at += dim[axis];
	}
	return true;
}

bool cuda_known(const gg_call *c, int i)
{
	if (i >= c->nin || !c->in[i].dtype || c->in_const[i])
		return true;
	return gg_node_error(c->d, GG_UNSUPPORTED, c->node, "input %d is not known before the run", i);
}

static int64_t number(const gg_call *c, int i, int64_t j, int64_t absent)
{
	return i < c->nin && c->in[i].dtype ? gg_get_i64(&c->in[i], j) : absent;
}

static bool make_slice(gg_call *c, moves *m)
{
	const gg_shape *x = &c->in[0].shape, *y = &c->out[0].shape;
	int64_t from[GG_MAX_RANK], to[GG_MAX_RANK], off = 0;
	for (int i = 1; i < 5; i++)
		if (!cuda_known(c, i))
			return false;
	gg_strides(x, from);
	gg_strides(y, to);
	for (int64_t j = 0; j < gg_count(&c->in[1]); j++) {
		int axis = (int)gg_eval_axis(number(c, 3, j, j), x->rank);
		int64_t step = number(c, 4, j, 1), start = number(c, 1, j, 0), d = x->dim[axis];
		int64_t lo = 0, hi = step > 0 ? d : d - 1;
		start += start < 0 ? d : 0;
		start = start < lo ? lo : start > hi ? hi : start;
		off += start * from[axis];
		from[axis] *= step;
	}
	return cuda_copy_make(c->d, size_of(c), y->rank, y->dim, from, off, to, 0, &add(m, 0, 0)->copy);
}

/* Element i of an axis, outside or inside of the n that are there. */
static const char source_text[] = "FN long source(long i, long n) {\n"
                                  "\tconst long period = WRAP ? n : 2 * (n - 1);\n"
                                  "\tif (EDGE) return i < 0 ? 0 : i >= n ? n - 1 : i;\n"
                                  "\tif (!period) return 0;\n"
                                  "\ti = (i % period + period) % period;\n"
                                  "\treturn i < n ? i : period - i;\n}\n";

/* Reads again what is there: count[i] elements of axis i, from `src` on. */
static bool make_repeat(gg_call *c, moves *m, const int64_t *count, const int64_t *lead, int64_t src)
{
	const gg_shape *x = &c->in[0].shape, *y = &c->out[0].shape;
	int64_t from[GG_MAX_RANK], total = gg_count(&c->out[0]);
	const char *w = cuda_word(size_of(c));
	char mode = gg_get_string(c->node, "mode")[0];
	cuda_copy *out = &add(m, 0, 0)->copy;
	gg_buf b = {0}, s = {0};
	*out = (cuda_copy){.empty = total == 0};
	if (!total)
		return true;
	for (int i = 0; i < y->rank; i++)
		if (!count[i])
			return gg_node_error(c->d, GG_MALFORMED, c->node,
			                     "axis %d is empty: nothing to repeat", i);
	gg_strides(x, from);
	gg_buf_printf(&b, "#define INDEX unsigned%s\n#define WRAP %d\n#define EDGE %d\n",
	              total >> 31 ? " long" : "", mode == 'w', mode == 'e');
	gg_buf_printf(
	    &s, "%sKERNEL(const %s *in, %s *out)\n{\nSPREAD(t, %lluu) {\n\tINDEX r = t; long o = %lldL;\n",
	    source_text, w, w, (unsigned long long)total, (long long)src);
	for (int i = y->rank; i-- > 0;)
		gg_buf_printf(&s, "\to += source((long)(r %% %lldu) - %lldL, %lldL) * %lldL; r /= %lldu;\n",
		              (long long)y->dim[i], (long long)lead[i], (long long)count[i],
		              (long long)from[i], (long long)y->dim[i]);
	gg_buf_str(&s, "\tout[t] = in[o];\n}\n}\n");
	bool good = cuda_compile(c->d, b.p, s.p, &out->k);
	cuda_spread(&out->k, total, 256);
	gg_buf_fini(&b);
	gg_buf_fini(&s);
	return good;
}

static bool make_pad(gg_call *c, moves *m)
{
	const gg_shape *x = &c->in[0].shape, *y = &c->out[0].shape;
	bool value = c->nin > 2 && c->in[2].dtype;
	int64_t from[GG_MAX_RANK], to[GG_MAX_RANK], dim[GG_MAX_RANK], lead[GG_MAX_RANK] = {0};
	int64_t src = 0, dst = 0, n;
	if (!cuda_known(c, 1) || !cuda_known(c, 3))
		return false;
	n = gg_count(&c->in[1]) / 2;
	gg_strides(x, from);
	gg_strides(y, to);
	memcpy(dim, x->dim, sizeof dim);
	for (int64_t j = 0; j < n; j++) {
		int axis = (int)gg_eval_axis(number(c, 3, j, j), x->rank);
		int64_t before = number(c, 1, j, 0), after = number(c, 1, n + j, 0);
		lead[axis] = before > 0 ? before : 0;
		src += before < 0 ? -before * from[axis] : 0;
		dst += lead[axis] * to[axis];
		dim[axis] += (before < 0 ? before : 0) + (after < 0 ? after : 0);
		dim[axis] = dim[axis] < 0 ? 0 : dim[axis];
	}
	if (gg_get_string(c->node, "mode")[0] != 'c')
		return make_repeat(c, m, dim, lead, src);
	return fill_make(c->d, size_of(c), gg_count(&c->out[0]), !value, &add(m, value ? 2 : -1, 0)->copy) &&
	       cuda_copy_make(c->d, size_of(c), x->rank, dim, from, src, to, dst, &add(m, 0, 0)->copy);
}

/* DepthToSpace and SpaceToDepth, in the order in which the result lies. */
static bool make_blocks(gg_call *c, moves *m, bool to_wide)
{
	const gg_shape *x = &c->in[0].shape, *y = &c->out[0].shape;
	int64_t dim[6], deep[6], flat[6], in[GG_MAX_RANK], out[GG_MAX_RANK];
	int64_t *from = to_wide ? deep : flat, *to = to_wide ? flat : deep;
	cuda_strides(x, (gg_layout)c->in_layout[0], x, GG_PLAIN, in);
	cuda_strides(y, (gg_layout)c->out_layout[0], y, GG_PLAIN, out);
	blocks_of(c->node, to_wide ? y : x, to_wide ? in : out, to_wide ? out : in, dim, deep, flat);
	for (int i = 1; i < 6; i++)
		for (int j = i; j > 0 && to[j] > to[j - 1]; j--)
			for (int k = 0; k < 3; k++) {
				int64_t *a = k == 0 ? dim : k == 1 ? from : to, t = a[j];
				a[j] = a[j - 1];
				a[j - 1] = t;
			}
	return cuda_copy_make(c->d, size_of(c), 6, dim, from, 0, to, 0, &add(m, 0, 0)->copy);
}

static bool make_reorder(gg_call *c, moves *m)
{
	return cuda_reorder_make(c->d, c->out[0].dtype, &c->in[0].shape, (gg_layout)c->in_layout[0],
	                         (gg_layout)c->out_layout[0], 0, &add(m, 0, 0)->copy);
}

static bool prepare(gg_call *c)
{
	const char *name = c->node->op->name;
	moves *m = c->state = gg_xcalloc(1, sizeof *m);
	if (!strcmp(name, "Transpose"))
		return make_transpose(c, m);
	if (!strcmp(name, "Concat") || !strcmp(name, "Split"))
		return make_pieces(c, m, *name == 'C');
	if (!strcmp(name, "Slice"))
		return make_slice(c, m);
	if (!strcmp(name, "Expand"))
		return make_expand(c, m);
	if (!strcmp(name, "Pad"))
		return make_pad(c, m);
	if (!strcmp(name, "DepthToSpace") || !strcmp(name, "SpaceToDepth"))
		return make_blocks(c, m, *name == 'D');
	if (!strcmp(name, "Reorder"))
		return make_reorder(c, m);
	return make_same(c, m);
}

static bool run(gg_call *c)
{
	const moves *m = c->state;
	for (int i = 0; i < m->n; i++) {
		const step *s = &m->step[i];
		if (!cuda_copy_run(c->d, &s->copy, s->in < 0 ? NULL : c->in[s->in].data, c->out[s->out].data))
			return false;
	}
	return true;
}

static void release(gg_call *c)
{
	moves *m = c->state;
	if (m)
		free(m->step);
	free(m);
}

const gg_kernel cuda_move = {"cuda_move", prepare, run, release};
