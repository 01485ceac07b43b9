/* What GridSample and its gradient share: which elements a place reads, with what weights, and how the
 * weights change with the place. */
#ifndef GG_OP_GRIDSAMPLE_H
#define GG_OP_GRIDSAMPLE_H

#include "gradkit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum grid_mode { GRID_NEAREST, GRID_LINEAR, GRID_CUBIC } grid_mode;
typedef enum grid_padding { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION } grid_padding;

#define GRID_ATTRS \
	(const gg_attr_spec[]) \
	{ \
		{"align_corners", GG_ATTR_INT, .def = "0"}, {"mode", GG_ATTR_STRING, .def = "\"linear\""}, \
		    {"padding_mode", GG_ATTR_STRING, .def = "\"zeros\""}, \
		{ \
			0 \
		} \
	}

static inline int grid_choice(const gg_node *n, const char *attr, const char *const *names)
{
	const char *s = gg_get_string(n, attr);
	for (int i = 0; names[i]; i++)
		if (!strcmp(names[i], s))
			return i;
	return -1;
}

static inline int grid_mode_of(const gg_node *n)
{
	static const char *const names[] = {"nearest", "linear", "cubic", 0};
	return grid_choice(n, "mode", names);
}

static inline int grid_padding_of(const gg_node *n)
{
	static const char *const names[] = {"zeros", "border", "reflection", 0};
	return grid_choice(n, "padding_mode", names);
}

/* The shape of x sampled by grid; of rank -1 where that is not known. */
static inline bool grid_shape(gg_infer *f, const gg_shape *x, const gg_shape *g, gg_shape *y)
{
	y->rank = -1;
	if (grid_mode_of(f->n) < 0)
		return gg_unsupported(f, "mode '%s'", gg_get_string(f->n, "mode"));
	if (grid_padding_of(f->n) < 0)
		return gg_unsupported(f, "padding_mode '%s'", gg_get_string(f->n, "padding_mode"));
	if (x->rank < 0 || g->rank < 0)
		return true;
	if (x->rank < 3 || g->rank != x->rank)
		return gg_fail(f, "input and grid have ranks %d and %d, expected the same of at least 3",
		               x->rank, g->rank);
	if (grid_mode_of(f->n) == GRID_CUBIC && x->rank != 4)
		return gg_unsupported(f, "mode 'cubic' on rank %d", x->rank);
	gg_dim places = g->dim[g->rank - 1];
	if (gg_dim_known(places) && places != x->rank - 2)
		return gg_fail(f, "last axis of the grid has %lld elements, expected %d", (long long)places,
		               x->rank - 2);
	if (gg_dim_known(x->dim[0]) && gg_dim_known(g->dim[0]) && x->dim[0] != g->dim[0])
		return gg_fail(f, "grid has batch %lld, the input has %lld", (long long)g->dim[0],
		               (long long)x->dim[0]);
	*y = *x;
	for (int i = 2; i < x->rank; i++)
		y->dim[i] = g->dim[i - 1];
	return true;
}

/* What one output element reads: per axis a few positions and weights, and how these grow with the grid's
 * number. */
typedef struct grid_taps {
	int count;
	int64_t at[4]; /* -1: outside, counts as 0 */
	double weight[4], slope[4];
} grid_taps;

typedef struct grid_sampler {
	grid_mode how;
	grid_padding pad;
	bool align;
} grid_sampler;

static inline grid_sampler grid_sampler_of(const gg_node *n)
{
	return (grid_sampler){(grid_mode)grid_mode_of(n), (grid_padding)grid_padding_of(n),
	                      gg_get_int(n, "align_corners")};
}

/* x thrown back at lo and hi; *way gets its sign where the result goes the other way. */
static inline double grid_reflect(double x, double lo, double hi, double *way)
{
	double span = hi - lo, turn;
	*way = span <= 0 || !isfinite(x) ? 0 : x < lo ? -1 : 1;
	if (*way == 0)
		return lo;
	x = fabs(x - lo);
	turn = floor(x / span);
	x -= turn * span;
	if (fmod(turn, 2) == 0)
		return lo + x;
	*way = -*way;
	return hi - x;
}

static inline double grid_reflected(const grid_sampler *s, double x, double last, double *way)
{
	return s->align ? grid_reflect(x, 0, last, way) : grid_reflect(x, -0.5, last + 0.5, way);
}

/* The position that stands for place x, after padding; -1: none. */
static inline int64_t grid_position(const grid_sampler *s, double x, int64_t n)
{
	double last = (double)(n - 1), way;
	if (s->pad == GRID_REFLECTION)
		x = grid_reflected(s, x, last, &way);
	if (s->pad == GRID_ZEROS)
		return x >= 0 && x <= last ? (int64_t)x : -1;
	return !(x > 0) ? 0 : x > last ? n - 1 : (int64_t)x;
}

/* Of the elements around a place, t behind the second of them. */
static inline void grid_cubic(double t, double *w, double *slope)
{
	const double a = -0.75;
	for (int i = 0; i < 4; i++) {
		double x = fabs(i - 1 - t), way = i - 1 - t > 0 ? -1 : 1;
		w[i] = x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1
		              : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
		slope[i] = way *
		           (x <= 1 ? (3 * (a + 2) * x - 2 * (a + 3)) * x : (3 * a * x - 10 * a) * x + 8 * a);
	}
}

static inline void grid_taps_of(const grid_sampler *s, double g, int64_t n, grid_taps *t)
{
	double last = (double)(n - 1), x = s->align ? (g + 1) / 2 * last : ((g + 1) * (double)n - 1) / 2;
	double speed = (s->align ? last : (double)n) / 2, way = 1; /* of x, as g grows */
	/* Padding moves the place itself but for cubic, where it moves the positions around it. */
	if (s->how != GRID_CUBIC && s->pad == GRID_BORDER) {
		way = x > 0 && x < last;
		x = !(x > 0) ? 0 : x > last ? last : x;
	}
	if (s->how != GRID_CUBIC && s->pad == GRID_REFLECTION)
		x = grid_reflected(s, x, last, &way);
	double below = floor(x), part = x - below;
	t->count = s->how == GRID_CUBIC ? 4 : s->how == GRID_LINEAR ? 2 : 1;
	if (s->how == GRID_NEAREST)
		below = rint(x);
	t->weight[0] = s->how == GRID_LINEAR ? 1 - part : 1;
	t->weight[1] = part;
	t->slope[0] = s->how == GRID_LINEAR ? -1 : 0;
	t->slope[1] = 1;
	if (s->how == GRID_CUBIC)
		grid_cubic(part, t->weight, t->slope);
	for (int i = 0; i < t->count; i++) {
		t->at[i] = grid_position(s, below + i - (s->how == GRID_CUBIC), n);
		t->slope[i] *= speed * way;
	}
}

/* What the place of that number reads, along each axis of a plane. */
static inline void grid_place(const grid_sampler *s, const gg_shape *x, const gg_tensor *grid, int64_t place,
                              grid_taps *t)
{
	int axes = x->rank - 2;
	for (int i = 0; i < axes; i++)
		grid_taps_of(s, gg_get_f64(grid, place * axes + axes - 1 - i), x->dim[i + 2], &t[i]);
}

/* A plane at a place; along axis `by` (-1: none) how it changes there. */
static inline double grid_sample(const grid_taps *t, const gg_shape *x, int axis, int by, const double *plane,
                                 int64_t at)
{
	double sum = 0;
	if (axis == x->rank)
		return plane[at];
	for (int i = 0; i < t->count; i++)
		if (t->at[i] >= 0)
			sum += (axis == by ? t->slope : t->weight)[i] *
			       grid_sample(t + 1, x, axis + 1, by, plane, at * x->dim[axis] + t->at[i]);
	return sum;
}

#endif
