/* Running reference kernels, and what they share: broadcasting, index walks, pointwise loops. */
#include "op.h"
#include <stdlib.h>
#include <string.h>

void *gg_eval_alloc(gg_eval *e, int i, int rank, const int64_t *dim)
{
	gg_tensor *t = &e->out[i];
	t->shape = gg_shape_of(rank, dim);
	int64_t bytes;
	if (!gg_size_of(t->dtype, &t->shape, &bytes)) {
		gg_node_error(e->d, GG_MALFORMED, e->n, "its output %d is too large for memory", i);
		return 0;
	}
	return t->data = e->alloc(e, i, (size_t)bytes);
}

static void *malloc_output(gg_eval *e, int i, size_t bytes) { return gg_xaligned(bytes); }

bool gg_eval_node(gg_diag *d, const gg_node *n, int nin, const gg_tensor *in, int nout, gg_tensor *out)
{
	gg_arena a = {0};
	gg_info *info = gg_alloc_n(&a, (size_t)nout + 1, sizeof *info);
	gg_eval e = {.n = n, .d = d, .a = &a, .nin = nin, .nout = nout, .in = (gg_tensor *)in, .out = out};
	e.alloc = malloc_output;
	memset(out, 0, (size_t)nout * sizeof *out);
	bool good = gg_infer_tensors(d, n, nin, in, nout, info, &a);
	for (int i = 0; good && i < nout; i++) {
		if (!n->out[i])
			continue;
		out[i].dtype = info[i].dtype;
		out[i].shape = info[i].shape;
		if (gg_shape_known(&info[i].shape))
			good = gg_eval_alloc(&e, i, info[i].shape.rank, info[i].shape.dim) != 0;
	}
	good = good && n->op->eval(&e);
	for (int i = 0; !good && i < nout; i++) {
		free(out[i].data);
		out[i].data = 0;
	}
	gg_arena_fini(&a);
	return good;
}

int64_t gg_eval_axis(int64_t axis, int rank) { return axis < 0 ? axis + rank : axis; }

void gg_bcast_strides(const gg_shape *t, const gg_shape *to, int64_t *stride)
{
	int64_t step = 1;
	for (int i = to->rank - 1, k = t->rank - 1; i >= 0; i--, k--) {
		int64_t n = k >= 0 ? t->dim[k] : 1;
		stride[i] = n == 1 ? 0 : step;
		step *= n;
	}
}

bool gg_next_index(const gg_shape *s, int64_t *idx)
{
	for (int i = s->rank - 1; i >= 0; i--) {
		if (++idx[i] < s->dim[i])
			return true;
		idx[i] = 0;
	}
	return false;
}

/* ---- pointwise ------------------------------------------------------------------------------ */
#define BLOCK 256

static bool is_integer(gg_dtype t) { return gg_dtype_class(t) != 'F'; }

bool gg_map1(gg_eval *e, gg_f1 *f, gg_i1 *i, const double *attr)
{
	const gg_tensor *x = &e->in[0], *y = &e->out[0];
	int64_t count = gg_count(y);
	for (int64_t at = 0; at < count; at += BLOCK) {
		int64_t n = count - at < BLOCK ? count - at : BLOCK;
		if (is_integer(x->dtype)) {
			int64_t v[BLOCK];
			gg_load_i64(x->dtype, x->data, at, n, v);
			for (int64_t k = 0; k < n; k++)
				v[k] = i(v[k], attr);
			gg_store_i64(y->dtype, y->data, at, n, v);
		} else {
			double v[BLOCK];
			gg_load_f64(x->dtype, x->data, at, n, v);
			for (int64_t k = 0; k < n; k++)
				v[k] = f(v[k], attr);
			gg_store_f64(y->dtype, y->data, at, n, v);
		}
	}
	return true;
}

/* The output seen as rows in which both inputs step by 0 or 1, as long as possible: trailing dims
 * are joined while neither input changes between repeating and running. */
typedef struct rows {
	gg_shape outer;
	int64_t n; /* elements of a row */
	int64_t step[2], stride[2][GG_MAX_RANK];
} rows;

static void make_rows(rows *r, const gg_shape *a, const gg_shape *b, const gg_shape *out)
{
	const gg_shape *in[2] = {a, b};
	int keep = out->rank;
	r->n = 1;
	for (int s = 0; s < 2; s++) {
		gg_bcast_strides(in[s], out, r->stride[s]);
		r->step[s] = 0;
	}
	while (keep > 0) {
		int64_t n = out->dim[keep - 1];
		bool fits = true;
		for (int s = 0; s < 2; s++)
			fits &= n == 1 || r->n == 1 || r->stride[s][keep - 1] == r->n * r->step[s];
		if (!fits)
			break;
		for (int s = 0; s < 2; s++)
			if (r->n == 1 && n != 1)
				r->step[s] = r->stride[s][keep - 1] != 0;
		r->n *= n;
		keep--;
	}
	r->outer = gg_shape_of(keep, out->dim);
}

static void load_f(const gg_tensor *t, int64_t off, int64_t step, int64_t n, double *v)
{
	gg_load_f64(t->dtype, t->data, off, step ? n : 1, v);
	for (int64_t k = 1; !step && k < n; k++)
		v[k] = v[0];
}

static void load_i(const gg_tensor *t, int64_t off, int64_t step, int64_t n, int64_t *v)
{
	gg_load_i64(t->dtype, t->data, off, step ? n : 1, v);
	for (int64_t k = 1; !step && k < n; k++)
		v[k] = v[0];
}

static void map_block(gg_eval *e, gg_f2 *f, gg_i2 *i, const double *attr, const rows *r, const int64_t *off,
                      int64_t at, int64_t n)
{
	const gg_tensor *x = &e->in[0], *y = &e->in[1], *z = &e->out[0];
	if (is_integer(x->dtype)) {
		int64_t a[BLOCK], b[BLOCK];
		load_i(x, off[0], r->step[0], n, a);
		load_i(y, off[1], r->step[1], n, b);
		for (int64_t k = 0; k < n; k++)
			a[k] = i(a[k], b[k], attr);
		gg_store_i64(z->dtype, z->data, at, n, a);
		return;
	}
	double a[BLOCK], b[BLOCK];
	load_f(x, off[0], r->step[0], n, a);
	load_f(y, off[1], r->step[1], n, b);
	for (int64_t k = 0; k < n; k++)
		a[k] = f(a[k], b[k], attr);
	gg_store_f64(z->dtype, z->data, at, n, a);
}

bool gg_map2(gg_eval *e, gg_f2 *f, gg_i2 *i, const double *attr)
{
	rows r;
	int64_t idx[GG_MAX_RANK] = {0}, at = 0;
	if (!gg_count(&e->out[0]))
		return true;
	make_rows(&r, &e->in[0].shape, &e->in[1].shape, &e->out[0].shape);
	do {
		int64_t row[2] = {0, 0};
		for (int s = 0; s < 2; s++)
			for (int k = 0; k < r.outer.rank; k++)
				row[s] += idx[k] * r.stride[s][k];
		for (int64_t done = 0; done < r.n; done += BLOCK) {
			int64_t n = r.n - done < BLOCK ? r.n - done : BLOCK;
			int64_t off[2] = {row[0] + done * r.step[0], row[1] + done * r.step[1]};
			map_block(e, f, i, attr, &r, off, at, n);
			at += n;
		}
	} while (gg_next_index(&r.outer, idx));
	return true;
}

bool gg_map2_test(gg_eval *e, gg_f2 *f, gg_i2 *i)
{
	return gg_map2(e, f, i, 0); /* stores of 0 and 1 to bool are exact in every class */
}
