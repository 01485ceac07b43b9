/* Windows: attributes and shapes to numbers. */
#include "window.h"
#include <string.h>

/* With axes below 2^39 and steps below 2^22 no sum or product here leaves an int64_t. */
static const int64_t max_axis = (int64_t)1 << 39, max_step = (int64_t)1 << 22;

#define fail(...) gg_node_error(d, GG_MALFORMED, n, __VA_ARGS__)

/* Values of an integer list attribute: `count` of them, lo..hi, or the default where it is absent. */
static bool read_list(gg_diag *d, const gg_node *n, const char *name, int count, int64_t lo, int64_t hi,
                      int64_t def, int64_t *out)
{
	const gg_attr *a = gg_get_list(n, name);
	if (a && a->n != count)
		return fail("attribute '%s' has %d elements, expected %d", name, a->n, count);
	for (int i = 0; i < count; i++) {
		out[i] = a ? a->ints[i] : def;
		if (out[i] < lo || out[i] > hi)
			return fail("attribute '%s' has element %lld, expected %lld to %lld", name,
			            (long long)out[i], (long long)lo, (long long)hi);
	}
	return true;
}

typedef enum mode { NOTSET, VALID, SAME_UPPER, SAME_LOWER } mode;

/* The mode, and explicit pads, which only go with NOTSET (zeros go with all). */
static bool read_pads(gg_diag *d, const gg_node *n, gg_window *w, mode *m)
{
	static const char *const names[] = {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"};
	const char *s = gg_get_string(n, "auto_pad");
	int64_t pads[2 * GG_MAX_RANK];
	for (*m = NOTSET; *m <= SAME_LOWER && strcmp(s, names[*m]);)
		++*m;
	if (*m > SAME_LOWER)
		return fail("attribute 'auto_pad' is '%s', expected NOTSET, VALID, SAME_UPPER or SAME_LOWER",
		            s);
	if (!read_list(d, n, "pads", 2 * w->nd, -max_axis, max_axis, 0, pads))
		return false;
	for (int i = 0; i < w->nd; i++) {
		w->begin[i] = pads[i];
		w->end[i] = pads[w->nd + i];
		if (*m != NOTSET && (w->begin[i] || w->end[i]))
			return fail("attribute 'pads' cannot be given together with auto_pad '%s'", s);
	}
	return true;
}

/* All attributes but those of one op; kernel sizes from the weight's dims where there is one. */
static bool read_window(gg_diag *d, const gg_node *n, const gg_shape *x, const gg_shape *weight, gg_window *w,
                        mode *m)
{
	int64_t kernel[GG_MAX_RANK];
	const gg_attr *given = gg_get_list(n, "kernel_shape");
	int rank = x->rank >= 0 ? x->rank : weight ? weight->rank : -1;
	memset(w, 0, sizeof *w);
	w->group = 1;
	w->nd = rank < 0 ? -1 : rank - 2;
	if (rank < 0)
		return true;
	if (rank < 2)
		return fail("input has rank %d, expected at least 2", rank);
	if (weight && weight->rank >= 0 && weight->rank != rank)
		return fail("weight has rank %d, expected %d", weight->rank, rank);
	if (!read_list(d, n, "kernel_shape", w->nd, 1, max_axis, 1, kernel) ||
	    !read_list(d, n, "strides", w->nd, 1, max_step, 1, w->stride) ||
	    !read_list(d, n, "dilations", w->nd, 1, max_step, 1, w->dilation) || !read_pads(d, n, w, m))
		return false;
	for (int i = 0; i < w->nd; i++) {
		gg_dim have = weight && weight->rank >= 0 ? weight->dim[i + 2] : -1;
		w->in[i] = x->rank >= 0 ? x->dim[i + 2] : gg_dim_sym("?");
		w->kernel[i] = given || !weight ? kernel[i] : have;
		if (given && gg_dim_known(have) && have != kernel[i])
			return fail("attribute 'kernel_shape' says %lld on axis %d, the weight has %lld",
			            (long long)kernel[i], i + 2, (long long)have);
		if (w->in[i] > max_axis || w->kernel[i] > max_axis)
			return fail("axis %d is too long", i + 2);
	}
	return true;
}

/* Positions that the dilated kernel spans. */
static gg_dim span(const gg_window *w, int i)
{
	return gg_dim_add(gg_dim_mul(gg_dim_sub(w->kernel[i], 1), w->dilation[i]), 1);
}

/* Total padding in two parts; the odd one goes to the end when `upper`. */
static void split_pad(gg_window *w, int i, int64_t total, bool upper)
{
	total = total < 0 ? 0 : total;
	w->begin[i] = upper ? total / 2 : total - total / 2;
	w->end[i] = total - w->begin[i];
}

/* Windows that fit: floor((in + pads - span) / stride) + 1. With ceil, one more that sticks out at
 * the end, unless it would start in the padding there. */
static bool count_windows(gg_diag *d, const gg_node *n, gg_window *w, int i, mode m, bool ceil)
{
	gg_dim s = w->stride[i], in = w->in[i], k = span(w, i);
	if (m == SAME_UPPER || m == SAME_LOWER) {
		w->out[i] = gg_dim_ceildiv(in, s);
		if (gg_dim_known(in) && gg_dim_known(k))
			split_pad(w, i, (w->out[i] - 1) * s + k - in, m == SAME_UPPER);
		return true;
	}
	gg_dim before = gg_dim_add(in, w->begin[i]), room = gg_dim_add(gg_dim_sub(before, k), w->end[i]);
	gg_dim top = gg_dim_add(room, s);
	ceil = ceil && m == NOTSET; /* the standard's formula for VALID has no ceil */
	if (gg_dim_number(room) && (ceil ? top <= 0 : room < 0)) {
		w->out[i] = 0;
		return in == 0 || fail("window of axis %d spans %lld, the padded input has %lld", i + 2,
		                       (long long)k, (long long)(room + k));
	}
	w->out[i] = ceil ? gg_dim_min(gg_dim_ceildiv(top, s), gg_dim_ceildiv(before, s)) : gg_dim_div(top, s);
	return true;
}

static bool read_group(gg_diag *d, const gg_node *n, const gg_shape *weight, gg_window *w)
{
	w->group = gg_get_int(n, "group");
	if (w->group < 1)
		return fail("attribute 'group' is %lld, expected at least 1", (long long)w->group);
	gg_dim first = weight->rank >= 0 ? weight->dim[0] : 0;
	if (gg_dim_known(first) && first % w->group)
		return fail("weight has %lld in axis 0, not a multiple of group %lld", (long long)first,
		            (long long)w->group);
	return true;
}

bool gg_window_conv(gg_diag *d, const gg_node *n, const gg_shape *x, const gg_shape *weight, gg_window *w)
{
	mode m;
	if (!read_window(d, n, x, weight, w, &m) || !read_group(d, n, weight, w))
		return false;
	if (x->rank >= 0 && weight->rank >= 0) {
		gg_dim c = x->dim[1], want = gg_dim_mul(weight->dim[1], w->group);
		if (gg_dim_known(c) && gg_dim_known(want) && c != want)
			return fail("input has %lld channels, the weight and group %lld expect %lld",
			            (long long)c, (long long)w->group, (long long)want);
	}
	for (int i = 0; i < w->nd; i++)
		if (!count_windows(d, n, w, i, m, false))
			return false;
	return true;
}

bool gg_window_pool(gg_diag *d, const gg_node *n, const gg_shape *x, gg_window *w)
{
	mode m;
	if (!read_window(d, n, x, 0, w, &m))
		return false;
	for (int i = 0; i < w->nd; i++) {
		if (w->begin[i] < 0 || w->end[i] < 0)
			return fail("attribute 'pads' has a negative element");
		if (!count_windows(d, n, w, i, m, gg_get_int(n, "ceil_mode")))
			return false;
	}
	return true;
}

/* Size of the transposed result, and how much of its border is cut off. */
static bool transpose_axis(gg_diag *d, const gg_node *n, gg_window *w, int i, mode m, int64_t extra,
                           const int64_t *wanted)
{
	gg_dim s = w->stride[i], in = w->in[i];
	gg_dim full = gg_dim_add(gg_dim_add(gg_dim_mul(gg_dim_sub(in, 1), s), extra), span(w, i));
	if (wanted || m == SAME_UPPER || m == SAME_LOWER) {
		w->out[i] = wanted ? *wanted : gg_dim_mul(in, s);
		if (gg_dim_number(full) && gg_dim_known(w->out[i]))
			split_pad(w, i, full - w->out[i], m == SAME_UPPER);
		return true;
	}
	w->out[i] = gg_dim_sub(full, w->begin[i] + w->end[i]);
	if (in == 0)
		w->out[i] = gg_dim_max(w->out[i], 0);
	if (gg_dim_number(w->out[i]) && w->out[i] < 0)
		return fail("pads cut more from axis %d than the result has", i + 2);
	return true;
}

bool gg_window_conv_transpose(gg_diag *d, const gg_node *n, const gg_shape *x, const gg_shape *weight,
                              gg_window *w)
{
	mode m;
	int64_t extra[GG_MAX_RANK], wanted[GG_MAX_RANK + 2];
	if (!read_window(d, n, x, weight, w, &m) || !read_group(d, n, weight, w))
		return false;
	if (w->nd < 0)
		return true;
	if (x->rank >= 0 && weight->rank >= 0 && gg_dim_known(x->dim[1]) && gg_dim_known(weight->dim[0]) &&
	    x->dim[1] != weight->dim[0])
		return fail("input has %lld channels, the weight expects %lld", (long long)x->dim[1],
		            (long long)weight->dim[0]);
	/* output_shape may name all axes or, as the standard has it, the spatial ones. */
	const gg_attr *shape = gg_get_list(n, "output_shape");
	int skip = shape && shape->n == w->nd + 2 ? 2 : 0;
	if (!read_list(d, n, "output_padding", w->nd, 0, max_axis, 0, extra) ||
	    !read_list(d, n, "output_shape", w->nd + skip, 0, max_axis, 0, wanted))
		return false;
	for (int i = 0; i < w->nd; i++)
		if (!transpose_axis(d, n, w, i, m, extra[i], shape ? &wanted[i + skip] : 0))
			return false;
	return true;
}

gg_shape gg_window_shape(const gg_window *w, gg_dim batch, gg_dim channels)
{
	if (w->nd < 0)
		return gg_shape_unknown;
	gg_shape s = {.rank = w->nd + 2, .dim = {batch, channels}};
	for (int i = 0; i < w->nd; i++)
		s.dim[i + 2] = w->out[i];
	return s;
}

void gg_window_taps(const gg_window *w, int axis, int64_t o, int64_t *from, int64_t *to)
{
	int64_t first = o * w->stride[axis] - w->begin[axis], step = w->dilation[axis];
	int64_t room = w->in[axis] - first; /* positions from the first tap to the axis' end */
	*from = first < 0 ? (-first + step - 1) / step : 0;
	*to = room <= 0 ? 0 : (room + step - 1) / step;
	if (*to > w->kernel[axis])
		*to = w->kernel[axis];
	if (*from > *to)
		*from = *to;
}
