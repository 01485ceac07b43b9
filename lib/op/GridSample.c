/* GridSample: the input read at the places that grid names, from -1 at one end of an axis to 1 at
 * the other. The last axis of grid holds a place, last spatial axis first. */
#include "nnkit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum mode { NEAREST, LINEAR, CUBIC } mode;
typedef enum padding { ZEROS, BORDER, REFLECTION } padding;

static int choice(const gg_node *n, const char *attr, const char *const *names)
{
	const char *s = gg_get_string(n, attr);
	for (int i = 0; names[i]; i++)
		if (!strcmp(names[i], s))
			return i;
	return -1;
}

static int mode_of(const gg_node *n)
{
	static const char *const now[] = {"nearest", "linear", "cubic", 0};
	return choice(n, "mode", now);
}

static int padding_of(const gg_node *n)
{
	static const char *const names[] = {"zeros", "border", "reflection", 0};
	return choice(n, "padding_mode", names);
}

static bool infer(gg_infer *f)
{
	const gg_shape *x = &f->in[0].shape, *g = &f->in[1].shape;
	if (mode_of(f->n) < 0)
		return gg_unsupported(f, "mode '%s'", gg_get_string(f->n, "mode"));
	if (padding_of(f->n) < 0)
		return gg_unsupported(f, "padding_mode '%s'", gg_get_string(f->n, "padding_mode"));
	if (x->rank < 0 || g->rank < 0)
		return true;
	if (x->rank < 3 || g->rank != x->rank)
		return gg_fail(f, "input and grid have ranks %d and %d, expected the same of at least 3",
		               x->rank, g->rank);
	if (mode_of(f->n) == CUBIC && x->rank != 4)
		return gg_unsupported(f, "mode 'cubic' on rank %d", x->rank);
	gg_dim places = g->dim[g->rank - 1];
	if (gg_dim_known(places) && places != x->rank - 2)
		return gg_fail(f, "last axis of the grid has %lld elements, expected %d", (long long)places,
		               x->rank - 2);
	if (gg_dim_known(x->dim[0]) && gg_dim_known(g->dim[0]) && x->dim[0] != g->dim[0])
		return gg_fail(f, "grid has batch %lld, the input has %lld", (long long)g->dim[0],
		               (long long)x->dim[0]);
	f->out[0].shape = *x;
	for (int i = 2; i < x->rank; i++)
		f->out[0].shape.dim[i] = g->dim[i - 1];
	return true;
}

/* What one output element reads: per axis a few positions and weights. */
typedef struct taps {
	int count;
	int64_t at[4]; /* -1: outside, counts as 0 */
	double weight[4];
} taps;

typedef struct sampler {
	mode how;
	padding pad;
	bool align;
} sampler;

static double reflect(double x, double lo, double hi)
{
	double span = hi - lo, turn;
	if (span <= 0 || !isfinite(x))
		return lo;
	x = fabs(x - lo);
	turn = floor(x / span);
	x -= turn * span;
	return fmod(turn, 2) == 0 ? lo + x : hi - x;
}

/* The position that stands for place x, after padding; -1: none. */
static int64_t position(const sampler *s, double x, int64_t n)
{
	double last = (double)(n - 1);
	if (s->pad == REFLECTION)
		x = s->align ? reflect(x, 0, last) : reflect(x, -0.5, last + 0.5);
	if (s->pad == ZEROS)
		return x >= 0 && x <= last ? (int64_t)x : -1;
	return !(x > 0) ? 0 : x > last ? n - 1 : (int64_t)x;
}

static void cubic_weights(double t, double *w)
{
	const double a = -0.75;
	for (int i = 0; i < 4; i++) {
		double x = fabs(i - 1 - t);
		w[i] = x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1
		              : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
	}
}

static void make_taps(const sampler *s, double g, int64_t n, taps *t)
{
	double last = (double)(n - 1), x = s->align ? (g + 1) / 2 * last : ((g + 1) * (double)n - 1) / 2;
	/* Padding moves the place itself but for cubic, where it moves the positions around it. */
	if (s->how != CUBIC && s->pad == BORDER)
		x = !(x > 0) ? 0 : x > last ? last : x;
	if (s->how != CUBIC && s->pad == REFLECTION)
		x = s->align ? reflect(x, 0, last) : reflect(x, -0.5, last + 0.5);
	double below = floor(x), part = x - below;
	t->count = s->how == CUBIC ? 4 : s->how == LINEAR ? 2 : 1;
	if (s->how == NEAREST)
		below = rint(x);
	t->weight[0] = s->how == LINEAR ? 1 - part : 1;
	t->weight[1] = part;
	if (s->how == CUBIC)
		cubic_weights(part, t->weight);
	for (int i = 0; i < t->count; i++)
		t->at[i] = position(s, below + i - (s->how == CUBIC), n);
}

static double sample(const taps *t, const gg_shape *x, int axis, const double *plane, int64_t at)
{
	double sum = 0;
	if (axis == x->rank)
		return plane[at];
	for (int i = 0; i < t->count; i++)
		if (t->at[i] >= 0)
			sum += t->weight[i] * sample(t + 1, x, axis + 1, plane, at * x->dim[axis] + t->at[i]);
	return sum;
}

static bool eval(gg_eval *e)
{
	const gg_shape *x = &e->in[0].shape, *y = &e->out[0].shape;
	sampler s = {(mode)mode_of(e->n), (padding)padding_of(e->n), gg_get_int(e->n, "align_corners")};
	int axes = x->rank - 2;
	int64_t channels = x->dim[1], plane = gg_span(x, 2, x->rank), places = gg_span(y, 2, y->rank);
	if (!gg_count(&e->out[0]))
		return true;
	if (!plane)
		return gg_fail(e, "an empty input cannot be sampled");
	double *v = gg_doubles(&e->in[0]);
	for (int64_t b = 0; b < x->dim[0]; b++)
		for (int64_t p = 0; p < places; p++) {
			taps t[GG_MAX_RANK];
			for (int i = 0; i < axes; i++)
				make_taps(&s, gg_get_f64(&e->in[1], (b * places + p) * axes + axes - 1 - i),
				          x->dim[i + 2], &t[i]);
			for (int64_t c = 0; c < channels; c++) {
				double r = sample(t, x, 2, v + (b * channels + c) * plane, 0);
				gg_set_f64(&e->out[0], (b * channels + c) * places + p, r);
			}
		}
	free(v);
	return true;
}

const gg_op gg_op_GridSample = {
    .name = "GridSample",
    .doc = "the input read at the places that a grid names",
    .min_in = 2,
    .max_in = 2,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"align_corners", GG_ATTR_INT, .def = "0"},
                                    {"mode", GG_ATTR_STRING, .def = "\"linear\""},
                                    {"padding_mode", GG_ATTR_STRING, .def = "\"zeros\""},
                                    {0}},
    .in = {{GG_FLOATS, 'T'}, {GG_FLOATS, 'G'}},
    .out = {{GG_FLOATS, 'T'}},
    .infer = infer,
    .eval = eval};
