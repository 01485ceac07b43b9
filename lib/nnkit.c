/* Convolution, pools and rows for reference kernels: obvious loops over doubles. */
#include "nnkit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

double *gg_doubles(const gg_tensor *t)
{
	int64_t n = gg_count(t);
	double *v = gg_xaligned((size_t)n * sizeof *v);
	if (n)
		gg_load_f64(t->dtype, t->data, 0, n, v);
	return v;
}

void gg_store_all(gg_tensor *t, const double *v)
{
	int64_t n = gg_count(t);
	if (n)
		gg_store_f64(t->dtype, t->data, 0, n, v);
}

bool gg_check_vector(gg_infer *f, int i, const char *what, gg_dim channels)
{
	const gg_shape *s = &f->in[i].shape;
	if (!gg_given(f, i) || s->rank < 0)
		return true;
	if (s->rank != 1)
		return gg_fail(f, "%s has rank %d, expected 1", what, s->rank);
	if (gg_dim_known(s->dim[0]) && gg_dim_known(channels) && s->dim[0] != channels)
		return gg_fail(f, "%s has %lld elements, expected %lld", what, (long long)s->dim[0],
		               (long long)channels);
	return true;
}

/* ---- convolution -------------------------------------------------------------------------------- */

/* One tap of the kernel over a plane: large[s*stride + base] and small[s] meet for every s where
 * both exist. To the small side it gathers, to the large side it scatters, to the tap itself it adds. */
typedef struct taps {
	int nd;
	bool scatter;
	double weight;
	int64_t small[GG_MAX_RANK], large[GG_MAX_RANK], stride[GG_MAX_RANK], base[GG_MAX_RANK];
	const double *from, *other; /* other: the small side, where the taps are summed */
	double *to;
} taps;

static void walk(const taps *t, int axis, int64_t small, int64_t large)
{
	int64_t stride = t->stride[axis], base = t->base[axis];
	int64_t lo = base < 0 ? (-base + stride - 1) / stride : 0, room = t->large[axis] - base;
	int64_t hi = room <= 0 ? 0 : (room + stride - 1) / stride;
	if (hi > t->small[axis])
		hi = t->small[axis];
	small *= t->small[axis];
	large = large * t->large[axis] + base;
	if (axis + 1 < t->nd) {
		for (int64_t s = lo; s < hi; s++)
			walk(t, axis + 1, small + s, large + s * stride);
		return;
	}
	int64_t n = hi - lo, a = small + lo, b = large + lo * stride;
	double w = t->weight;
	if (n <= 0)
		return;
	if (t->other)
		for (int64_t k = 0; k < n; k++)
			*t->to += t->from[b + k * stride] * t->other[a + k];
	else if (t->scatter)
		for (int64_t k = 0; k < n; k++)
			t->to[b + k * stride] += w * t->from[a + k];
	else if (stride == 1)
		for (int64_t k = 0; k < n; k++)
			t->to[a + k] += w * t->from[b + k];
	else
		for (int64_t k = 0; k < n; k++)
			t->to[a + k] += w * t->from[b + k * stride];
}

/* One plane of x into one plane of y, by one kernel. */
static void convolve_plane(const gg_window *w, taps *t, const double *kernel)
{
	gg_shape k = {.rank = w->nd};
	int64_t j[GG_MAX_RANK] = {0};
	for (int i = 0; i < w->nd; i++)
		k.dim[i] = w->kernel[i];
	do {
		t->weight = *kernel++;
		for (int i = 0; i < w->nd; i++)
			t->base[i] = j[i] * w->dilation[i] - w->begin[i];
		walk(t, 0, 0, 0);
		t->to += t->other ? 1 : 0;
	} while (gg_next_index(&k, j));
}

static int64_t product(const gg_dim *dim, int n)
{
	int64_t p = 1;
	for (int i = 0; i < n; i++)
		p *= dim[i];
	return p;
}

/* The window with at least one spatial axis, and its sides. */
static gg_window sides(const gg_window *given, bool transposed, taps *t)
{
	gg_window w = *given;
	if (w.nd == 0) {
		w.in[0] = w.out[0] = w.kernel[0] = w.stride[0] = w.dilation[0] = 1;
		w.nd = 1;
	}
	t->nd = w.nd;
	for (int i = 0; i < w.nd; i++) {
		t->small[i] = transposed ? w.in[i] : w.out[i];
		t->large[i] = transposed ? w.out[i] : w.in[i];
		t->stride[i] = w.stride[i];
	}
	return w;
}

void gg_convolve_weight(const gg_window *given, int64_t batch, int64_t cin, int64_t cout, const double *x,
                        const double *dy, double *dw)
{
	taps t = {.scatter = false};
	gg_window w = sides(given, false, &t);
	int64_t gin = cin / w.group, gout = cout / w.group, per_x = product(w.in, w.nd),
	        per_y = product(w.out, w.nd), per_w = product(w.kernel, w.nd);
	if (!per_x || !per_y || !per_w)
		return;
	for (int64_t b = 0; b < batch; b++)
		for (int64_t m = 0; m < cout; m++)
			for (int64_t c = 0; c < gin; c++) {
				double *to = dw + (m * gin + c) * per_w;
				t.from = x + (b * cin + m / gout * gin + c) * per_x;
				t.other = dy + (b * cout + m) * per_y;
				t.to = to;
				convolve_plane(&w, &t, to); /* the taps' weights are not used */
			}
}

void gg_convolve(const gg_window *given, bool transposed, int64_t batch, int64_t cin, int64_t cout,
                 const double *x, const double *weight, double *y)
{
	taps t = {.scatter = transposed};
	gg_window w = sides(given, transposed, &t);
	int64_t gin = cin / w.group, gout = cout / w.group, per_x = product(w.in, w.nd),
	        per_y = product(w.out, w.nd), per_w = product(w.kernel, w.nd);
	if (!per_x || !per_y || !per_w)
		return;
	for (int64_t b = 0; b < batch; b++)
		for (int64_t m = 0; m < cout; m++)
			for (int64_t c = 0; c < gin; c++) {
				int64_t from = m / gout * gin + c;
				int64_t kernel = transposed ? from * gout + m % gout : m * gin + c;
				t.from = x + (b * cin + from) * per_x;
				t.to = y + (b * cout + m) * per_y;
				convolve_plane(&w, &t, weight + kernel * per_w);
			}
}

bool gg_infer_conv(gg_infer *f, int x, int weight)
{
	gg_window w;
	const gg_shape *sx = &f->in[x].shape, *sw = &f->in[weight].shape;
	if (!gg_window_conv(f->d, f->n, sx, sw, &w))
		return false;
	f->out[0].shape = gg_window_shape(&w, sx->rank < 0 ? gg_unknown_dim(f, 0, 0) : sx->dim[0],
	                                  sw->rank < 0 ? gg_unknown_dim(f, 0, 1) : sw->dim[0]);
	for (int i = 0; sx->rank < 0 && i < w.nd; i++)
		f->out[0].shape.dim[i + 2] = gg_unknown_dim(f, 0, i + 2);
	return true;
}

bool gg_eval_conv(gg_eval *e, int bias)
{
	gg_window w;
	gg_tensor *y = &e->out[0];
	if (!gg_window_conv(e->d, e->n, &e->in[0].shape, &e->in[1].shape, &w))
		return false;
	int64_t channels = y->shape.dim[1], count = gg_count(y);
	int64_t plane = gg_span(&y->shape, 2, y->shape.rank);
	double *x = gg_doubles(&e->in[0]), *k = gg_doubles(&e->in[1]);
	double *acc = gg_xaligned((size_t)count * sizeof *acc);
	for (int64_t i = 0; i < count; i++)
		acc[i] = bias >= 0 ? gg_get_f64(&e->in[bias], i / plane % channels) : 0;
	gg_convolve(&w, false, y->shape.dim[0], e->in[0].shape.dim[1], channels, x, k, acc);
	gg_store_all(y, acc);
	free(x);
	free(k);
	free(acc);
	return true;
}

/* ---- pools ---------------------------------------------------------------------------------------- */
static void step_max(gg_pool *p, double x, int64_t at)
{
	if (p->at < 0 || x > p->acc || (isnan(x) && !isnan(p->acc))) {
		p->acc = x;
		p->at = at;
	}
}
static double end_max(const gg_pool *p, bool include_pad) { return p->acc; }

static void step_sum(gg_pool *p, double x, int64_t at) { p->acc += x; }
static double end_average(const gg_pool *p, bool include_pad)
{
	double n = include_pad ? p->in_pads : (double)p->taps;
	return n > 0 ? p->acc / n : 0;
}

static void step_lp(gg_pool *p, double x, int64_t at)
{
	p->acc += p->p == 1 ? fabs(x) : p->p == 2 ? x * x : pow(fabs(x), (double)p->p);
}
static double end_lp(const gg_pool *p, bool include_pad)
{
	return p->p == 1 ? p->acc : p->p == 2 ? sqrt(p->acc) : pow(p->acc, 1 / (double)p->p);
}

const gg_pool_op gg_pool_max = {-INFINITY, step_max, end_max};
const gg_pool_op gg_pool_average = {0, step_sum, end_average};
const gg_pool_op gg_pool_lp = {0, step_lp, end_lp};

/* An empty window's maximum is the least value of the dtype. */
static gg_pool start_pool(const gg_eval *e, const gg_pool_op *op)
{
	gg_dtype t = e->in[0].dtype;
	double least = t == GG_U8 ? 0 : t == GG_I8 ? -128 : op->start;
	return (gg_pool){.p = op == &gg_pool_lp ? gg_get_int(e->n, "p") : 0, .acc = least, .at = -1};
}

bool gg_infer_pool(gg_infer *f)
{
	gg_window w;
	const gg_shape *x = &f->in[0].shape;
	if (!gg_window_pool(f->d, f->n, x, &w))
		return false;
	if (w.nd >= 0)
		f->out[0].shape = gg_window_shape(&w, x->dim[0], x->dim[1]);
	return true;
}

/* The taps of window o that lie inside: from the first of each axis on, so many. */
static gg_shape count_taps(const gg_window *w, const int64_t *o, int64_t *from, gg_pool *p)
{
	gg_shape taps = {.rank = w->nd};
	int64_t to;
	p->in_pads = 1;
	p->taps = 1;
	for (int i = 0; i < w->nd; i++) {
		gg_window_taps(w, i, o[i], &from[i], &to);
		int64_t left = w->in[i] + w->end[i] - (o[i] * w->stride[i] - w->begin[i]);
		int64_t padded = left <= 0 ? 0 : (left + w->dilation[i] - 1) / w->dilation[i];
		p->in_pads *= (double)(padded < w->kernel[i] ? padded : w->kernel[i]);
		p->taps *= taps.dim[i] = to - from[i];
	}
	return taps;
}

static int64_t tap_place(const gg_window *w, const int64_t *o, const int64_t *from, const int64_t *j)
{
	int64_t at = 0;
	for (int i = 0; i < w->nd; i++)
		at = at * w->in[i] + o[i] * w->stride[i] - w->begin[i] + (from[i] + j[i]) * w->dilation[i];
	return at;
}

static void pool_window(const gg_window *w, const int64_t *o, const double *plane, const gg_pool_op *op,
                        gg_pool *p)
{
	int64_t from[GG_MAX_RANK], j[GG_MAX_RANK] = {0};
	gg_shape taps = count_taps(w, o, from, p);
	if (!p->taps)
		return;
	do {
		int64_t at = tap_place(w, o, from, j);
		op->step(p, plane[at], at);
	} while (gg_next_index(&taps, j));
}

/* An average's dy, shared by the taps of its window. */
static void spread_window(const gg_window *w, const int64_t *o, gg_pool *p, double dy, bool include_pad)
{
	int64_t from[GG_MAX_RANK], j[GG_MAX_RANK] = {0};
	gg_shape taps = count_taps(w, o, from, p);
	if (!p->taps)
		return;
	dy /= include_pad ? p->in_pads : (double)p->taps;
	do
		p->to[tap_place(w, o, from, j)] += dy;
	while (gg_next_index(&taps, j));
}

/* The index over the whole tensor, the spatial axes in row-major order or first axis fastest. */
static int64_t flat_index(const gg_window *w, int64_t plane, int64_t at, bool first_fastest)
{
	int64_t size = product(w->in, w->nd), rest = at, to = 0;
	if (at < 0 || !first_fastest)
		return at < 0 ? at : plane * size + at;
	for (int i = w->nd - 1; i >= 0; i--) {
		to += rest % w->in[i] * product(w->in, i);
		rest /= w->in[i];
	}
	return plane * size + to;
}

bool gg_eval_pool(gg_eval *e, const gg_pool_op *op)
{
	gg_window w;
	gg_tensor *y = &e->out[0];
	const gg_shape *s = &e->in[0].shape;
	if (!gg_window_pool(e->d, e->n, s, &w))
		return false;
	bool include_pad = op == &gg_pool_average && gg_get_int(e->n, "count_include_pad");
	bool first_fastest = op == &gg_pool_max && gg_get_int(e->n, "storage_order");
	int64_t planes = s->dim[0] * s->dim[1], size = product(w.in, w.nd), at = 0;
	gg_shape out = gg_shape_of(w.nd, w.out);
	if (!gg_count(y))
		return true;
	double *x = gg_doubles(&e->in[0]);
	for (int64_t c = 0; c < planes; c++) {
		int64_t o[GG_MAX_RANK] = {0};
		do {
			gg_pool p = start_pool(e, op);
			pool_window(&w, o, x + c * size, op, &p);
			gg_set_f64(y, at, op->end(&p, include_pad));
			if (gg_wanted(e, 1))
				gg_set_i64(&e->out[1], at, flat_index(&w, c, p.at, first_fastest));
			at++;
		} while (gg_next_index(&out, o));
	}
	free(x);
	return true;
}

bool gg_eval_pool_grad(gg_eval *e, const gg_pool_op *op)
{
	gg_window w;
	gg_tensor *dx = &e->out[0];
	bool include_pad = op == &gg_pool_average && gg_get_int(e->n, "count_include_pad");
	if (!gg_window_pool(e->d, e->n, &dx->shape, &w))
		return false;
	int64_t planes = dx->shape.dim[0] * dx->shape.dim[1], size = product(w.in, w.nd), at = 0;
	gg_shape out = gg_shape_of(w.nd, w.out);
	double *x = op == &gg_pool_max ? gg_doubles(&e->in[1]) : 0;
	double *to = gg_xcalloc((size_t)gg_count(dx) + 1, sizeof *to);
	for (int64_t c = 0; gg_count(&e->in[0]) && c < planes; c++) {
		int64_t o[GG_MAX_RANK] = {0};
		do {
			double dy = gg_get_f64(&e->in[0], at++);
			gg_pool p = {.acc = op->start, .at = -1, .to = to + c * size};
			if (x)
				pool_window(&w, o, x + c * size, op, &p);
			else
				spread_window(&w, o, &p, dy, include_pad);
			if (p.at >= 0)
				p.to[p.at] += dy;
		} while (gg_next_index(&out, o));
	}
	gg_store_all(dx, to);
	free(to);
	free(x);
	return true;
}

bool gg_infer_global_pool(gg_infer *f)
{
	const gg_shape *x = &f->in[0].shape;
	if (x->rank >= 0 && x->rank < 2)
		return gg_fail(f, "input has rank %d, expected at least 2", x->rank);
	f->out[0].shape = *x;
	for (int i = 2; i < x->rank; i++)
		f->out[0].shape.dim[i] = 1;
	return true;
}

bool gg_eval_global_pool(gg_eval *e, const gg_pool_op *op)
{
	const gg_shape *s = &e->in[0].shape;
	int64_t planes = s->dim[0] * s->dim[1], size = gg_span(s, 2, s->rank);
	double *x = gg_doubles(&e->in[0]);
	for (int64_t c = 0; c < planes; c++) {
		gg_pool p = start_pool(e, op);
		for (int64_t i = 0; i < size; i++)
			op->step(&p, x[c * size + i], i);
		p.taps = size;
		double r = op == &gg_pool_average ? p.acc / (double)size : op->end(&p, false);
		gg_set_f64(&e->out[0], c, r);
	}
	free(x);
	return true;
}

/* ---- rows ----------------------------------------------------------------------------------------- */
bool gg_infer_rows(gg_infer *f)
{
	int axis;
	f->out[0].shape = f->in[0].shape;
	return f->in[0].shape.rank < 0 ||
	       gg_axis(f, "axis", gg_get_int(f->n, "axis"), f->in[0].shape.rank, &axis);
}

bool gg_eval_rows(gg_eval *e, int64_t axis, gg_row_fn *f)
{
	const gg_tensor *x = &e->in[0];
	int a = (int)gg_eval_axis(axis, x->shape.rank);
	int64_t n = x->shape.dim[a], outer = gg_span(&x->shape, 0, a),
	        inner = gg_span(&x->shape, a + 1, x->shape.rank);
	if (!gg_count(x))
		return true;
	double *v = gg_doubles(x), *row = gg_xaligned((size_t)n * sizeof *row);
	for (int64_t o = 0; o < outer; o++)
		for (int64_t i = 0; i < inner; i++) {
			double *p = v + o * n * inner + i;
			for (int64_t k = 0; k < n; k++)
				row[k] = p[k * inner];
			f(row, n, e->n);
			for (int64_t k = 0; k < n; k++)
				p[k * inner] = row[k];
		}
	gg_store_all(&e->out[0], v);
	free(row);
	free(v);
	return true;
}

bool gg_mask_strides(gg_eval *e, int at, const int64_t full[4], int64_t stride[4])
{
	const gg_shape *m = &e->in[at].shape;
	int64_t step = 1;
	for (int i = 3; i >= 0; i--) {
		int k = i - 4 + m->rank;
		int64_t n = k >= 0 ? m->dim[k] : 1;
		if (m->rank > 4 || (n != 1 && n != full[i] && !(i == 3 && n < full[i])))
			return gg_fail(e, "attn_mask has %lld along axis %d, expected %lld or 1",
			               (long long)n, k, (long long)full[i]);
		stride[i] = n == 1 ? 0 : step;
		step *= n;
	}
	return true;
}

double gg_masked(double s, const gg_tensor *m, const int64_t stride[4], int64_t b, int64_t h, int64_t i,
                 int64_t j)
{
	int64_t columns = m->shape.rank ? m->shape.dim[m->shape.rank - 1] : 1;
	if (columns > 1 && j >= columns)
		return s - INFINITY;
	double x = gg_get_f64(m, b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3]);
	return m->dtype != GG_BOOL ? s + x : x != 0 ? s : -INFINITY;
}

void gg_moments(const double *v, int64_t n, double *mean, double *var)
{
	double sum = 0, squares = 0;
	for (int64_t i = 0; i < n; i++)
		sum += v[i];
	*mean = sum / (double)n;
	for (int64_t i = 0; i < n; i++)
		squares += (v[i] - *mean) * (v[i] - *mean);
	*var = squares / (double)n;
}
