#include "opkit.h"
#include "grad.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool clash(gg_dim a, gg_dim b) { return gg_dim_known(a) && gg_dim_known(b) && a != b; }

static bool has_c(int nin, gg_dtype t) { return nin > 2 && t; }

static bool infer(gg_infer *f)
{
	const gg_shape *a = &f->in[0].shape, *b = &f->in[1].shape,
	               *c = f->nin > 2 ? &f->in[2].shape : &gg_shape_unknown;
	gg_shape *out = &f->out[0].shape, both;
	bool ta = gg_get_int(f->n, "transA"), tb = gg_get_int(f->n, "transB");
	for (int i = 0; i < 2; i++)
		if (f->in[i].shape.rank >= 0 && f->in[i].shape.rank != 2)
			return gg_fail(f, "input %d has rank %d, expected 2", i, f->in[i].shape.rank);
	if (a->rank < 0 || b->rank < 0)
		return true;
	if (clash(a->dim[ta ? 0 : 1], b->dim[tb ? 1 : 0]))
		return gg_fail(f, "inputs %s have shapes %s and %s: inner sizes %lld and %lld differ",
		               gg_input_names(f, 0, 1), gg_str(f, a), gg_str(f, b),
		               (long long)a->dim[ta ? 0 : 1], (long long)b->dim[tb ? 1 : 0]);
	*out = (gg_shape){2, {a->dim[ta ? 1 : 0], b->dim[tb ? 0 : 1]}};
	if (!has_c(f->nin, f->nin > 2 ? f->in[2].dtype : GG_NONE) || c->rank < 0)
		return true;
	if (c->rank > 2 || !gg_broadcast(out, c, &both) || clash(both.dim[0], out->dim[0]) ||
	    clash(both.dim[1], out->dim[1]))
		return gg_fail(f, "input C has shape %s, which cannot be broadcast to %s", gg_str(f, c),
		               gg_str(f, out));
	return true;
}

static gg_mat matrix(const gg_tensor *t, bool trans) { return (gg_mat){t, 0, t->shape.dim[1], trans}; }

/* One row of C, spread to n numbers; the strides are 0 where it repeats. */
static void load_c(const gg_tensor *c, const int64_t *stride, int64_t row, int64_t n, double *v)
{
	for (int64_t j = 0; j < n; j++)
		v[j] = gg_get_f64(c, row * stride[0] + j * stride[1]);
}

static void finish_f64(gg_eval *e, const double *acc, double alpha, double beta)
{
	gg_tensor *out = &e->out[0];
	int64_t m = out->shape.dim[0], n = out->shape.dim[1], stride[2];
	double *row = gg_xaligned((size_t)n * 2 * sizeof *row), *c = row + n;
	bool add = has_c(e->nin, e->nin > 2 ? e->in[2].dtype : GG_NONE);
	if (add)
		gg_bcast_strides(&e->in[2].shape, &out->shape, stride);
	for (int64_t i = 0; i < m; i++) {
		if (add && (i == 0 || stride[0]))
			load_c(&e->in[2], stride, i, n, c);
		for (int64_t j = 0; j < n; j++)
			row[j] = alpha * acc[i * n + j] + (add ? beta * c[j] : 0);
		gg_store_f64(out->dtype, out->data, i * n, n, row);
	}
	free(row);
}

static void finish_i64(gg_eval *e, const int64_t *acc, int64_t alpha, int64_t beta)
{
	gg_tensor *out = &e->out[0];
	int64_t m = out->shape.dim[0], n = out->shape.dim[1], stride[2];
	bool add = has_c(e->nin, e->nin > 2 ? e->in[2].dtype : GG_NONE);
	if (add)
		gg_bcast_strides(&e->in[2].shape, &out->shape, stride);
	for (int64_t k = 0; k < m * n; k++) {
		uint64_t c = add ? (uint64_t)gg_get_i64(&e->in[2], k / n * stride[0] + k % n * stride[1]) : 0;
		gg_set_i64(out, k, (int64_t)((uint64_t)alpha * (uint64_t)acc[k] + (uint64_t)beta * c));
	}
}

static bool is_whole(double x) { return x == rint(x) && fabs(x) < 1e15; }

static bool eval(gg_eval *e)
{
	gg_tensor *out = &e->out[0];
	bool ta = gg_get_int(e->n, "transA"), tb = gg_get_int(e->n, "transB");
	double alpha = gg_get_float(e->n, "alpha"), beta = gg_get_float(e->n, "beta");
	int64_t m = out->shape.dim[0], n = out->shape.dim[1], k = e->in[0].shape.dim[ta ? 0 : 1];
	bool floats = gg_dtype_class(out->dtype) == 'F';
	if (!floats && !(is_whole(alpha) && is_whole(beta)))
		return gg_unsupported(e, "alpha %g and beta %g on integer matrices", alpha, beta);
	if (!gg_count(out))
		return true;
	size_t bytes = (size_t)(m * n) * sizeof(double);
	void *acc = memset(gg_xaligned(bytes), 0, bytes);
	if (floats) {
		gg_gemm_f64(m, n, k, matrix(&e->in[0], ta), matrix(&e->in[1], tb), acc);
		finish_f64(e, acc, alpha, beta);
	} else {
		gg_gemm_i64(m, n, k, matrix(&e->in[0], ta), matrix(&e->in[1], tb), acc);
		finish_i64(e, acc, (int64_t)alpha, (int64_t)beta);
	}
	free(acc);
	return true;
}

static gg_value *times_attr(gg_builder *t, gg_node *n, const char *name, gg_value *g)
{
	float x = gg_get_float(n, name);
	return x == 1 ? g : OP("Mul", g, NUM(g, x));
}

GG_GRAD(grad)
{
	gg_value *a = IN(0), *b = IN(1), *c = IN(2), *g = times_attr(t, n, "alpha", dy);
	bool ta = gg_get_int(n, "transA"), tb = gg_get_int(n, "transB");
	if (gg_grad_wanted(a)) {
		gg_value *d = OP("MatMul", g, tb ? b : gg_put_swap(t, b));
		gg_give(t, a, ta ? gg_put_swap(t, d) : d);
	}
	if (gg_grad_wanted(b)) {
		gg_value *left = tb ? gg_put_swap(t, g) : ta ? a : gg_put_swap(t, a);
		gg_value *right = !tb ? g : ta ? gg_put_swap(t, a) : a;
		gg_give(t, b, OP("MatMul", left, right));
	}
	if (gg_grad_wanted(c))
		gg_give_like(t, n, c, times_attr(t, n, "beta", dy));
}

#define TYPES (GG_FLOATS | GG_DT(GG_I32) | GG_DT(GG_I64) | GG_DT(GG_U32) | GG_DT(GG_U64))
const gg_op gg_op_Gemm = {.name = "Gemm",
                          .doc = "alpha * a * b + beta * c, a and b transposed on demand",
                          .min_in = 2,
                          .max_in = 3,
                          .min_out = 1,
                          .max_out = 1,
                          .attrs = (const gg_attr_spec[]){{"alpha", GG_ATTR_FLOAT, false, "1"},
                                                          {"beta", GG_ATTR_FLOAT, false, "1"},
                                                          {"transA", GG_ATTR_INT, false, "0"},
                                                          {"transB", GG_ATTR_INT, false, "0"},
                                                          {0}},
                          .in = {{TYPES, 'T'}, {TYPES, 'T'}, {TYPES, 'T'}},
                          .out = {{TYPES, 'T'}},
                          .infer = infer,
                          .eval = eval,
                          .grad = grad};
