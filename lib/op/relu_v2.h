/* A bit for each element of x, 32 in a u32: element i is bit i % 32 of word i / 32. */
#ifndef GG_OP_RELU_V2_H
#define GG_OP_RELU_V2_H

#include "opkit.h"
#include <string.h>

static inline void infer_mask(gg_infer *f, int o, const gg_shape *s)
{
	gg_dim words = s->rank < 0 ? gg_unknown_dim(f, o, 0)
	                           : gg_dim_ceildiv(gg_shape_count_dim(s, 0, s->rank), 32);
	f->out[o].shape = gg_shape_of(1, &words);
}

static inline bool check_mask(gg_infer *f, int i, const gg_shape *s)
{
	const gg_shape *m = &f->in[i].shape;
	if (m->rank >= 0 && m->rank != 1)
		return gg_fail(f, "mask has rank %d, expected 1", m->rank);
	if (m->rank == 1 && gg_shape_known(m) && gg_shape_known(s) &&
	    m->dim[0] != (gg_shape_count(s) + 31) / 32)
		return gg_fail(f, "mask has %lld words for %lld elements", (long long)m->dim[0],
		               (long long)gg_shape_count(s));
	return true;
}

/* y is at hand: the bit of an element is y > 0. */
static inline void pack_mask(const gg_tensor *y, gg_tensor *mask)
{
	uint32_t *word = mask->data;
	if (!mask->dtype)
		return;
	for (int64_t i = 0; i < gg_count(y); i++) {
		uint32_t bit = gg_get_f64(y, i) > 0;
		word[i / 32] = (i % 32 ? word[i / 32] : 0) | bit << i % 32;
	}
}

static inline bool mask_bit(const gg_tensor *mask, int64_t i)
{
	return ((const uint32_t *)mask->data)[i / 32] >> i % 32 & 1;
}

/* ---- in plain ops ------------------------------------------------------------------------------ */
static inline gg_value *mask_const(gg_node *n, gg_dtype t, int64_t count, const int64_t *v)
{
	gg_tensor c = {.dtype = t, .shape = gg_shape_of(1, &count)};
	c.data = gg_alloc(&n->graph->m->arena, (size_t)count * 8);
	for (int64_t i = 0; i < count; i++)
		gg_set_i64(&c, i, v ? v[i] : i);
	return gg_add_tensor(n->graph, "mask.const", &c);
}

static inline gg_value *mask_node(gg_diag *d, gg_node *n, const char *op, gg_value *x, gg_value *y)
{
	return x ? gg_expand_node(d, n, op, 2, (gg_value *[]){x, y}) : 0;
}

static inline gg_value *mask_cast(gg_diag *d, gg_node *n, gg_value *x, gg_dtype t)
{
	const char *name = gg_fresh_name(n->graph, n->out[0]->name);
	if (!x)
		return 0;
	gg_node *c = gg_add_node(n->graph, n, gg_op_find("Cast"), 1, &x, 1, &name);
	gg_set_attr_dtype(c, "to", t);
	gg_merge_loc(c, n);
	return gg_infer_node(d, c) ? c->out[0] : 0;
}

static inline gg_value *mask_shift(gg_diag *d, gg_node *n, gg_value *x, const char *direction)
{
	gg_value *in[] = {x, mask_const(n, GG_U32, 32, 0)};
	const char *name = gg_fresh_name(n->graph, n->out[0]->name);
	if (!x)
		return 0;
	gg_node *s = gg_add_node(n->graph, n, gg_op_find("BitShift"), 2, in, 1, &name);
	gg_set_attr_string(s, "direction", direction);
	gg_merge_loc(s, n);
	return gg_infer_node(d, s) ? s->out[0] : 0;
}

/* x > 0, packed. */
static inline gg_value *expand_pack(gg_diag *d, gg_node *n, gg_value *x)
{
	int64_t count = gg_shape_count(&x->shape), words = (count + 31) / 32;
	gg_tensor none = {.dtype = (gg_dtype)x->dtype, .data = (double[]){0}};
	gg_value *bit = mask_node(d, n, "Greater", x, gg_add_tensor(n->graph, "zero", &none));
	bit = mask_cast(d, n, bit, GG_U32);
	bit = mask_node(d, n, "Reshape", bit, mask_const(n, GG_I64, 1, &count));
	bit = mask_node(d, n, "Pad", bit, mask_const(n, GG_I64, 2, (int64_t[]){0, words * 32 - count}));
	bit = mask_node(d, n, "Reshape", bit, mask_const(n, GG_I64, 2, (int64_t[]){words, 32}));
	bit = mask_shift(d, n, bit, "LEFT");
	gg_value *sum = mask_node(d, n, "ReduceSum", bit, mask_const(n, GG_I64, 1, (int64_t[]){1}));
	return mask_node(d, n, "Reshape", sum, mask_const(n, GG_I64, 1, &words));
}

/* dy where the mask has its bit, else 0. */
static inline gg_value *expand_select(gg_diag *d, gg_node *n, gg_value *dy, gg_value *mask)
{
	int64_t count = gg_shape_count(&dy->shape), words = (count + 31) / 32;
	gg_tensor none = {.dtype = (gg_dtype)dy->dtype, .data = (double[]){0}};
	gg_value *bit = mask_node(d, n, "Reshape", mask, mask_const(n, GG_I64, 2, (int64_t[]){words, 1}));
	bit = mask_shift(d, n, bit, "RIGHT");
	bit = mask_node(d, n, "BitwiseAnd", bit, mask_const(n, GG_U32, 1, (int64_t[]){1}));
	bit = mask_node(d, n, "Reshape", bit, mask_const(n, GG_I64, 1, (int64_t[]){words * 32}));
	gg_value *in[] = {bit, mask_const(n, GG_I64, 1, (int64_t[]){0}), mask_const(n, GG_I64, 1, &count)};
	bit = bit ? gg_expand_node(d, n, "Slice", 3, in) : 0;
	bit = mask_cast(d, n, bit, GG_BOOL);
	bit = mask_node(d, n, "Reshape", bit, mask_const(n, GG_I64, dy->shape.rank, dy->shape.dim));
	gg_value *pick[] = {bit, dy, gg_add_tensor(n->graph, "zero", &none)};
	return bit ? gg_expand_node(d, n, "Where", 3, pick) : 0;
}

static inline bool mask_sizes_known(gg_diag *d, const gg_node *n, const gg_value *x)
{
	return (gg_shape_known(&x->shape) && gg_shape_count(&x->shape) > 0) ||
	       gg_node_error(d, GG_UNSUPPORTED, n, "its mask has no plain form where the shape is not known");
}

static inline bool mask_done(gg_node *n, gg_value *y, gg_value *mask)
{
	gg_replace_value(n->out[0], y);
	if (mask)
		gg_replace_value(n->out[1], mask);
	gg_remove_node(n);
	return true;
}

#endif
