#include "move.h"
#include "grad.h"
#include <string.h>

static bool given(const gg_infer *f, int i) { return i < f->nin && f->in[i].dtype != GG_NONE; }

static bool mode_is(const gg_node *n, const char *s) { return strcmp(gg_get_string(n, "mode"), s) == 0; }

/* pads[i], pads[rank + i] of all axes, from the pads of the axes given. */
static bool spread(gg_infer *f, const gg_dim *pads, int n, int rank, gg_dim *out)
{
	int count = rank, axis;
	const int64_t *axes = given(f, 3) ? gg_want_ints(f, 3, &count) : NULL;
	if (n != 2 * count)
		return gg_fail(f, "%d pads, expected %d", n, 2 * count);
	for (int i = 0; i < 2 * rank; i++)
		out[i] = 0;
	for (int j = 0; j < count; j++) {
		if (!gg_axis(f, "axis", axes ? axes[j] : j, rank, &axis))
			return false;
		out[axis] = pads[j];
		out[rank + axis] = pads[count + j];
	}
	return true;
}

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape;
	gg_shape *out = &f->out[0].shape;
	gg_dim pad[2 * GG_MAX_RANK];
	int n;
	bool constant = mode_is(f->n, "constant"), known = true;
	uint32_t bits;
	f->out[0].dtype = f->in[0].dtype;
	if (!constant && !mode_is(f->n, "reflect") && !mode_is(f->n, "edge") && !mode_is(f->n, "wrap"))
		return gg_unsupported(f, "mode '%s'", gg_get_string(f->n, "mode"));
	if (s->rank < 0)
		return true;
	if (given(f, 3) && !gg_want_axes(f, 3, s->rank, &known, &bits))
		return false;
	const gg_dim *pads = gg_want_dims(f, 1, &n);
	gg_unknown_dims(f, 0, s->rank);
	if (!known)
		return true;
	for (int i = 0; i < s->rank && given(f, 3); i++)
		if (!(bits >> i & 1))
			out->dim[i] = s->dim[i];
	if (!pads)
		return true;
	if (!spread(f, pads, n, s->rank, pad))
		return false;
	for (int i = 0; i < s->rank; i++) {
		gg_dim more = gg_dim_add(pad[i], pad[s->rank + i]);
		out->dim[i] = gg_dim_add(s->dim[i], more);
		if (out->dim[i] < 0 && gg_dim_number(out->dim[i]))
			return gg_fail(f, "axis %d of %s is cut to less than nothing", i, gg_str(f, s));
		if (!constant && s->dim[i] == 0 && gg_dim_known(out->dim[i]) && out->dim[i] > 0)
			return gg_fail(f, "axis %d is empty: mode '%s' has nothing to repeat", i,
			               gg_get_string(f->n, "mode"));
	}
	if (constant)
		gg_move_content(f, 1 | 1 << 2);
	return true;
}

/* Element i of an axis, outside or inside of the n that are there, in the modes but constant. */
static int64_t source(char mode, int64_t i, int64_t n)
{
	int64_t period = mode == 'w' ? n : 2 * (n - 1);
	if (mode == 'e')
		return i < 0 ? 0 : i >= n ? n - 1 : i;
	if (period == 0)
		return 0;
	i = (i % period + period) % period;
	return i < n ? i : period - i;
}

/* Fills y axis by axis: rows of `row` elements whose sources are listed per axis. */
static void repeat(const gg_tensor *y, size_t size, int64_t **at, const char *src, int axis, char **dst)
{
	int64_t n = y->shape.dim[axis];
	bool last = axis == y->shape.rank - 1;
	for (int64_t i = 0; i < n; i++) {
		const char *s = src + at[axis][i] * (int64_t)size;
		if (!last) {
			repeat(y, size, at, s, axis + 1, dst);
			continue;
		}
		memcpy(*dst, s, size);
		*dst += size;
	}
}

static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0], *y = &e->out[0];
	const gg_tensor *value = e->nin > 2 && e->in[2].data ? &e->in[2] : NULL;
	int rank = x->shape.rank, n = (int)gg_count(&e->in[1]) / 2;
	bool has_axes = e->nin > 3 && e->in[3].dtype != GG_NONE;
	int64_t before[GG_MAX_RANK] = {0}, after[GG_MAX_RANK] = {0}, from[GG_MAX_RANK], to[GG_MAX_RANK];
	int64_t count[GG_MAX_RANK], src = 0, dst = 0, *at[GG_MAX_RANK];
	const int64_t *pads = gg_eval_ints(e, 1), *axes = has_axes ? gg_eval_ints(e, 3) : NULL;
	size_t size = gg_dtype_size(x->dtype);
	char mode = gg_get_string(e->n, "mode")[0];
	if (gg_count(y) == 0)
		return true;
	for (int j = 0; j < n; j++) {
		int axis = axes ? gg_eval_axis(axes[j], rank) : j;
		before[axis] = pads[j];
		after[axis] = pads[n + j];
	}
	gg_strides(&x->shape, from);
	gg_strides(&y->shape, to);
	for (int i = 0; i < rank; i++) { /* what is cut off is no source of the other modes */
		int64_t cut = before[i] < 0 ? -before[i] : 0, lead = before[i] > 0 ? before[i] : 0;
		count[i] = x->shape.dim[i] - cut + (after[i] < 0 ? after[i] : 0);
		count[i] = count[i] < 0 ? 0 : count[i];
		src += cut * from[i];
		dst += lead * to[i];
		if (mode != 'c' && count[i] == 0)
			return gg_fail(e, "axis %d is empty: nothing to repeat", i);
		at[i] = mode == 'c' ? NULL : gg_alloc_n(e->a, (size_t)y->shape.dim[i], sizeof **at);
		for (int64_t j = 0; at[i] && j < y->shape.dim[i]; j++)
			at[i][j] = source(mode, j - lead, count[i]) * from[i];
	}
	const char *s = (const char *)x->data + (x->data ? src * (int64_t)size : 0);
	char *d = y->data;
	if (mode != 'c' && rank > 0) {
		repeat(y, size, at, s, 0, &d);
		return true;
	}
	const uint64_t zero = 0;
	const char *empty = gg_intern("");
	const void *fill = value ? value->data : x->dtype == GG_STRING ? (const void *)&empty : &zero;
	gg_move_fill(size, d, fill, gg_count(y));
	gg_move(size, rank, count, s, from, d + dst * (int64_t)size, to);
	return true;
}

GG_GRAD(grad)
{
	int64_t pads[2 * GG_MAX_RANK], to[GG_MAX_RANK], axis[GG_MAX_RANK];
	int count, r = IN(0)->shape.rank;
	bool good = r >= 0 && !IN(3) && !strcmp(gg_get_string(n, "mode"), "constant") &&
	            gg_grad_ints(t, IN(1), pads, &count) && count == 2 * r && !gg_grad_wanted(IN(2));
	for (int i = 0; good && i < r; i++) {
		good = gg_dim_known(IN(0)->shape.dim[i]) && pads[i] >= 0 && pads[r + i] >= 0;
		to[i] = pads[i] + IN(0)->shape.dim[i];
		axis[i] = i;
	}
	if (!good) {
		gg_grad_lacks(t, n, "it is not of constants, by a constant number, of known sizes");
		return;
	}
	gg_value *in[] = {dy, gg_put_ints(t, r, pads), gg_put_ints(t, r, to), gg_put_ints(t, r, axis)};
	gg_give(t, IN(0), gg_put_done(t, gg_put(t, "Slice", 4, in, 0)));
}

const gg_op gg_op_Pad = {
    .name = "Pad",
    .doc = "x with more, or fewer, elements at the ends of its axes",
    .min_in = 2,
    .max_in = 4,
    .min_out = 1,
    .max_out = 1,
    .attrs = (const gg_attr_spec[]){{"mode", GG_ATTR_STRING, false, "\"constant\""}, {0}},
    .flags = GG_MOVES,
    .in = {{GG_ANY, 'T'}, {GG_DT(GG_I64)}, {GG_ANY, 'T'}, {GG_INDICES}},
    .out = {{GG_ANY, 'T'}},
    .optional = 1 << 2 | 1 << 3,
    .infer = infer,
    .eval = eval,
    .grad = grad};
