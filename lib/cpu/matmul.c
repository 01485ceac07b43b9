/* MatMul, MatMulBias and Gemm, with the pointwise nodes after them.
 *
 * Constant weights are packed once. A vector added to each row becomes the product's bias, a
 * constant factor and an activation become part of it; the rest of the run follows as a chain
 * over the output. Gemm's general C (any broadcast, beta) is added in between. */
#include "cpu.h"
#include "dnn.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct product {
	dnn_op *op; /* NULL: left to ref, sizes of 0 */
	cpu_chain *rest;
	int a, b, bias, c; /* inputs of the call; -1: absent. c: Gemm's C, where it is no bias */
	bool packed;
	float beta;
	int64_t rows, cols;
} product;

/* Shapes as matrices with batch dims before them, all of one rank. */
static void align(const gg_shape *s, bool transposed, bool column, int rank, int64_t *dim, int64_t *stride)
{
	int64_t own[GG_MAX_RANK], n = 1;
	int r = s->rank;
	memcpy(own, s->dim, sizeof own);
	if (r == 1) { /* a row, or a column */
		own[1] = column ? 1 : own[0];
		own[0] = column ? own[0] : 1;
		r = 2;
	}
	for (int i = 0; i < rank; i++)
		dim[i] = 1;
	for (int i = r; i-- > 0; n *= own[i]) {
		dim[rank - r + i] = own[i];
		stride[rank - r + i] = n;
	}
	for (int i = rank - r; i-- > 0;)
		stride[i] = n;
	if (transposed) {
		int64_t d = dim[rank - 1], t = stride[rank - 1];
		dim[rank - 1] = dim[rank - 2];
		stride[rank - 1] = stride[rank - 2];
		dim[rank - 2] = d;
		stride[rank - 2] = t;
	}
}

static void drop(dnn_matmul *m, int i)
{
	size_t n = (size_t)(--m->rank - i) * sizeof *m->a;
	memmove(m->a + i, m->a + i + 1, n);
	memmove(m->b + i, m->b + i + 1, n);
	memmove(m->c + i, m->c + i + 1, n);
	memmove(m->a_stride + i, m->a_stride + i + 1, n);
	memmove(m->b_stride + i, m->b_stride + i + 1, n);
}

/* Batch dims merge where both operands walk them, and into the rows where only a does. */
static void merge_batch(dnn_matmul *m)
{
	for (int i = m->rank - 2; i-- > 0;)
		if (m->c[i] == 1)
			drop(m, i);
	for (int i = m->rank - 3; i-- > 0;)
		if (m->a[i] == m->c[i] && m->b[i] == m->c[i] && m->a[i + 1] == m->c[i + 1] &&
		    m->b[i + 1] == m->c[i + 1] && m->a_stride[i] == m->a[i + 1] * m->a_stride[i + 1] &&
		    m->b_stride[i] == m->b[i + 1] * m->b_stride[i + 1]) {
			m->a[i + 1] *= m->a[i];
			m->b[i + 1] *= m->b[i];
			m->c[i + 1] *= m->c[i];
			drop(m, i);
		}
	while (m->rank > 2 && m->b[m->rank - 3] == 1 && m->a[m->rank - 3] == m->c[m->rank - 3]) {
		int r = m->rank - 2;
		if (m->a_stride[r - 1] != m->a[r] * m->a_stride[r])
			break;
		m->a[r] *= m->a[r - 1];
		m->c[r] *= m->c[r - 1];
		drop(m, r - 1);
	}
}

static bool describe(const gg_call *c, product *k, dnn_matmul *m)
{
	const gg_node *n = c->node;
	const gg_shape *a = &c->in[k->a].shape, *b = &c->in[k->b].shape;
	bool gemm = !strcmp(n->op->name, "Gemm");
	int ra = a->rank < 2 ? 2 : a->rank, rb = b->rank < 2 ? 2 : b->rank;
	m->rank = ra > rb ? ra : rb;
	align(a, gemm && gg_get_int(n, "transA"), false, m->rank, m->a, m->a_stride);
	align(b, gemm && gg_get_int(n, "transB"), true, m->rank, m->b, m->b_stride);
	for (int i = 0; i < m->rank - 2; i++)
		m->c[i] = m->a[i] > m->b[i] ? m->a[i] : m->b[i];
	m->c[m->rank - 2] = k->rows = m->a[m->rank - 2];
	m->c[m->rank - 1] = k->cols = m->b[m->rank - 1];
	merge_batch(m);
	return gg_count(&c->in[k->a]) && gg_count(&c->in[k->b]) && gg_count(&c->out[0]);
}

/* One number for each column. */
static bool is_bias(const gg_tensor *t, int64_t cols)
{
	return t->shape.rank > 0 && t->shape.dim[t->shape.rank - 1] == cols && gg_count(t) == cols;
}

static void add_post(dnn_matmul *m, int kind, float a, float b)
{
	m->post[m->npost++] = (dnn_post){.kind = kind, .a = a, .b = b};
}

static bool constant_scalar(const gg_call *c, int slot, float *x)
{
	if (slot < 0 || !c->in_const[slot] || gg_count(&c->in[slot]) != 1)
		return false;
	*x = *(const float *)c->in[slot].data;
	return true;
}

/* Takes covered node j into the product, where it reads the result so far `v`. */
static bool absorb(const gg_call *c, product *k, dnn_matmul *m, int j, const gg_value *v)
{
	const gg_node *n = c->cover[j];
	const char *op = n->op->name;
	bool first = gg_in(n, 0) == v;
	int other = cpu_slot(c, n, first);
	float x;
	if (!gg_one_use(v) || m->npost == DNN_POSTS || c->in[k->b].shape.rank < 2)
		return false;
	if (!strcmp(op, "Add") && k->bias < 0 && k->c < 0 && !m->npost && other >= 0 &&
	    is_bias(&c->in[other], k->cols)) {
		k->bias = other;
		m->bias = true;
		return true;
	}
	if (k->c >= 0)
		return false;
	if (!strcmp(op, "Mul") && constant_scalar(c, other, &x))
		add_post(m, DNN_LINEAR, x, 0);
	else if (!strcmp(op, "Div") && first && constant_scalar(c, other, &x))
		add_post(m, DNN_LINEAR, 1 / x, 0);
	else if (!strcmp(op, "Relu"))
		add_post(m, DNN_RELU, 0, 0);
	else
		return false;
	return true;
}

/* The node's own third input, alpha and beta. */
static void own_terms(const gg_call *c, product *k, dnn_matmul *m)
{
	const gg_node *n = c->node;
	int third = cpu_slot(c, n, 2);
	float alpha = 1;
	k->beta = 1;
	if (!strcmp(n->op->name, "Gemm")) {
		alpha = gg_get_float(n, "alpha");
		k->beta = gg_get_float(n, "beta");
	}
	if (third >= 0 && alpha == 1 && k->beta == 1 && is_bias(&c->in[third], k->cols) &&
	    c->in[k->b].shape.rank >= 2) {
		k->bias = third;
		m->bias = true;
	} else if (third >= 0 && k->beta != 0) {
		k->c = third;
	}
	if (alpha != 1)
		add_post(m, DNN_LINEAR, alpha, 0);
}

static void release(gg_call *c)
{
	product *k = c->state;
	if (!k)
		return;
	dnn_free(k->op);
	cpu_chain_free(k->rest);
	free(k);
	c->state = 0;
}

static bool prepare(gg_call *c)
{
	product *k = c->state = gg_xcalloc(1, sizeof *k);
	dnn_matmul m = {0};
	int j = 1;
	k->a = cpu_slot(c, c->node, 0);
	k->b = cpu_slot(c, c->node, 1);
	k->bias = k->c = -1;
	if (describe(c, k, &m)) {
		own_terms(c, k, &m);
		for (; j < c->ncover && absorb(c, k, &m, j, c->cover[j - 1]->out[0]); j++)
			;
		m.pack = k->packed = c->in_const[k->b];
		if (!(k->op = dnn_matmul_new(&m)))
			j = 1;
	}
	if (k->op) {
		c->workspace = dnn_scratch(k->op);
		if (k->packed && !dnn_pack(k->op, cpu_in(c, k->b)))
			return gg_node_error(c->d, GG_MACHINE, c->node, "oneDNN cannot pack the weights");
	}
	if (j == c->ncover || (k->rest = cpu_chain_new(c, j)))
		return true;
	release(c);
	return false;
}

/* out += beta * C, broadcast to rows x cols. */
static void add_c(const product *k, const gg_tensor *t, float *out)
{
	const gg_shape *s = &t->shape;
	int r = s->rank;
	int64_t cols = r > 0 ? s->dim[r - 1] : 1, rows = r > 1 ? s->dim[r - 2] : 1;
	const float *p = t->data;
	for (int64_t i = 0; i < k->rows; i++, out += k->cols) {
		const float *q = p + (rows > 1 ? i * cols : 0);
		for (int64_t j = 0; j < k->cols; j++)
			out[j] += k->beta * q[cols > 1 ? j : 0];
	}
}

static bool run(gg_call *c)
{
	product *k = c->state;
	int reads[] = {k->a, k->b, k->bias, k->c};
	float *out = cpu_out_begin(c, 4, reads);
	if (out == c->out[0].data && k->rest && cpu_chain_overlaps(k->rest, c))
		out = gg_xaligned(gg_nbytes(&c->out[0]));
	bool ok = k->op ? dnn_run(k->op, cpu_in(c, k->a), k->packed ? 0 : cpu_in(c, k->b),
	                          k->bias < 0 ? 0 : cpu_in(c, k->bias), out, c->scratch)
	                : cpu_reference(c, out);
	if (!ok)
		gg_node_error(c->d, GG_MACHINE, c->node, "the product failed");
	if (ok && k->op && k->c >= 0)
		add_c(k, &c->in[k->c], out);
	if (ok && k->rest)
		cpu_chain_run(k->rest, c, out);
	cpu_out_end(c, out);
	return ok;
}

const gg_kernel cpu_matmul = {"cpu_matmul", prepare, run, release};
