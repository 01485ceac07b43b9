#include "move.h"
#include "grad.h"
#include <string.h>

/* The numbers of one axis: where it begins, how many, how far apart. */
typedef struct cut {
	int64_t start, step, count;
} cut;

static cut cut_of(int64_t d, int64_t start, int64_t end, int64_t step)
{
	/* Backwards a start before the first element is the first element, unlike in Python. */
	int64_t hi = step > 0 ? d : d - 1, lo[2] = {0, step > 0 ? 0 : -1};
	int64_t *v[2] = {&start, &end};
	for (int i = 0; i < 2; i++) {
		*v[i] += *v[i] < 0 ? d : 0;
		*v[i] = *v[i] < lo[i] ? lo[i] : *v[i];
		*v[i] = *v[i] > hi ? hi : *v[i];
	}
	uint64_t stride = step > 0 ? (uint64_t)step : -(uint64_t)step;
	int64_t span = step > 0 ? end - start : start - end;
	return (cut){start, step, span > 0 ? (int64_t)(((uint64_t)span - 1) / stride + 1) : 0};
}

/* Elements of a dim that is a symbol, or between bounds that are; false when it cannot be told. */
static bool count_dim(gg_dim d, gg_dim start, gg_dim end, int64_t step, gg_dim *out)
{
	bool to_end = end == d || (gg_dim_number(end) && end >= INT32_MAX);
	gg_dim n;
	if (step == -1 && start == -1 && gg_dim_number(end) && end < -INT32_MAX) {
		*out = d; /* reversed */
		return true;
	}
	if (step <= 0)
		return false;
	if (gg_dim_number(start) && start < 0 && to_end)
		n = gg_dim_min(-start, d); /* the last -start, or fewer */
	else if (!gg_dim_natural(start))
		return false;
	else if (to_end)
		n = start == 0 ? d : gg_dim_max(0, gg_dim_sub(d, start));
	else if (gg_dim_number(end) && end < 0)
		n = gg_dim_max(0, gg_dim_sub(gg_dim_add(d, end), start));
	else if (gg_dim_natural(end))
		n = start == 0 ? gg_dim_min(end, d) : gg_dim_max(0, gg_dim_sub(gg_dim_min(end, d), start));
	else
		return false;
	*out = gg_dim_ceildiv(n, step);
	return true;
}

/* Input i as dims: numbers beyond what a dim can hold are brought near. NULL: not known. */
static const gg_dim *bounds(gg_infer *f, int i, int *n)
{
	const int64_t *v = gg_want_ints(f, i, n);
	if (!v)
		return i < f->nin ? gg_want_dims(f, i, n) : NULL;
	gg_dim *d = gg_alloc_n(f->a, (size_t)*n + 1, sizeof *d);
	for (int j = 0; j < *n; j++)
		d[j] = gg_dim_number(v[j]) ? v[j] : -((gg_dim)1 << 40) + 1;
	return d;
}

static bool given(const gg_infer *f, int i) { return i < f->nin && f->in[i].dtype != GG_NONE; }

/* Sets bits for the axes in order[]; order[j] is the axis that entry j of starts is for. */
static bool axes_of(gg_infer *f, int rank, int n, int *order, bool *known)
{
	uint32_t bits;
	int axis, count = n;
	*known = true;
	if (n > rank)
		return gg_fail(f, "starts has %d entries, rank is %d", n, rank);
	for (int j = 0; j < n; j++)
		order[j] = j;
	if (!given(f, 3))
		return true;
	if (!gg_want_axes(f, 3, rank, known, &bits))
		return false;
	const int64_t *v = *known ? gg_want_ints(f, 3, &count) : NULL;
	if (v && count != n)
		return gg_fail(f, "%d axes, %d starts", count, n);
	for (int j = 0; v && j < n; j++) {
		if (!gg_axis(f, "axis", v[j], rank, &axis))
			return false;
		order[j] = axis;
	}
	return true;
}

static bool infer_axis(gg_infer *f, int axis, gg_dim start, gg_dim end, int64_t step)
{
	gg_dim d = f->in[0].shape.dim[axis], *out = &f->out[0].shape.dim[axis];
	if (step == 0)
		return gg_fail(f, "step along axis %d is 0", axis);
	if (gg_dim_known(d) && gg_dim_number(start) && gg_dim_number(end))
		*out = cut_of(d, start, end, step).count;
	else if (!count_dim(d, start, end, step, out))
		*out = gg_unknown_dim(f, 0, axis);
	return true;
}

static bool infer(gg_infer *f)
{
	const gg_shape *s = &f->in[0].shape;
	int ns = 0, ne = 0, nstep = 0, order[GG_MAX_RANK];
	bool known = false;
	f->out[0].dtype = f->in[0].dtype;
	if (s->rank < 0)
		return true;
	const gg_dim *start = bounds(f, 1, &ns), *end = bounds(f, 2, &ne);
	const int64_t *step = given(f, 4) ? gg_want_ints(f, 4, &nstep) : NULL;
	int n = start ? ns : end ? ne : -1;
	if (n < 0 && f->in[1].shape.rank == 1 && gg_dim_known(f->in[1].shape.dim[0]) &&
	    f->in[1].shape.dim[0] <= s->rank)
		n = (int)f->in[1].shape.dim[0];
	if ((start && end && ns != ne) || (step && n >= 0 && nstep != n))
		return gg_fail(f, "starts, ends and steps differ in length");
	if (n >= 0 && !axes_of(f, s->rank, n, order, &known))
		return false;
	gg_unknown_dims(f, 0, s->rank);
	if (!known)
		return true;
	uint32_t cuts = 0;
	for (int j = 0; j < n; j++) {
		cuts |= 1u << order[j];
		if (start && end && (step || !given(f, 4)) &&
		    !infer_axis(f, order[j], start[j], end[j], step ? step[j] : 1))
			return false;
	}
	for (int i = 0; i < s->rank; i++)
		if (!(cuts >> i & 1))
			f->out[0].shape.dim[i] = s->dim[i];
	gg_move_content(f, 1);
	return true;
}

bool gg_slice_bounds(gg_eval *e, int64_t *first, int64_t *step)
{
	const gg_tensor *x = &e->in[0];
	int rank = x->shape.rank, n = (int)gg_count(&e->in[1]);
	bool has_axes = e->nin > 3 && e->in[3].dtype != GG_NONE,
	     has_steps = e->nin > 4 && e->in[4].dtype != GG_NONE;
	const int64_t *start = gg_eval_ints(e, 1), *end = gg_eval_ints(e, 2);
	const int64_t *axes = has_axes ? gg_eval_ints(e, 3) : NULL,
	              *steps = has_steps ? gg_eval_ints(e, 4) : NULL;
	for (int i = 0; i < rank; i++) {
		first[i] = 0;
		step[i] = 1;
	}
	for (int j = 0; j < n; j++) {
		int axis = axes ? gg_eval_axis(axes[j], rank) : j;
		cut c = cut_of(x->shape.dim[axis], start[j], end[j], steps ? steps[j] : 1);
		if (c.count != e->out[0].shape.dim[axis])
			return gg_fail(e, "axis %d gives %lld elements, expected %lld", axis,
			               (long long)c.count, (long long)e->out[0].shape.dim[axis]);
		first[axis] = c.start;
		step[axis] = c.count > 1 ? c.step : 0;
	}
	return true;
}

static bool eval(gg_eval *e)
{
	const gg_tensor *x = &e->in[0], *y = &e->out[0];
	int64_t from[GG_MAX_RANK], to[GG_MAX_RANK], first[GG_MAX_RANK], step[GG_MAX_RANK], offset = 0;
	size_t size = gg_dtype_size(x->dtype);
	if (gg_count(y) == 0)
		return true;
	if (!gg_slice_bounds(e, first, step))
		return false;
	gg_strides(&x->shape, from);
	gg_strides(&y->shape, to);
	for (int i = 0; i < x->shape.rank; i++) {
		offset += first[i] * from[i];
		from[i] *= step[i];
	}
	gg_move(size, x->shape.rank, y->shape.dim, (const char *)x->data + offset * (int64_t)size, from,
	        y->data, to);
	return true;
}

/* dy's elements along axis k back at from, from + step, ... of `whole`, zeros elsewhere. */
static gg_value *unstep(gg_builder *t, gg_value *dy, int64_t k, int64_t whole, int64_t from, int64_t step)
{
	int64_t n = dy ? dy->shape.dim[k] : 0, *at = gg_alloc_n(&t->g->m->arena, (size_t)n + 1, sizeof *at);
	gg_shape s = dy ? dy->shape : (gg_shape){0};
	for (int64_t i = 0; i < n; i++)
		at[i] = from + i * step;
	s.dim[k] = whole;
	gg_value *like = OP("Expand", NUM(dy, 0), gg_put_ints(t, s.rank, s.dim));
	return like ? gg_grad_rows(t, like, gg_put_ints(t, (int)n, at), k, dy) : 0;
}

/* Zeros around dy, and between its elements where there are steps. */
GG_GRAD(grad)
{
	int64_t from[2 * GG_MAX_RANK], axis[2 * GG_MAX_RANK], step[2 * GG_MAX_RANK],
	    pad[2 * GG_MAX_RANK] = {0};
	int count, naxis = 0, nstep = 0, r = IN(0)->shape.rank;
	bool good = r >= 0 && gg_grad_ints(t, IN(1), from, &count) && count <= r;
	good = good && (!IN(3) || gg_grad_ints(t, IN(3), axis, &naxis)) &&
	       (!IN(4) || gg_grad_ints(t, IN(4), step, &nstep));
	for (int i = 0; good && i < count; i++) {
		int64_t k = naxis ? axis[i] : i, by = nstep ? step[i] : 1;
		k += k < 0 ? r : 0;
		gg_dim whole = IN(0)->shape.dim[k], part = OUT->shape.dim[k];
		good = gg_dim_known(whole) && gg_dim_known(part) && (by == 1 || gg_shape_known(&OUT->shape));
		if (!good)
			break;
		from[i] += from[i] < 0 ? whole : 0;
		from[i] = from[i] < 0 ? 0 : from[i] > whole - (by < 0) ? whole - (by < 0) : from[i];
		pad[k] = by == 1 ? from[i] : 0;
		pad[r + k] = by == 1 ? whole - from[i] - part : 0;
		if (by != 1)
			dy = unstep(t, dy, k, whole, from[i], by);
	}
	if (good)
		gg_give(t, IN(0), OP("Pad", dy, gg_put_ints(t, 2 * r, pad)));
	else
		gg_grad_lacks(t, n, "it is not constant, or of unknown sizes");
}

const gg_op gg_op_Slice = {
    .name = "Slice",
    .doc = "x[start:end:step] along the axes given",
    .min_in = 3,
    .max_in = 5,
    .min_out = 1,
    .max_out = 1,
    .flags = GG_MOVES,
    .in = {{GG_ANY, 'T'}, {GG_INDICES, 'I'}, {GG_INDICES, 'I'}, {GG_INDICES, 'I'}, {GG_INDICES, 'I'}},
    .out = {{GG_ANY, 'T'}},
    .optional = 1 << 3 | 1 << 4,
    .infer = infer,
    .eval = eval,
    .grad = grad};
