/* Resize: each output coordinate is mapped back to a place x in the input, axis by axis.
 *
 * nearest copies one element. linear and cubic are sums over the elements around x with weights
 * kernel((i - x) * s); s < 1 widens the kernel when antialias asks for it. Places outside the input
 * read the nearest element inside, or count for nothing with exclude_outside. */
#include "nnkit.h"
#include "resize.h"
#include "grad.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { X = RESIZE_X, ROI = RESIZE_ROI, SCALES = RESIZE_SCALES, SIZES = RESIZE_SIZES };

typedef enum mode { NEAREST, LINEAR, CUBIC } mode;
static const char *const modes[] = {"nearest", "linear", "cubic", 0};
static const char *const rounds[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", 0};
static const char *const policies[] = {"stretch", "not_larger", "not_smaller", 0};
typedef enum coords { HALF, HALF_SYMMETRIC, HALF_PYTORCH, ALIGN, ASYMMETRIC, CROP } coords;
static const char *const transforms[] = {"half_pixel",
                                         "half_pixel_symmetric",
                                         "pytorch_half_pixel",
                                         "align_corners",
                                         "asymmetric",
                                         "tf_crop_and_resize",
                                         0};

static int choice(const gg_node *n, const char *attr, const char *const *names)
{
	const char *s = gg_get_string(n, attr);
	for (int i = 0; names[i]; i++)
		if (!strcmp(names[i], s))
			return i;
	return -1;
}

static bool known_choices(gg_infer *f)
{
	static const struct {
		const char *attr;
		const char *const *names;
	} rows[] = {{"mode", modes},
	            {"nearest_mode", rounds},
	            {"keep_aspect_ratio_policy", policies},
	            {"coordinate_transformation_mode", transforms}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (choice(f->n, rows[i].attr, rows[i].names) < 0)
			return gg_unsupported(f, "%s '%s'", rows[i].attr, gg_get_string(f->n, rows[i].attr));
	return true;
}

/* The axes that scales, sizes and roi speak of. */
static bool read_axes(gg_infer *f, int rank, int *axis, int *count)
{
	const gg_attr *a = gg_get_list(f->n, "axes");
	*count = a ? a->n : rank;
	if (*count > rank)
		return gg_fail(f, "attribute 'axes' has %d elements, the input has rank %d", *count, rank);
	for (int i = 0; i < *count; i++) {
		axis[i] = i;
		if (a && !gg_axis(f, "axes", a->ints[i], rank, &axis[i]))
			return false;
	}
	return true;
}

/* An optional list that is there but empty counts as absent, as before opset 13. */
static bool is_listed(const gg_info *in)
{
	return in->dtype && !(in->shape.rank == 1 && in->shape.dim[0] == 0);
}

static bool check_list(gg_infer *f, int i, const char *what, int count)
{
	const gg_shape *s = &f->in[i].shape;
	if (s->rank < 0 || (s->rank == 1 && (!gg_dim_known(s->dim[0]) || s->dim[0] == count)))
		return true;
	return gg_fail(f, "%s has shape %s, expected [%d]", what, gg_str(f, s), count);
}

/* floor(n * scale), in f32 as the standard's own inference has it; for symbols where the scale is a
 * fraction with a small divisor. */
static gg_dim scaled(gg_infer *f, int axis, gg_dim n, float scale)
{
	if (gg_dim_known(n))
		return (gg_dim)floorf((float)n * scale);
	for (int q = 1; q <= 16; q++) {
		float p = scale * (float)q;
		if (p == rintf(p) && p < 1 << 20)
			return gg_dim_div(gg_dim_mul(n, (gg_dim)p), q);
	}
	return gg_unknown_dim(f, 0, axis);
}

static bool infer_scales(gg_infer *f, const int *axis, int count)
{
	gg_shape *y = &f->out[0].shape;
	if (!check_list(f, SCALES, "scales", count))
		return false;
	const gg_tensor *t = gg_want(f, SCALES);
	for (int i = 0; i < count; i++) {
		gg_dim *dim = &y->dim[axis[i]];
		double s = t ? gg_get_f64(t, i) : 1;
		if (!(s > 0) || (gg_dim_known(*dim) && (double)*dim * s > 1e12))
			return gg_fail(f, "scale %g of axis %d is out of range", s, axis[i]);
		*dim = t ? scaled(f, axis[i], *dim, (float)s) : gg_unknown_dim(f, 0, axis[i]);
	}
	return true;
}

/* The common scale of a policy that keeps the aspect ratio. */
static double policy_scale(int policy, const gg_shape *x, const int *axis, int count, const int64_t *sizes)
{
	double best = 0;
	for (int i = 0; i < count; i++) {
		double s = (double)sizes[i] / (double)x->dim[axis[i]];
		if (i == 0 || (policy == 1 ? s < best : s > best))
			best = s;
	}
	return best;
}

static gg_dim keep_ratio(double scale, int64_t n) { return (gg_dim)floor(scale * (double)n + 0.5); }

static bool infer_sizes(gg_infer *f, const int *axis, int count)
{
	const gg_shape *x = &f->in[X].shape;
	gg_shape *y = &f->out[0].shape;
	int policy = choice(f->n, "keep_aspect_ratio_policy", policies), n;
	int64_t sizes[GG_MAX_RANK] = {0};
	bool known = true;
	if (!check_list(f, SIZES, "sizes", count))
		return false;
	const gg_dim *want = gg_want_dims(f, SIZES, &n);
	for (int i = 0; i < count; i++) {
		gg_dim d = want ? want[i] : gg_unknown_dim(f, 0, axis[i]);
		if (gg_dim_number(d) && d < 0)
			return gg_fail(f, "size %lld of axis %d is negative", (long long)d, axis[i]);
		known = known && gg_dim_known(d) && gg_dim_known(x->dim[axis[i]]);
		y->dim[axis[i]] = sizes[i] = d;
	}
	if (!policy)
		return true;
	double s = known ? policy_scale(policy, x, axis, count, sizes) : 0;
	for (int i = 0; i < count; i++) {
		gg_dim *dim = &y->dim[axis[i]];
		if (known && !(s * (double)x->dim[axis[i]] < 1e12))
			return gg_fail(f, "scale %g of axis %d is out of range", s, axis[i]);
		*dim = known ? keep_ratio(s, x->dim[axis[i]]) : gg_unknown_dim(f, 0, axis[i]);
	}
	return true;
}

static bool infer(gg_infer *f)
{
	const gg_shape *x = &f->in[X].shape;
	bool scales = f->nin > SCALES && is_listed(&f->in[SCALES]),
	     sizes = f->nin > SIZES && is_listed(&f->in[SIZES]);
	gg_dtype t = f->in[X].dtype;
	int axis[GG_MAX_RANK], count;
	if (!known_choices(f))
		return false;
	if (scales == sizes)
		return gg_fail(f, scales ? "has both scales and sizes" : "has neither scales nor sizes");
	if (choice(f->n, "mode", modes) != NEAREST && !(GG_NUMBERS & GG_DT(t)))
		return gg_unsupported(f, "mode '%s' on %s", gg_get_string(f->n, "mode"), gg_dtype_name(t));
	if (x->rank < 0)
		return true;
	f->out[0].shape = *x;
	if (!read_axes(f, x->rank, axis, &count))
		return false;
	bool crop = choice(f->n, "coordinate_transformation_mode", transforms) == CROP;
	if (crop && !(GG_NUMBERS & GG_DT(t)))
		return gg_unsupported(f, "tf_crop_and_resize on %s", gg_dtype_name(t));
	if (crop && (!gg_given(f, ROI) || !check_list(f, ROI, "roi", 2 * count)))
		return gg_given(f, ROI) ? false : gg_fail(f, "tf_crop_and_resize takes a roi");
	return scales ? infer_scales(f, axis, count) : infer_sizes(f, axis, count);
}

/* ---- running -------------------------------------------------------------------------------------- */
typedef struct axis_map {
	int64_t in, out;
	double scale, start, end; /* roi */
	coords how;
} axis_map;

static void read_maps(gg_eval *e, axis_map *m)
{
	const gg_shape *x = &e->in[X].shape, *y = &e->out[0].shape;
	const gg_attr *axes = gg_get_list(e->n, "axes");
	int count = axes ? axes->n : x->rank, axis[GG_MAX_RANK];
	int policy = choice(e->n, "keep_aspect_ratio_policy", policies);
	bool sizes = e->nin > SIZES && e->in[SIZES].dtype && gg_count(&e->in[SIZES]) > 0;
	bool roi = e->nin > ROI && e->in[ROI].dtype && gg_count(&e->in[ROI]) == 2 * count;
	int64_t size[GG_MAX_RANK];
	for (int i = 0; i < x->rank; i++)
		m[i] = (axis_map){
		    x->dim[i], y->dim[i], 1,
		    0,         1,         (coords)choice(e->n, "coordinate_transformation_mode", transforms)};
	for (int i = 0; i < count; i++) {
		axis[i] = axes ? (int)gg_eval_axis(axes->ints[i], x->rank) : i;
		axis_map *a = &m[axis[i]];
		size[i] = sizes ? gg_get_i64(&e->in[SIZES], i) : 0;
		a->scale = sizes ? (double)a->out / (double)a->in : gg_get_f64(&e->in[SCALES], i);
		a->start = roi ? gg_get_f64(&e->in[ROI], i) : 0;
		a->end = roi ? gg_get_f64(&e->in[ROI], count + i) : 1;
	}
	for (int i = 0; sizes && policy && i < count; i++)
		m[axis[i]].scale = policy_scale(policy, x, axis, count, size);
}

/* Where output coordinate o reads. */
static double place(const axis_map *m, int64_t o)
{
	double x = (double)o, in = (double)m->in, out = (double)m->out, half = (x + 0.5) / m->scale - 0.5;
	switch (m->how) {
	case HALF:
		return half;
	case HALF_SYMMETRIC:
		return in / 2 * (1 - out / (m->scale * in)) + half;
	case HALF_PYTORCH:
		return m->out > 1 ? half : 0;
	case ALIGN:
		return m->out > 1 ? x * (in - 1) / (out - 1) : 0;
	case ASYMMETRIC:
		return x / m->scale;
	case CROP:
		break;
	}
	return m->out > 1 ? m->start * (in - 1) + x * (m->end - m->start) * (in - 1) / (out - 1)
	                  : 0.5 * (m->start + m->end) * (in - 1);
}

static bool is_outside(const axis_map *m, double x)
{
	return m->how == CROP && (x < 0 || x > (double)(m->in - 1));
}

static int64_t clamp(double i, int64_t n) { return !(i > 0) ? 0 : i > (double)(n - 1) ? n - 1 : (int64_t)i; }

static bool is_identity(const axis_map *m)
{
	return m->in == m->out && m->scale == 1 && (m->how != CROP || (m->start == 0 && m->end == 1));
}

/* Scales are f32: 4 / 1.6 is 2.49999996 by the letter. What lies that close to a whole or a half is
 * meant to be there, and rounds as it would in f32. */
static double nearest(double x, int round)
{
	double meant = rint(2 * x) / 2;
	if (fabs(x - meant) <= ldexp(fabs(x) + 1, -23))
		x = meant;
	double below = floor(x), part = x - below;
	bool up = round == 0 ? part > 0.5 : round == 1 ? part >= 0.5 : round == 3 ? part > 0 : false;
	return up ? below + 1 : below;
}

static int64_t nearest_at(const axis_map *m, int64_t o, int round)
{
	double x = is_identity(m) ? (double)o : place(m, o);
	return is_outside(m, x) ? -1 : clamp(nearest(x, round), m->in);
}

static bool resize_nearest(gg_eval *e, const axis_map *m)
{
	const gg_tensor *t = &e->in[X];
	gg_tensor *y = &e->out[0];
	int rank = t->shape.rank, round = choice(e->n, "nearest_mode", rounds);
	int64_t *from[GG_MAX_RANK], idx[GG_MAX_RANK] = {0}, at = 0;
	size_t size = gg_dtype_size(t->dtype);
	uint64_t raw = 0;
	gg_tensor outside = {t->dtype, {.rank = 0}, &raw};
	if (GG_NUMBERS & GG_DT(t->dtype))
		gg_set_f64(&outside, 0, gg_get_float(e->n, "extrapolation_value"));
	for (int i = 0; i < rank; i++) {
		from[i] = gg_alloc_n(e->a, (size_t)m[i].out + 1, sizeof(int64_t));
		for (int64_t o = 0; o < m[i].out; o++)
			from[i][o] = nearest_at(&m[i], o, round);
	}
	do {
		int64_t k = 0;
		for (int i = 0; i < rank && k >= 0; i++)
			k = from[i][idx[i]] < 0 ? -1 : k * m[i].in + from[i][idx[i]];
		memcpy((char *)y->data + (size_t)at++ * size,
		       k < 0 ? (char *)&raw : (char *)t->data + (size_t)k * size, size);
	} while (gg_next_index(&y->shape, idx));
	return true;
}

static double kernel(mode how, double a, double x)
{
	x = fabs(x);
	if (how == LINEAR)
		return x < 1 ? 1 - x : 0;
	return x <= 1  ? ((a + 2) * x - (a + 3)) * x * x + 1
	       : x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
	               : 0;
}

/* Elements first .. first+count-1 of the axis and their weights; x itself lies in (base, base + 1]. */
typedef struct taps {
	double first;
	int64_t count;
	double *weight;
	bool outside;
} taps;

static int64_t reach(const gg_node *n, mode how, double scale, double *shrink)
{
	*shrink = gg_get_int(n, "antialias") && scale < 1 ? scale : 1;
	return (int64_t)-floor(-(how == CUBIC ? 2 : 1) / *shrink); /* elements on either side */
}

static void make_taps(const gg_node *n, mode how, const axis_map *m, int64_t o, taps *t)
{
	double shrink, a = gg_get_float(n, "cubic_coeff_a"), x = place(m, o), base = ceil(x) - 1, sum = 0;
	int64_t side = reach(n, how, m->scale, &shrink);
	bool exclude = gg_get_int(n, "exclude_outside");
	t->first = base - (double)side + 1;
	t->count = 2 * side;
	t->outside = is_outside(m, x);
	if (how == NEAREST) {
		t->first = nearest(x, choice(n, "nearest_mode", rounds));
		t->count = 1;
		t->weight[0] = 1;
		return;
	}
	for (int64_t i = 0; i < t->count; i++) {
		double at = t->first + (double)i;
		bool gone = exclude && (at < 0 || at > (double)(m->in - 1));
		t->weight[i] = gone ? 0 : kernel(how, a, (at - x) * shrink);
		sum += t->weight[i];
	}
	for (int64_t i = 0; (exclude || shrink < 1) && sum != 0 && i < t->count; i++)
		t->weight[i] /= sum;
}

bool gg_resize_axis(gg_eval *e, int axis, int64_t *at, float *weight)
{
	axis_map m[GG_MAX_RANK];
	mode how = (mode)choice(e->n, "mode", modes);
	int round = choice(e->n, "nearest_mode", rounds);
	double w[2], shrink;
	taps t = {.weight = w};
	read_maps(e, m);
	const axis_map *a = &m[axis];
	if (a->how == CROP || how == CUBIC || (how == LINEAR && reach(e->n, how, a->scale, &shrink) != 1))
		return false;
	for (int64_t o = 0; o < a->out; o++, at += 2, weight += 2) {
		if (how == NEAREST || is_identity(a)) {
			at[0] = at[1] = is_identity(a) ? o : clamp(nearest(place(a, o), round), a->in);
			weight[0] = 1;
			weight[1] = 0;
			continue;
		}
		make_taps(e->n, how, a, o, &t);
		for (int i = 0; i < 2; i++) {
			at[i] = clamp(t.first + i, a->in);
			weight[i] = (float)w[i];
		}
	}
	return true;
}

void gg_resize_taps_of(gg_eval *e, int axis, gg_resize_taps *all)
{
	axis_map maps[GG_MAX_RANK];
	mode how = (mode)choice(e->n, "mode", modes);
	double shrink;
	read_maps(e, maps);
	const axis_map *m = &maps[axis];
	*all = (gg_resize_taps){.identity = is_identity(m)};
	if (all->identity)
		return;
	all->count = how == NEAREST ? 1 : 2 * reach(e->n, how, m->scale, &shrink);
	all->at = gg_alloc_n(e->a, (size_t)(m->out * all->count) + 1, sizeof *all->at);
	if (how != NEAREST)
		all->weight = gg_alloc_n(e->a, (size_t)(m->out * all->count) + 1, sizeof *all->weight);
	for (int64_t o = 0; o < m->out; o++) {
		int64_t *at = all->at + o * all->count;
		taps t = {.weight = how == NEAREST ? NULL : all->weight + o * all->count};
		if (how == NEAREST) {
			*at = nearest_at(m, o, choice(e->n, "nearest_mode", rounds));
			continue;
		}
		make_taps(e->n, how, m, o, &t);
		for (int64_t i = 0; i < all->count; i++)
			at[i] = i == 0 && t.outside ? -1 : clamp(t.first + (double)i, m->in);
	}
}

static void add(int64_t n, double w, const double *from, double *to)
{
	for (int64_t j = 0; w != 0 && j < n; j++)
		to[j] += w * from[j];
}

/* One axis of v, which is [outer, in, inner]; back: [outer, out, inner], given to where it came from. */
static double *resize_axis(const gg_node *n, mode how, const axis_map *m, const double *v, int64_t outer,
                           int64_t inner, bool back)
{
	double shrink, outside = gg_get_float(n, "extrapolation_value");
	double *y = gg_xcalloc((size_t)(outer * (back ? m->in : m->out) * inner) + 1, sizeof *y);
	taps t = {.weight = gg_xaligned((size_t)(2 * reach(n, how, m->scale, &shrink)) * sizeof(double))};
	for (int64_t o = 0; o < m->out; o++) {
		make_taps(n, how, m, o, &t);
		for (int64_t k = 0; k < outer; k++) {
			int64_t here = (k * m->out + o) * inner;
			for (int64_t j = 0; t.outside && !back && j < inner; j++)
				y[here + j] = outside;
			for (int64_t i = 0; !t.outside && i < t.count; i++) {
				int64_t there = (k * m->in + clamp(t.first + (double)i, m->in)) * inner;
				add(inner, t.weight[i], v + (back ? here : there), y + (back ? there : here));
			}
		}
	}
	free(t.weight);
	return y;
}

/* Axis after axis, from the size `from` of each to the size `to`; frees v. */
static double *resize_axes(const gg_eval *e, const axis_map *m, double *v, bool back)
{
	const gg_shape *from = &e->in[X].shape, *to = &e->out[0].shape;
	mode how = (mode)choice(e->n, "mode", modes);
	int rank = from->rank;
	for (int i = 0; i < rank; i++) {
		if (is_identity(&m[i]))
			continue;
		const gg_shape *after = back ? to : from, *before = back ? from : to;
		double *next = resize_axis(e->n, how, &m[i], v, gg_span(before, 0, i),
		                           gg_span(after, i + 1, rank), back);
		free(v);
		v = next;
	}
	return v;
}

double *gg_resize_back(gg_eval *e, double *dy)
{
	axis_map m[GG_MAX_RANK];
	read_maps(e, m);
	return resize_axes(e, m, dy, true);
}

/* Integers are rounded to nearest even and stay in their range. */
static void store(gg_tensor *y, double *v)
{
	int64_t n = gg_count(y);
	int bits = gg_dtype_bits(y->dtype);
	char class = gg_dtype_class(y->dtype);
	double hi = ldexp(1, class == 'I' ? bits - 1 : bits), lo = class == 'I' ? -hi : 0;
	if (class == 'F') {
		gg_store_all(y, v);
		return;
	}
	for (int64_t i = 0; i < n; i++) {
		double x = rint(v[i]);
		uint64_t top = class == 'I' ? ~0ull >> (65 - bits) : ~0ull >> (64 - bits);
		int64_t k = x >= hi      ? (int64_t)top
		            : x <= lo    ? (int64_t)lo
		            : x < 0x1p63 ? (int64_t)x
		                         : (int64_t)(uint64_t)x;
		gg_set_i64(y, i, k);
	}
}

static bool eval(gg_eval *e)
{
	axis_map m[GG_MAX_RANK];
	if (!gg_count(&e->out[0]))
		return true;
	if (!gg_count(&e->in[X]))
		return gg_fail(e, "an empty input cannot be resized to a size above 0");
	read_maps(e, m);
	if (choice(e->n, "mode", modes) == NEAREST)
		return resize_nearest(e, m);
	double *v = resize_axes(e, m, gg_doubles(&e->in[X]), false);
	store(&e->out[0], v);
	free(v);
	return true;
}

gg_value *gg_resize_put(gg_builder *t, gg_node *n, gg_value *v, gg_value *shape)
{
	gg_value *in[] = {v, IN(ROI), IN(SCALES), IN(SIZES), shape};
	const char *op = shape ? "ResizeGrad" : "Resize", *name;
	if (!v || t->bad)
		return 0;
	name = gg_fresh_name(t->g, "gradient");
	gg_node *k = gg_add_node(t->g, t->at, gg_op_find(op), shape ? 5 : in[SIZES] ? 4 : 3, in, 1, &name);
	gg_copy_attrs(k, n);
	gg_set_attr_float(k, "extrapolation_value", 0);
	return gg_put_done(t, k->out[0]);
}

GG_GRAD(grad) { gg_give(t, IN(X), gg_resize_put(t, n, dy, gg_put_shape(t, IN(X)))); }

const gg_op gg_op_Resize = {.name = "Resize",
                            .doc = "resampled to other sizes: nearest, linear or cubic",
                            .min_in = 1,
                            .max_in = 4,
                            .min_out = 1,
                            .max_out = 1,
                            .attrs = RESIZE_ATTRS,
                            .in = {{GG_ANY, 'T'}, {RESIZE_ROI_TYPES}, {GG_DT(GG_F32)}, {GG_DT(GG_I64)}},
                            .out = {{GG_ANY, 'T'}},
                            .optional = 1 << ROI | 1 << SCALES,
                            .infer = infer,
                            .eval = eval,
                            .grad = grad};
