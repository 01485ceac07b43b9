/* The cuda target: its rows, and the conditions under which its kernels take a node. */
#include "../target.h"
#include "../window.h"
#include <string.h>

#define F32 GG_DT(GG_F32)
#define F64 GG_DT(GG_F64)
#define FLOATS GG_FLOATS
#define WORDS (GG_DT(GG_I64) | GG_DT(GG_I32) | GG_DT(GG_U64) | GG_DT(GG_U32))
#define QUANTS (GG_DT(GG_U8) | GG_DT(GG_I8) | GG_DT(GG_U16) | GG_DT(GG_I16))
#define HALVES (GG_DT(GG_F16) | GG_DT(GG_BF16))
#define NUMBERS (GG_NUMBERS | GG_DT(GG_BOOL))
#define MOVABLE (GG_ANY & ~GG_DT(GG_STRING))
#define BYTES (MOVABLE & ~(GG_DT(GG_I4) | GG_DT(GG_U4))) /* as many as their bits say */
#define P (1u << GG_PLAIN)
#define PN (1u << GG_PLAIN | 1u << GG_NHWC)
#define MIX (PN | GG_MIXED)
#define MOVES (MIX | GG_MOVES)
#define BEST (MIX | GG_BEST_NHWC)

static bool no(const char **why, const char *what)
{
	*why = what;
	return false;
}

static int rank_of(const gg_node *n) { return n->in[0].value->shape.rank; }

static bool has_rank(const gg_node *n, const char **why, int min, int max)
{
	int rank = rank_of(n);
	if (rank < 0)
		return no(why, "input 0: rank not known");
	return (rank >= min && rank <= max) || no(why, "input 0: rank");
}

static bool ok_rank1(const gg_node *n, const char **why) { return has_rank(n, why, 1, GG_MAX_RANK); }
static bool ok_rank2(const gg_node *n, const char **why) { return has_rank(n, why, 2, GG_MAX_RANK); }
static bool ok_spatial(const gg_node *n, const char **why) { return has_rank(n, why, 3, GG_MAX_RANK); }
static bool ok_conv(const gg_node *n, const char **why) { return has_rank(n, why, 3, 5); }

static bool ok_batchnorm(const gg_node *n, const char **why)
{
	if (gg_op_attr(n->op, "training_mode") && gg_get_int(n, "training_mode"))
		return no(why, "training_mode");
	for (int i = 1; i < n->nout; i++)
		if (n->out[i])
			return no(why, "output 1");
	return has_rank(n, why, 2, GG_MAX_RANK);
}

/* Scale and bias have the shape of the axes normalised over. */
static bool ok_norm(const gg_node *n, const char **why)
{
	const gg_shape *x = &n->in[0].value->shape;
	if (!has_rank(n, why, 1, GG_MAX_RANK))
		return false;
	if (gg_out(n, 1) || gg_out(n, 2))
		return no(why, "output 1");
	int64_t axis = gg_get_int(n, "axis");
	int from = (int)(axis < 0 ? axis + x->rank : axis);
	for (int i = 1; i < gg_nargs(n); i++) {
		const gg_value *v = gg_in(n, i);
		if (!v)
			continue;
		if (v->shape.rank != x->rank - from)
			return no(why, "shape of scale or bias");
		for (int k = 0; k < v->shape.rank; k++)
			if (v->shape.dim[k] != x->dim[from + k])
				return no(why, "shape of scale or bias");
	}
	return true;
}

/* Elements of a head of input i, which has so many heads; below 0: not known. */
static int64_t head_size(const gg_node *n, int i, const char *heads)
{
	const gg_shape *s = &gg_in(n, i)->shape;
	gg_dim last = s->rank < 3 ? -1 : s->dim[s->rank - 1];
	if (s->rank < 3 || !gg_dim_known(last))
		return -1;
	return s->rank == 4 ? last : last / gg_get_int(n, heads);
}

static bool ok_heads(int64_t size, const char **why)
{
	if (size < 0)
		return no(why, "the size of heads is not known");
	return (size > 0 && size <= 256) || no(why, "the size of heads");
}

static bool ok_mask(const gg_value *m, const char **why)
{
	return !m || (m->shape.rank >= 0 && NUMBERS & GG_DT(m->dtype)) ||
	       no(why, "dtype or rank of the mask");
}

static bool ok_attention(const gg_node *n, const char **why)
{
	const gg_attr *precision = gg_find_attr(n, "softmax_precision");
	gg_dtype t = gg_in(n, 0)->dtype;
	if (!gg_out(n, 0))
		return no(why, "output 0 is not read");
	if (gg_out(n, 3))
		return no(why, "output 3: the scores");
	if (precision && precision->i == 11 && t != GG_F64)
		return no(why, "softmax_precision");
	for (int i = 1; i < gg_nargs(n); i++)
		if (gg_in(n, i) && i != 3 && i != 6 && gg_in(n, i)->dtype != t)
			return no(why, "several dtypes");
	return ok_mask(gg_in(n, 3), why) && ok_heads(head_size(n, 0, "q_num_heads"), why) &&
	       ok_heads(head_size(n, 2, "kv_num_heads"), why);
}

static bool ok_packed(const gg_node *n, const char **why)
{
	const gg_shape *x = &gg_in(n, 0)->shape;
	bool known = x->rank == 3 && gg_dim_known(x->dim[2]);
	return ok_mask(gg_in(n, 1), why) &&
	       ok_heads(known ? x->dim[2] / 3 / gg_get_int(n, "heads") : -1, why);
}

/* Tensor cores take pieces of 8. */
static bool ok_attention_tf32(const gg_node *n, const char **why)
{
	return ok_attention(n, why) &&
	       ((head_size(n, 0, "q_num_heads") % 8 == 0 && head_size(n, 2, "kv_num_heads") % 8 == 0) ||
	        no(why, "the size of heads"));
}

static bool ok_packed_tf32(const gg_node *n, const char **why)
{
	return ok_packed(n, why) && (gg_in(n, 0)->shape.dim[2] / 3 / gg_get_int(n, "heads") % 8 == 0 ||
	                             no(why, "the size of heads"));
}

static bool is_fixed(const gg_value *v) { return !v || gg_is_const(v) || v->kind == GG_PARAM || v->content; }

static bool ok_reduce(const gg_node *n, const char **why)
{
	return is_fixed(gg_in(n, 1)) || no(why, "input 1: axes are not constant");
}

/* One scale, or one for each place on an axis; zero points likewise. */
static bool ok_quant(const gg_node *n, const char **why)
{
	const gg_value *s = gg_in(n, 1), *z = gg_in(n, 2);
	if (gg_get_int(n, "block_size") || s->shape.rank < 0 || s->shape.rank > 1)
		return no(why, "input 1: scales by blocks");
	return !z || gg_shape_eq(&z->shape, &s->shape) || no(why, "input 2: shape");
}

static bool ok_fixed(const gg_node *n, const char **why)
{
	for (int i = 1; i < gg_nargs(n); i++)
		if (!is_fixed(gg_in(n, i)))
			return no(why, "bounds are not constant");
	return true;
}

static bool ok_scan(const gg_node *n, const char **why)
{
	if (!is_fixed(gg_in(n, 1)))
		return no(why, "input 1: axis is not constant");
	return has_rank(n, why, 1, GG_MAX_RANK);
}

static bool ok_dropout(const gg_node *n, const char **why)
{
	return (is_fixed(gg_in(n, 1)) && is_fixed(gg_in(n, 2))) ||
	       no(why, "input 1 or 2: ratio or mode is not constant");
}

static bool ok_topk(const gg_node *n, const char **why)
{
	if (!is_fixed(gg_in(n, 1)))
		return no(why, "input 1: k is not known before the run");
	return has_rank(n, why, 1, GG_MAX_RANK);
}

static bool ok_resize(const gg_node *n, const char **why)
{
	for (int i = 1; i < gg_nargs(n); i++)
		if (!is_fixed(gg_in(n, i)))
			return no(why, "roi, scales or sizes are not constant");
	return has_rank(n, why, 0, GG_MAX_RANK);
}

static bool ok_pad(const gg_node *n, const char **why)
{
	return (is_fixed(gg_in(n, 1)) && is_fixed(gg_in(n, 3))) || no(why, "pads are not constant");
}

/* ---- stems ---------------------------------------------------------------------------------------- */

/* Windows of rows of pixels, every second one, of up to 8 places with what evens their beginning. */
static bool stem_conv(const gg_node *n)
{
	const gg_value *x = gg_in(n, 0), *w = gg_in(n, 1);
	gg_diag silent = {.silent = true};
	gg_window o;
	if (strcmp(n->op->name, "Conv") && strcmp(n->op->name, "FusedConv"))
		return false;
	if (!(HALVES & GG_DT(x->dtype)) || x->layout != GG_PLAIN || x->shape.rank != 4 ||
	    !gg_shape_known(&w->shape) || w->shape.dim[0] != 64 ||
	    !gg_window_conv(&silent, n, &x->shape, &w->shape, &o))
		return false;
	for (int i = 0; i < 2; i++)
		if (!gg_dim_known(o.in[i]) || o.in[i] > 4096 || o.out[i] < 1 || o.stride[i] != 2 ||
		    o.dilation[i] != 1 || o.begin[i] < 0 || o.begin[i] > 6)
			return false;
	return o.group == 1 && o.in[1] % 8 == 0 && o.kernel[1] + o.begin[1] % 2 <= 8 && o.kernel[0] <= 8 &&
	       w->shape.dim[1] * o.kernel[0] <= 24;
}

/* The largest of three by three, every second one, whose first begins before the first row and column. */
static bool stem_pool(const gg_node *n)
{
	gg_diag silent = {.silent = true};
	gg_window o;
	if (strcmp(n->op->name, "MaxPool") || gg_out(n, 1) || n->out[0]->layout != GG_NHWC ||
	    n->in[0].value->layout != GG_NHWC || !gg_window_pool(&silent, n, &n->in[0].value->shape, &o))
		return false;
	for (int i = 0; i < 2; i++)
		if (o.kernel[i] != 3 || o.stride[i] != 2 || o.dilation[i] != 1 || o.begin[i] != 1 ||
		    o.out[i] < 1)
			return false;
	return o.out[1] <= 112;
}

/* The convolution that an image network begins with, its Relu and the pool behind it: lib/cuda/stem.c. */
static bool ends(const gg_node *n, int len)
{
	const gg_node *last = n;
	for (int i = 1; i < len; i++)
		last = last->next;
	const char *act = strcmp(n->op->name, "FusedConv") ? "" : gg_get_string(n, "activation");
	bool relu = len == 1 ? !strcmp(act, "Relu")
	                     : !strcmp(last->op->name, "Relu") || !strcmp(last->op->name, "BatchNormRelu");
	return relu && len <= 3 && stem_pool(last->next) && stem_conv(n);
}

#define ROW(kernel, op, types, slot, layouts, need, ok) {#kernel, #op, types, slot, layouts, need, ok},
static const gg_row rows[] = {
#include "cuda.inc"
};
#undef ROW

const gg_target gg_target_cuda = {"cuda", "cuda", rows,    sizeof rows / sizeof *rows,
                                  true,   true,   1 << 20, ends};
