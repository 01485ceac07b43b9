/* MatMul, MatMulBias and Gemm by cuBLASLt, with the pointwise nodes after them; and products inside other
 * kernels.
 *
 * A vector added to each row, a term of the result's shape and a Relu or Gelu become part of the product;
 * the rest of the run follows as one kernel over the output. cuBLASLt's matrices are
 * column-major, so that c = a b is asked for as c' = b' a'. */
#include "cuda.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKSPACE = 32 << 20, MAX_LOOPS = 4096, MAX_ALGOS = 16 };

typedef struct shape {
	int rank; /* batch dims, then rows and columns */
	int64_t a[GG_MAX_RANK], b[GG_MAX_RANK], c[GG_MAX_RANK], sa[GG_MAX_RANK], sb[GG_MAX_RANK];
	bool ta, tb;
} shape;

typedef struct product {
	cublasLtMatmulDesc_t op;
	cublasLtMatrixLayout_t la, lb, lc;
	cublasLtMatmulAlgo_t algo;
	float alpha, beta;
	double alpha64, beta64;
	bool wide;            /* f64 */
	int a, b, bias, term; /* inputs of the call; -1: absent */
	int64_t loops, *at;   /* three offsets in bytes for each product: a, b, c */
	float ms;             /* of one product, where it was measured; else 0 */
	dnn_plan *fused;      /* cuDNN's engine, where it is better; NULL: cuBLASLt's */
	cuda_wgmma_plan own;  /* likewise a kernel of our own, where own.k.f is set */
	cuda_chain *rest;
	bool none; /* sizes of 0: the result is zeros */
} product;

static cublasLtHandle_t handle;

static bool ok(const gg_call *c, cublasStatus_t s, const char *what)
{
	return s == CUBLAS_STATUS_SUCCESS || gg_node_error(c->d, GG_MACHINE, c->node, "cuBLASLt: %s: %s",
	                                                   what, lt.cublasLtGetStatusString(s));
}

static bool open_library(gg_call *c)
{
	double start = gg_clock();
	if (handle)
		return true;
	if (!cuda_open_lt(c->d) || !ok(c, lt.cublasLtCreate(&handle), "cannot start"))
		return false;
	gg_verbose(c->d, "cuBLASLt opened in %.1f ms", 1e3 * (gg_clock() - start));
	return true;
}

/* ---- shapes ------------------------------------------------------------------------------------ */

static void align(const gg_shape *s, bool column, int rank, int64_t *dim, int64_t *stride)
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
	for (int i = 0; i < rank - 2; i++)
		if (dim[i] == 1)
			stride[i] = 0;
}

static void drop(shape *m, int i)
{
	size_t n = (size_t)(--m->rank - i) * sizeof *m->a;
	memmove(m->a + i, m->a + i + 1, n);
	memmove(m->b + i, m->b + i + 1, n);
	memmove(m->c + i, m->c + i + 1, n);
	memmove(m->sa + i, m->sa + i + 1, n);
	memmove(m->sb + i, m->sb + i + 1, n);
}

/* Batch dims merge where both operands walk them alike, and into the rows where only a does. */
static void merge_batch(shape *m)
{
	for (int i = m->rank - 2; i-- > 0;)
		if (m->c[i] == 1)
			drop(m, i);
	for (int i = m->rank - 3; i-- > 0;)
		if (m->sa[i] == m->c[i + 1] * m->sa[i + 1] && m->sb[i] == m->c[i + 1] * m->sb[i + 1]) {
			m->c[i + 1] *= m->c[i];
			drop(m, i);
		}
	while (m->rank > 2 && !m->ta && m->sb[m->rank - 3] == 0) {
		int r = m->rank - 2;
		if (m->sa[r - 1] != m->a[r] * m->sa[r])
			break;
		m->a[r] *= m->c[r - 1];
		m->c[r] *= m->c[r - 1];
		drop(m, r - 1);
	}
}

static void find_shape(const gg_call *c, const product *p, shape *m)
{
	const gg_node *n = c->node;
	const gg_shape *a = &c->in[p->a].shape, *b = &c->in[p->b].shape;
	bool gemm = !strcmp(n->op->name, "Gemm");
	int ra = a->rank < 2 ? 2 : a->rank, rb = b->rank < 2 ? 2 : b->rank, r;
	*m = (shape){.rank = ra > rb ? ra : rb};
	r = m->rank;
	align(a, false, r, m->a, m->sa);
	align(b, true, r, m->b, m->sb);
	m->ta = gemm && gg_get_int(n, "transA");
	m->tb = gemm && gg_get_int(n, "transB");
	for (int i = 0; i < r - 2; i++)
		m->c[i] = m->a[i] > m->b[i] ? m->a[i] : m->b[i];
	m->c[r - 2] = m->ta ? m->a[r - 1] : m->a[r - 2];
	m->c[r - 1] = m->tb ? m->b[r - 2] : m->b[r - 1];
	merge_batch(m);
}

/* ---- what becomes part of the product ---------------------------------------------------------- */

static bool is_vector(const gg_call *c, int slot, int64_t cols)
{
	const gg_tensor *t = slot < 0 ? NULL : &c->in[slot];
	return t && t->dtype == c->out[0].dtype && t->dtype != GG_F64 && t->shape.rank > 0 &&
	       t->shape.dim[t->shape.rank - 1] == cols && gg_count(t) == cols;
}

static bool is_whole(const gg_call *c, int slot)
{
	return slot >= 0 && c->in[slot].dtype == c->out[0].dtype &&
	       gg_count(&c->in[slot]) == gg_count(&c->out[0]);
}

/* The other operand of node j, an Add that reads v; -1: it is not one. */
static int addend(const gg_call *c, int j, const gg_value *v)
{
	const gg_node *n = c->cover[j];
	if (strcmp(n->op->name, "Add") || gg_in(n, 0) == gg_in(n, 1))
		return -1;
	return cuda_slot(c, n, gg_in(n, 0) == v);
}

/* What cuBLASLt does at the end of a product: Relu, Gelu by tanh. 0: none of them, in f64 always. */
static int end_of(const gg_call *c, const char *activation)
{
	return c->out[0].dtype == GG_F64         ? 0
	       : !strcmp(activation, "Relu")     ? CUBLASLT_EPILOGUE_RELU
	       : !strcmp(activation, "GeluTanh") ? CUBLASLT_EPILOGUE_GELU
	                                         : 0;
}

static const char *activation_of(const gg_node *n)
{
	bool tanh = !strcmp(n->op->name, "Gelu") && !strcmp(gg_get_string(n, "approximate"), "tanh");
	return tanh ? "GeluTanh" : n->op->name;
}

/* How many covered nodes are part of the product, itself among them; a Gelu becomes the head's. */
static int absorb(const gg_call *c, product *p, int64_t cols, int *end, cuda_head *h)
{
	int j = 1, slot;
	for (; j < c->ncover && !*end; j++) {
		const gg_value *v = c->cover[j - 1]->out[0];
		const char *activation = activation_of(c->cover[j]);
		if (!gg_one_use(v)) /* the chain wants it, too */
			break;
		if (end_of(c, activation))
			*end = end_of(c, activation);
		else if (!strcmp(activation, "Gelu") && p->term < 0) {
			h->activation = "Gelu";
			return j + 1;
		} else if ((slot = addend(c, j, v)) < 0)
			break;
		else if (p->bias < 0 && p->term < 0 && is_vector(c, slot, cols))
			p->bias = slot;
		else if (p->term < 0 && is_whole(c, slot))
			p->term = slot;
		else
			break;
	}
	return j;
}

/* What the node itself wants: false when the run's other nodes must wait for the chain. */
static bool take_own(gg_call *c, product *p, int64_t cols, cuda_head *h, int *end)
{
	const gg_node *n = c->node;
	bool gemm = !strcmp(n->op->name, "Gemm");
	int slot = cuda_slot(c, n, 2);
	p->alpha = 1;
	p->bias = p->term = -1;
	if (gemm) {
		p->alpha = gg_get_float(n, "alpha");
		h->beta = gg_get_float(n, "beta");
	}
	if (slot >= 0 && c->in[slot].dtype) {
		if (h->beta == 1 && is_vector(c, slot, cols))
			p->bias = slot;
		else
			h->add = slot;
	}
	if (strcmp(n->op->name, "MatMulBias"))
		return h->add < 0;
	h->activation = gg_get_string(n, "activation");
	if (h->add < 0 && (*end = end_of(c, h->activation))) {
		h->activation = NULL;
		return false;
	}
	return h->add < 0 && !*h->activation;
}

/* ---- cuBLASLt ---------------------------------------------------------------------------------- */

static cudaDataType_t data_type(gg_dtype t)
{
	return t == GG_F64 ? CUDA_R_64F : t == GG_F32 ? CUDA_R_32F : t == GG_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

static bool make_layout(gg_call *c, cublasLtMatrixLayout_t *l, int64_t rows, int64_t cols, int64_t batch,
                        int64_t stride)
{
	int32_t n = (int32_t)batch;
	return ok(c,
	          lt.cublasLtMatrixLayoutCreate(l, data_type(c->out[0].dtype), (uint64_t)rows, (uint64_t)cols,
	                                        rows),
	          "layout") &&
	       ok(c,
	          lt.cublasLtMatrixLayoutSetAttribute(*l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n, sizeof n),
	          "batch") &&
	       ok(c,
	          lt.cublasLtMatrixLayoutSetAttribute(*l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
	                                              &stride, sizeof stride),
	          "stride");
}

/* What was chosen before for the same product: networks repeat their layers. */
typedef struct chosen {
	struct key {
		int64_t rows, cols, inner, batch, sa, sb;
		int32_t ta, tb, type, compute, epilogue, term;
	} key;
	cublasLtMatmulAlgo_t algo;
	size_t workspace;
	float ms;
	struct chosen *next;
} chosen;
static chosen *all_chosen;

typedef struct trial {
	const product *p;
	const cublasLtMatmulAlgo_t *algo;
	void *a, *b, *y, *workspace;
} trial;

static bool run_trial(void *q)
{
	const trial *t = q;
	const product *p = t->p;
	const void *alpha = p->wide ? (void *)&p->alpha64 : &p->alpha,
	           *beta = p->wide ? (void *)&p->beta64 : &p->beta;
	return !lt.cublasLtMatmul(handle, p->op, alpha, t->b, p->la, t->a, p->lb, beta, t->y, p->lc, t->y,
	                          p->lc, t->algo, t->workspace, WORKSPACE, (cudaStream_t)cuda_stream);
}

/* The fastest of those that cuBLASLt proposes goes first. */
static bool measure(gg_call *c, product *p, cublasLtMatmulHeuristicResult_t *r, int n)
{
	trial t = {.p = p};
	void **buffer[] = {&t.a, &t.b, &t.y, &t.workspace};
	const size_t bytes[] = {gg_nbytes(&c->in[p->a]), gg_nbytes(&c->in[p->b]), gg_nbytes(&c->out[0]),
	                        WORKSPACE};
	bool good = true;
	int best = 0;
	for (int i = 0; i < 4 && good; i++)
		good = (*buffer[i] = cuda_device.alloc(c->d, bytes[i], "tuning")) &&
		       cuda_device.fill(c->d, *buffer[i], 0x2a, bytes[i]);
	if (good && p->bias >= 0)
		good = ok(c,
		          lt.cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &t.b,
		                                            sizeof t.b),
		          "bias");
	for (int i = 0; i < n && good; i++) {
		t.algo = &r[i].algo;
		float ms = cuda_measure(run_trial, &t);
		if (ms > 0 && (p->ms == 0 || ms < p->ms)) {
			p->ms = ms;
			best = i;
		}
	}
	for (int i = 0; i < 4; i++)
		if (*buffer[i])
			cuda_device.release(*buffer[i]);
	r[0] = r[best];
	return good;
}

static bool propose(gg_call *c, product *p, chosen *k)
{
	cublasLtMatmulPreference_t pref = NULL;
	cublasLtMatmulHeuristicResult_t r[MAX_ALGOS];
	size_t room = WORKSPACE;
	uint32_t apart = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
	int found = 0, want = cuda_tune() < 1 ? 1 : cuda_tune() > MAX_ALGOS ? MAX_ALGOS : cuda_tune();
	bool good = ok(c, lt.cublasLtMatmulPreferenceCreate(&pref), "preference") &&
	            ok(c,
	               lt.cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
	                                                       &room, sizeof room),
	               "preference") &&
	            (!cuda_deterministic ||
	             ok(c,
	                lt.cublasLtMatmulPreferenceSetAttribute(
	                    pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &apart, sizeof apart),
	                "preference")) &&
	            ok(c,
	               lt.cublasLtMatmulAlgoGetHeuristic(handle, p->op, p->la, p->lb, p->lc, p->lc, pref,
	                                                 want, r, &found),
	               "no algorithm");
	if (pref)
		lt.cublasLtMatmulPreferenceDestroy(pref);
	if (good && !found)
		good = gg_node_error(c->d, GG_UNSUPPORTED, c->node, "cuBLASLt has no algorithm for it");
	if (good && want > 1)
		good = measure(c, p, r, found);
	if (good) {
		k->algo = r[0].algo;
		k->workspace = r[0].workspaceSize;
		k->ms = p->ms;
	}
	return good;
}

/* With the device that it chooses for. */
static const char *library(void)
{
	static char text[512];
	size_t v = lt.cublasLtGetVersion();

	if (!v) /* without a device it is not open */
		snprintf(text, sizeof text, "cuBLASLt, sm_%d", cuda_sm);
	else if (!*text)
		snprintf(text, sizeof text, "cuBLASLt %zu.%zu.%zu, sm_%d%s", v / 10000, v % 10000 / 100,
		         v % 100, cuda_sm, cuda_where());
	return text;
}

static void write_key(const struct key *k, char *to, size_t n)
{
	snprintf(to, n,
	         "matmul %s rows %lld cols %lld inner %lld batch %lld sa %lld sb %lld ta %d tb %d compute %d "
	         "epilogue %d term %d",
	         gg_dtype_name((gg_dtype)k->type), (long long)k->rows, (long long)k->cols,
	         (long long)k->inner, (long long)k->batch, (long long)k->sa, (long long)k->sb, k->ta, k->tb,
	         k->compute, k->epilogue, k->term);
}

/* "algorithm 1f...,  workspace 0", and the time where it was measured. cuBLASLt's own bytes, which serve the
 * version that gave them. */
static bool read_choice(const char *text, chosen *k)
{
	unsigned long long word[8], workspace;
	int n = 0;

	if (!text ||
	    sscanf(text, "algorithm %16llx%16llx%16llx%16llx%16llx%16llx%16llx%16llx workspace %llu%n",
	           &word[0], &word[1], &word[2], &word[3], &word[4], &word[5], &word[6], &word[7], &workspace,
	           &n) != 9 ||
	    workspace > WORKSPACE)
		return false;
	for (int i = 0; i < 8; i++)
		k->algo.data[i] = word[i];
	k->workspace = workspace;
	return true;
}

static void keep_choice(const char *key, const chosen *k)
{
	gg_buf b = {0};

	gg_buf_str(&b, "algorithm ");
	for (int i = 0; i < 8; i++)
		gg_buf_printf(&b, "%016llx", (unsigned long long)k->algo.data[i]);
	gg_buf_printf(&b, " workspace %zu", k->workspace);
	if (k->ms > 0)
		gg_buf_printf(&b, ", %.4g ms", (double)k->ms);
	cuda_choose(library(), key, cuda_is_offline ? "?" : b.p);
	gg_buf_fini(&b);
}

static bool choose(gg_call *c, product *p, const struct key *key)
{
	char name[512];
	chosen *k = all_chosen;
	while (k && memcmp(&k->key, key, sizeof *key))
		k = k->next;
	if (!k) {
		k = gg_xcalloc(1, sizeof *k);
		memcpy(&k->key, key, sizeof *key);
		double start = gg_clock();
		write_key(key, name, sizeof name);
		bool known = read_choice(cuda_choice(library(), name), k);
		if (!known && !propose(c, p, k)) {
			free(k);
			return false;
		}
		if (!known)
			keep_choice(name, k);
		gg_verbose(c->d, "cuBLASLt: %s: %s in %.1f ms", name, known ? "chosen before" : "found",
		           1e3 * (gg_clock() - start));
		k->next = all_chosen;
		all_chosen = k;
	}
	p->algo = k->algo;
	p->ms = k->ms;
	c->workspace = k->workspace;
	return true;
}

static bool make_op(gg_call *c, product *p, const shape *m, bool tf32, int end, struct key *key)
{
	cublasComputeType_t type = p->wide ? CUBLAS_COMPUTE_64F
	                           : tf32  ? CUBLAS_COMPUTE_32F_FAST_TF32
	                                   : CUBLAS_COMPUTE_32F;
	int32_t ta = m->tb ? CUBLAS_OP_T : CUBLAS_OP_N, tb = m->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
	int all = end | (p->bias < 0 ? 0 : CUBLASLT_EPILOGUE_BIAS); /* its numbers are bits */
	cublasLtEpilogue_t e = all ? (cublasLtEpilogue_t)all : CUBLASLT_EPILOGUE_DEFAULT;
	key->ta = ta;
	key->tb = tb;
	key->compute = (int32_t)type;
	key->epilogue = (int32_t)e;
	return ok(c, lt.cublasLtMatmulDescCreate(&p->op, type, p->wide ? CUDA_R_64F : CUDA_R_32F),
	          "product") &&
	       ok(c, lt.cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta),
	          "product") &&
	       ok(c, lt.cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb),
	          "product") &&
	       ok(c, lt.cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_EPILOGUE, &e, sizeof e),
	          "epilogue");
}

/* Offsets of the products that one call does not take: all batch dims but the last. */
static bool list_loops(gg_call *c, product *p, const shape *m)
{
	int outer = m->rank - 3;
	int64_t size = (int64_t)gg_dtype_size(c->out[0].dtype), each = m->c[m->rank - 2] * m->c[m->rank - 1];
	p->loops = 1;
	for (int i = 0; i < outer; i++)
		p->loops *= m->c[i];
	if (p->loops > MAX_LOOPS)
		return gg_node_error(c->d, GG_UNSUPPORTED, c->node,
		                     "batch dims broadcast in %lld pieces, at most %d", (long long)p->loops,
		                     MAX_LOOPS);
	p->at = gg_xcalloc((size_t)p->loops * 3, sizeof *p->at);
	for (int64_t k = 0; k < p->loops; k++) {
		int64_t r = k, a = 0, b = 0;
		for (int i = outer; i-- > 0; r /= m->c[i]) {
			a += r % m->c[i] * m->sa[i];
			b += r % m->c[i] * m->sb[i];
		}
		p->at[3 * k] = a * size;
		p->at[3 * k + 1] = b * size;
		p->at[3 * k + 2] = k * each * (outer >= 0 ? m->c[m->rank - 3] : 1) * size;
	}
	return true;
}

static bool make_product(gg_call *c, product *p, const shape *m, bool tf32, int end)
{
	int r = m->rank;
	int64_t batch = r > 2 ? m->c[r - 3] : 1, rows = m->c[r - 2], cols = m->c[r - 1];
	int64_t sa = r > 2 ? m->sa[r - 3] : 0, sb = r > 2 ? m->sb[r - 3] : 0;
	struct key key = {.rows = rows,
	                  .cols = cols,
	                  .inner = m->a[m->ta ? r - 2 : r - 1],
	                  .batch = batch,
	                  .sa = sa,
	                  .sb = sb,
	                  .type = c->out[0].dtype,
	                  .term = p->term >= 0};
	return make_op(c, p, m, tf32, end, &key) && list_loops(c, p, m) &&
	       make_layout(c, &p->la, m->b[r - 1], m->b[r - 2], batch, sb) &&
	       make_layout(c, &p->lb, m->a[r - 1], m->a[r - 2], batch, sa) &&
	       make_layout(c, &p->lc, cols, rows, batch, rows * cols) && choose(c, p, &key);
}

/* A pass of Gelu over the result, from and to the cache or memory. */
static float gelu_ms(const gg_call *c) { return 0.002f + (float)gg_nbytes(&c->out[0]) * 2 / 4e9f; }

/* Gelu behind a product of half types: cuDNN has an engine for both, cuBLASLt only its approximation by
 * tanh. True: it is taken. */
static bool fuse_gelu(gg_call *c, product *p, const shape *m, cuda_head *h)
{
	int r = m->rank;
	size_t workspace;
	gg_dtype t = c->out[0].dtype;
	if (!h->activation || strcmp(h->activation, "Gelu") || gg_dtype_size(t) != 2 || h->add >= 0 ||
	    p->alpha != 1 || r > 3)
		return false;
	dnn_product o;
	memset(&o, 0, sizeof o);
	o.dtype = t;
	o.batch = r > 2 ? m->c[r - 3] : 1;
	o.m = m->c[r - 2];
	o.n = m->c[r - 1];
	o.k = m->a[m->ta ? r - 2 : r - 1];
	memcpy(o.sx, (int64_t[]){r > 2 ? m->sa[r - 3] : 0, m->ta ? 1 : m->a[r - 1], m->ta ? m->a[r - 1] : 1},
	       sizeof o.sx);
	memcpy(o.sw, (int64_t[]){r > 2 ? m->sb[r - 3] : 0, m->tb ? 1 : m->b[r - 1], m->tb ? m->b[r - 1] : 1},
	       sizeof o.sw);
	o.bias = p->bias >= 0;
	o.gelu = true;
	if (o.n % 8 || o.k % 8)
		return false;
	int known = dnn_product_known(&o);
	if (known < 0 || (!known && cuda_tune() < 2) || !(p->fused = dnn_product_plan(c->d, &o, &workspace)))
		return false;
	float apart = p->ms + gelu_ms(c);
	if (!known)
		gg_verbose(c->d, "node '%s': Gelu in the product's engine %.4f ms, behind it %.4f ms",
		           gg_node_name(c->node), (double)dnn_plan_ms(p->fused), (double)apart);
	if (!known && dnn_plan_ms(p->fused) >= apart) {
		dnn_plan_worse(p->fused, "apart");
		p->fused = NULL;
		return false;
	}
	h->activation = NULL;
	c->workspace = workspace;
	return true;
}

/* ---- a kernel of our own ----------------------------------------------------------------------- */

static bool as_own(const gg_call *c, const product *p, const shape *m, const cuda_head *h, int end,
                   cuda_wgmma *o)
{
	bool gelu = h->activation && !strcmp(h->activation, "Gelu") && h->add < 0;
	memset(o, 0, sizeof *o);
	o->dtype = c->out[0].dtype;
	o->m = m->c[0];
	o->n = m->c[1];
	o->k = m->a[1];
	o->turned = !m->tb;
	o->shift = p->bias < 0 ? 0 : c->out[0].dtype;
	o->add = p->term >= 0;
	o->relu = end == CUBLASLT_EPILOGUE_RELU;
	o->gelu = gelu;
	return end != CUBLASLT_EPILOGUE_GELU && m->rank == 2 && !m->ta && p->alpha == 1 && cuda_wgmma_fits(o);
}

/* A kernel of our own, cuBLASLt, or cuDNN for a product with Gelu: by estimate before the libraries are
 * asked, or by measure after. */
static bool choose_engine(gg_call *c, product *p, const shape *m, cuda_head *h, bool tf32, int end)
{
	cuda_wgmma o;
	bool fits = as_own(c, p, m, h, end, &o);
	int known = fits ? cuda_wgmma_known(&o) : 0;
	bool tuned = cuda_tune() > 1 && !cuda_own() && !known;
	bool own = fits && !tuned && known >= 0 &&
	           (cuda_own() || known ||
	            cuda_wgmma_us(&o) < cuda_library_us(&o) + (o.gelu ? 1e3 * (double)gelu_ms(c) : 0));
	if (!own && (!open_library(c) || !make_product(c, p, m, tf32, end)))
		return false;
	if (!own)
		fuse_gelu(c, p, m, h);
	if ((own || (fits && tuned)) && !cuda_wgmma_make(c->d, &o, &p->own))
		return false;
	if (fits && tuned) {
		float other = p->fused ? dnn_plan_ms(p->fused) : p->ms + (o.gelu ? gelu_ms(c) : 0);
		gg_verbose(c->d, "node '%s': %.4f ms by a kernel of our own, %.4f ms by the libraries",
		           gg_node_name(c->node), (double)p->own.ms, (double)other);
		own = p->own.ms > 0 && p->own.ms < other;
		cuda_wgmma_judge(&o, own, own ? p->own.ms : other);
	}
	if (!own) {
		p->own.k.f = NULL;
		return true;
	}
	if (o.gelu)
		h->activation = NULL;
	p->fused = NULL;
	c->workspace = 0;
	return true;
}

/* ---- the kernel -------------------------------------------------------------------------------- */

static bool prepare(gg_call *c, bool tf32)
{
	product *p = c->state = gg_xcalloc(1, sizeof *p);
	cuda_head h = CUDA_HEAD;
	int from = 1, end = 0;
	shape m;
	p->a = cuda_slot(c, c->node, 0);
	p->b = cuda_slot(c, c->node, 1);
	p->wide = c->out[0].dtype == GG_F64;
	find_shape(c, p, &m);
	int64_t cols = m.c[m.rank - 1];
	p->none = !gg_count(&c->in[p->a]) || !gg_count(&c->in[p->b]);
	if (take_own(c, p, cols, &h, &end) && !p->none)
		from = absorb(c, p, cols, &end, &h);
	if (p->none && p->bias >= 0) {
		h.add = p->bias;
		p->bias = -1;
	}
	if (p->term >= 0)
		p->beta = 1;
	p->alpha64 = p->alpha;
	p->beta64 = p->beta;
	if (!p->none && gg_count(&c->out[0]) && !choose_engine(c, p, &m, &h, tf32, end))
		return false;
	return cuda_chain_new(c, &h, from, &p->rest);
}

static bool run(gg_call *c)
{
	product *p = c->state;
	const void *alpha = p->wide ? (void *)&p->alpha64 : &p->alpha,
	           *beta = p->wide ? (void *)&p->beta64 : &p->beta;
	const char *a = c->in[p->a].data, *b = c->in[p->b].data,
	           *term = p->term < 0 ? NULL : c->in[p->term].data;
	char *y = c->out[0].data;
	if (!gg_count(&c->out[0]))
		return true;
	if (p->none && !cuda_device.fill(c->d, y, 0, gg_nbytes(&c->out[0])))
		return false;
	const void *bias = p->bias < 0 ? NULL : c->in[p->bias].data;
	if (p->own.k.f)
		return cuda_wgmma_run(c->d, &p->own, a, b, NULL, bias, term, y) && cuda_chain_run(p->rest, c);
	if (p->fused)
		return dnn_product_run(c->d, p->fused, a, b, bias, NULL, y, c->scratch) &&
		       cuda_chain_run(p->rest, c);
	if (bias && !ok(c,
	                lt.cublasLtMatmulDescSetAttribute(p->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
	                                                  sizeof bias),
	                "bias"))
		return false;
	for (int64_t k = 0; k < p->loops; k++) {
		const int64_t *at = p->at + 3 * k;
		cublasStatus_t s = lt.cublasLtMatmul(handle, p->op, alpha, b + at[1], p->la, a + at[0], p->lb,
		                                     beta, term ? term + at[2] : y + at[2], p->lc, y + at[2],
		                                     p->lc, &p->algo, c->scratch, c->workspace,
		                                     (cudaStream_t)cuda_stream);
		if (!ok(c, s, "cannot run the product"))
			return false;
	}
	return cuda_chain_run(p->rest, c);
}

static void release(gg_call *c)
{
	product *p = c->state;
	if (!p)
		return;
	if (p->op)
		lt.cublasLtMatmulDescDestroy(p->op);
	if (p->la)
		lt.cublasLtMatrixLayoutDestroy(p->la);
	if (p->lb)
		lt.cublasLtMatrixLayoutDestroy(p->lb);
	if (p->lc)
		lt.cublasLtMatrixLayoutDestroy(p->lc);
	cuda_chain_free(p->rest);
	free(p->at);
	free(p);
}

static bool prepare_strict(gg_call *c) { return prepare(c, false); }
static bool prepare_tf32(gg_call *c) { return prepare(c, true); }

const gg_kernel cuda_matmul = {"cuda_matmul", prepare_strict, run, release};
const gg_kernel cuda_matmul_tf32 = {"cuda_matmul_tf32", prepare_tf32, run, release};

/* ---- inside another kernel's call --------------------------------------------------------------- */

struct cuda_product {
	gg_model *m; /* of one node */
	gg_call c;
	const gg_node *node;
	gg_tensor in[2], out;
	gg_value *value[3];
	uint8_t layout[2];
	bool fixed[2];
};

bool cuda_product_new(gg_call *c, bool tf32, gg_dtype t, int64_t m, int64_t n, int64_t k, cuda_product **out)
{
	cuda_product *p = *out = gg_xcalloc(1, sizeof *p);
	const char *name = gg_node_name(c->node);
	gg_shape a = {2, {m, k}}, b = {2, {n, k}}, y = {2, {m, n}};
	p->m = gg_model_new(name);
	p->value[0] = gg_add_input(p->m->main, "a", t, &a);
	p->value[1] = gg_add_input(p->m->main, "b", t, &b);
	gg_node *node = gg_add_node(p->m->main, NULL, gg_op_find("Gemm"), 2, p->value, 1, &name);
	gg_set_attr_int(node, "transB", 1);
	p->value[2] = node->out[0];
	p->node = node;
	p->in[0] = (gg_tensor){t, a, NULL};
	p->in[1] = (gg_tensor){t, b, NULL};
	p->out = (gg_tensor){t, y, NULL};
	p->c = (gg_call){.d = c->d,
	                 .node = node,
	                 .cover = &p->node,
	                 .ncover = 1,
	                 .nin = 2,
	                 .nout = 1,
	                 .in_value = p->value,
	                 .out_value = p->value + 2,
	                 .in = p->in,
	                 .out = &p->out,
	                 .in_layout = p->layout,
	                 .out_layout = p->layout,
	                 .in_const = p->fixed};
	return prepare(&p->c, tf32);
}

size_t cuda_product_workspace(const cuda_product *p) { return p->c.workspace; }

bool cuda_product_run(cuda_product *p, void *a, void *b, void *y, void *workspace)
{
	p->in[0].data = a;
	p->in[1].data = b;
	p->out.data = y;
	p->c.scratch = workspace;
	return run(&p->c);
}

void cuda_product_free(cuda_product *p)
{
	if (!p)
		return;
	release(&p->c);
	gg_model_free(p->m);
	free(p);
}
