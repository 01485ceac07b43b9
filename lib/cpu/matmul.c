/* MatMul, MatMulBias and Gemm, with the pointwise nodes after them.
 *
 * Constant weights are packed once. A vector added to each row becomes the product's bias, a
 * constant factor and an activation become part of it; the rest of the run follows as a chain
 * over the output, as do Gemm's general C and what else the node itself wants. */
#include "cpu.h"
#include "dnn.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct product {
	cpu_product p;
	int a, b, bias; /* inputs of the call; -1: absent */
	bool packed;
	int64_t cols;
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
	m->c[m->rank - 2] = m->a[m->rank - 2];
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

/* At most one factor a product: oneDNN 2.6 applies the first one's number for each. */
static bool add_factor(dnn_matmul *m, float x)
{
	for (int i = 0; i < m->npost; i++)
		if (m->post[i].kind == DNN_LINEAR)
			return false;
	add_post(m, DNN_LINEAR, x, 0);
	return true;
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
	if (!strcmp(op, "Add") && k->bias < 0 && !m->npost && other >= 0 && is_bias(&c->in[other], k->cols)) {
		k->bias = other;
		m->bias = true;
		return true;
	}
	if (!strcmp(op, "Mul") && constant_scalar(c, other, &x))
		return add_factor(m, x);
	if (!strcmp(op, "Div") && first && constant_scalar(c, other, &x))
		return add_factor(m, 1 / x);
	if (strcmp(op, "Relu") || c->check)
		return false;
	add_post(m, DNN_RELU, 0, 0);
	return true;
}

/* The node's own third input, alpha, beta and activation: true when they are part of the product,
 * else `h` has what is left of them. */
static bool own_terms(const gg_call *c, product *k, dnn_matmul *m, cpu_head *h)
{
	const gg_node *n = c->node;
	bool gemm = !strcmp(n->op->name, "Gemm");
	int third = cpu_slot(c, n, 2);
	float alpha = gemm ? gg_get_float(n, "alpha") : 1;
	h->beta = gemm ? gg_get_float(n, "beta") : 1;
	h->activation = gg_op_attr(n->op, "activation") ? gg_get_string(n, "activation") : "";
	h->param[0] = 1; /* Swish's alpha */
	if (alpha != 1)
		add_post(m, DNN_LINEAR, alpha, 0);
	if (third >= 0 && alpha == 1 && h->beta == 1 && is_bias(&c->in[third], k->cols) &&
	    c->in[k->b].shape.rank >= 2) {
		k->bias = third;
		m->bias = true;
	} else if (third >= 0 && h->beta != 0) {
		h->add = third;
	}
	if (h->add < 0 && !strcmp(h->activation, "Relu") && !c->check) {
		add_post(m, DNN_RELU, 0, 0);
		h->activation = "";
	}
	return h->add < 0 && !*h->activation;
}

static bool prepare(gg_call *c)
{
	product *k = c->state = gg_xcalloc(1, sizeof *k);
	dnn_matmul m = {0};
	cpu_head h = CPU_HEAD;
	int j = 1;
	k->a = cpu_slot(c, c->node, 0);
	k->b = cpu_slot(c, c->node, 1);
	k->bias = -1;
	if (describe(c, k, &m)) {
		if (own_terms(c, k, &m, &h))
			while (j < c->ncover && absorb(c, k, &m, j, c->cover[j - 1]->out[0]))
				j++;
		m.pack = k->packed = c->in_const[k->b];
		k->p.op = dnn_matmul_new(&m);
	}
	if (!k->p.op) { /* its reference does all of it */
		cpu_say_reference(c);
		j = 1;
		h = CPU_HEAD;
	}
	if (k->p.op) {
		c->workspace = dnn_scratch(k->p.op);
		if (k->packed && !dnn_pack(k->p.op, cpu_in(c, k->b)))
			return gg_node_error(c->d, GG_MACHINE, c->node, "oneDNN cannot pack the weights");
	}
	k->p.rest = cpu_chain_new(c, &h, j);
	return true;
}

static bool run(gg_call *c)
{
	product *k = c->state;
	int reads[] = {k->a, k->b, k->bias};
	float *out = cpu_out_begin(c, 3, reads);
	if (out == c->out[0].data && k->p.rest && cpu_chain_overlaps(k->p.rest, c))
		out = gg_xaligned(gg_nbytes(&c->out[0]));
	dnn_args a = {.src = cpu_in(c, k->a),
	              .weights = k->packed ? 0 : cpu_in(c, k->b),
	              .bias = k->bias < 0 ? 0 : cpu_in(c, k->bias),
	              .dst = out,
	              .scratch = c->scratch};
	bool ok = k->p.op ? dnn_run(k->p.op, &a) : cpu_reference(c, out);
	if (!ok)
		gg_node_error(c->d, GG_MACHINE, c->node, "the product failed");
	if (ok && k->p.rest)
		cpu_chain_run(k->p.rest, c, out);
	cpu_out_end(c, out);
	return ok;
}

const gg_kernel cpu_matmul = {"cpu_matmul", prepare, run, cpu_product_release};
