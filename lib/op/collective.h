/* Collectives: the group, its size, and reductions over it. */
#ifndef GG_OP_COLLECTIVE_H
#define GG_OP_COLLECTIVE_H

#include "../comm.h"
#include "move.h"
#include <string.h>

/* group; ranks in it, 0 where only the run tells; fusion: nodes of one number may be merged, 0 never;
 * index: their order among those. */
#define GG_GROUP_ATTRS \
	{"group", GG_ATTR_STRING, false, "\"world\""}, {"rank_size", GG_ATTR_INT, false, "0"}, \
	    {"fusion", GG_ATTR_INT, false, "0"}, \
	{ \
		"index", GG_ATTR_INT, false, "0" \
	}
#define GG_COLLECTIVE_FLAGS GG_NOFOLD

static inline gg_dim group_dim(gg_infer *f)
{
	int64_t n = gg_group_size(f->n);
	return n > 0 ? n : gg_dim_sym("world");
}

static inline bool infer_members(gg_infer *f)
{
	if (f->nin != f->nout)
		return gg_fail(f, "it has %d outputs for %d inputs", f->nout, f->nin);
	for (int i = 0; i < f->nout; i++) {
		if (!f->n->in[i].value)
			return gg_fail(f, "input %d is missing", i);
		f->out[i].dtype = f->in[i].dtype;
		f->out[i].shape = f->in[i].shape;
	}
	return true;
}

static inline bool has_rows(gg_infer *f, int i)
{
	return f->in[i].shape.rank != 0 || gg_fail(f, "input %d has rank 0, expected at least 1", i);
}

static const char *const reductions[] = {"sum", "mean", "prod", "min", "max"};
enum { SUM, MEAN, PROD, MIN, MAX };

static inline int reduction_of(const gg_node *n)
{
	const char *name = gg_get_string(n, "reduction");
	for (int i = 0; i < 5; i++)
		if (!strcmp(reductions[i], name))
			return i;
	return -1;
}

static inline bool check_reduction(gg_infer *f)
{
	return reduction_of(f->n) >= 0 || gg_fail(f, "reduction '%s' is none of sum, mean, prod, min, max",
	                                          gg_get_string(f->n, "reduction"));
}

static inline double fold_f64(int op, double a, double b)
{
	if (op == MIN || op == MAX)
		return a != a || b != b ? a + b : (op == MIN) == (b < a) ? b : a;
	return op == PROD ? a * b : a + b;
}

/* In a u64 the greater ones have the top bit. */
static inline int64_t fold_i64(int op, int64_t a, int64_t b, bool u)
{
	if (op == MIN || op == MAX)
		return (op == MIN) == (u ? (uint64_t)b < (uint64_t)a : b < a) ? b : a;
	return (int64_t)(op == PROD ? (uint64_t)a * (uint64_t)b : (uint64_t)a + (uint64_t)b);
}

/* Element k of input i over all members, stored as element `to` of t. */
static inline void reduce_one(int n, gg_eval *const *m, int i, int64_t k, gg_tensor *t, int64_t to)
{
	int op = reduction_of(m[0]->n);
	bool u = t->dtype == GG_U64;
	if (gg_dtype_class(t->dtype) == 'F') {
		double acc = gg_get_f64(&m[0]->in[i], k);
		for (int r = 1; r < n; r++)
			acc = fold_f64(op, acc, gg_get_f64(&m[r]->in[i], k));
		gg_set_f64(t, to, op == MEAN ? acc / n : acc);
		return;
	}
	int64_t acc = gg_get_i64(&m[0]->in[i], k);
	__int128 sum = 0; /* of a mean: it may need more than 64 bits */
	for (int r = 0; r < n; r++) {
		int64_t x = gg_get_i64(&m[r]->in[i], k);
		sum += u ? (__int128)(uint64_t)x : x;
		acc = r ? fold_i64(op, acc, x, u) : x;
	}
	gg_set_i64(t, to, op == MEAN ? (int64_t)(sum / n) : acc);
}

static inline void copy_rows(gg_tensor *to, int64_t at, const gg_tensor *from, int64_t first, int64_t count)
{
	size_t size = gg_dtype_size(to->dtype);
	if (count && to->dtype)
		memcpy((char *)to->data + (size_t)at * size, (const char *)from->data + (size_t)first * size,
		       (size_t)count * size);
}

#endif
