/* The backend itself: its kernels, made from the rows of the cpu target, and what they share. */
#include "cpu.h"
#include "dnn.h"
#include "../target.h"
#include <omp.h>
#include <stdlib.h>
#include <string.h>

int cpu_threads = 1;
const vec_table *vec;

/* Hidden, so that a row without a kernel does not link. */
#define ROW(kernel, op, dtypes, slot, layouts, need, ok) \
	extern const gg_kernel kernel __attribute__((visibility("hidden")));
#include "../target/cpu.inc"
#undef ROW

static const gg_kernel *const kernels[] = {
#define ROW(kernel, op, dtypes, slot, layouts, need, ok) &kernel,
#include "../target/cpu.inc"
#undef ROW
};

/* ---- layouts -------------------------------------------------------------------------------- */

int cpu_physical(const gg_shape *s, gg_layout l, int64_t *dim)
{
	for (int i = 0; i < s->rank; i++)
		dim[i] = s->dim[i];
	if (l == GG_NHWC && s->rank >= 3) {
		memmove(dim + 1, dim + 2, (size_t)(s->rank - 2) * sizeof *dim);
		dim[s->rank - 1] = s->dim[1];
	}
	return s->rank;
}

bool cpu_same_bytes(const gg_shape *s)
{
	int64_t spatial = 1;
	for (int i = 2; i < s->rank; i++)
		spatial *= s->dim[i];
	return s->rank < 3 || s->dim[1] == 1 || spatial == 1;
}

static int block_of(gg_layout l) { return l == GG_BLOCK8 ? 8 : l == GG_BLOCK16 ? 16 : 1; }

/* Where channel c, position p of an image lies. */
static int64_t place(gg_layout l, int64_t c, int64_t p, int64_t channels, int64_t positions)
{
	int64_t b = block_of(l);
	return l == GG_NHWC ? p * channels + c : (c / b * positions + p) * b + c % b;
}

/* Matrices of rows x cols, transposed. Tiles of 16, as a line of cache holds so many floats. */
static void transpose_all(int64_t batch, int64_t rows, int64_t cols, const float *s, float *d)
{
	int64_t strip = 64, strips = (cols + strip - 1) / strip;
#pragma omp parallel for collapse(2) num_threads(cpu_threads) if (batch * rows * cols > 32768)
	for (int64_t b = 0; b < batch; b++)
		for (int64_t k = 0; k < strips; k++) {
			int64_t c0 = k * strip, c1 = cpu_min(c0 + strip, cols);
			const float *p = s + b * rows * cols;
			float *q = d + b * rows * cols;
			for (int64_t r = 0; r < rows; r += 16)
				for (int64_t c = c0; c < c1; c += 16) {
					int64_t re = cpu_min(r + 16, rows), ce = cpu_min(c + 16, c1);
					for (int64_t j = c; j < ce; j++)
						for (int64_t i = r; i < re; i++)
							q[j * rows + i] = p[i * cols + j];
				}
		}
}

bool cpu_convert(const gg_tensor *src, gg_layout from, gg_tensor *dst, gg_layout to)
{
	const gg_shape *s = &src->shape;
	size_t size = gg_dtype_size(src->dtype);
	int64_t batch = s->rank ? s->dim[0] : 1, channels = s->rank > 1 ? s->dim[1] : 1, positions = 1;
	for (int i = 2; i < s->rank; i++)
		positions *= s->dim[i];
	if (!gg_count(src))
		return true;
	if (from == to || (cpu_same_bytes(s) && from <= GG_NHWC && to <= GG_NHWC)) {
		if (from <= GG_NHWC)
			memcpy(dst->data, src->data, gg_nbytes(src));
		return from <= GG_NHWC;
	}
	if (size == sizeof(float) && from <= GG_NHWC && to <= GG_NHWC) {
		int64_t rows = from == GG_PLAIN ? channels : positions,
		        cols = from == GG_PLAIN ? positions : channels;
		transpose_all(batch, rows, cols, src->data, dst->data);
		return true;
	}
	int64_t bf = block_of(from), bt = block_of(to);
	int64_t image_f = (channels + bf - 1) / bf * bf * positions,
	        image_t = (channels + bt - 1) / bt * bt * positions;
	if (bt > 1)
		memset(dst->data, 0, (size_t)(batch * image_t) * size);
	for (int64_t n = 0; n < batch; n++)
		for (int64_t c = 0; c < channels; c++)
			for (int64_t p = 0; p < positions; p++)
				memcpy(
				    (char *)dst->data +
				        (size_t)(n * image_t + place(to, c, p, channels, positions)) * size,
				    (char *)src->data +
				        (size_t)(n * image_f + place(from, c, p, channels, positions)) * size,
				    size);
	return true;
}

static bool run_reorder(gg_call *c)
{
	return cpu_convert(&c->in[0], c->in_layout[0], &c->out[0], c->out_layout[0]);
}
const gg_kernel cpu_reorder = {"cpu_reorder", 0, run_reorder, 0};

/* ---- what kernels share --------------------------------------------------------------------- */

int cpu_slot(const gg_call *c, const gg_node *n, int i)
{
	const gg_value *v = gg_in(n, i);
	if (v && i < c->nin && c->in_value[i] == v) /* so it is for a node that runs alone */
		return i;
	for (int k = 0; v && k < c->nin; k++)
		if (c->in_value[k] == v)
			return k;
	return -1;
}

static bool overlap(const gg_tensor *a, const gg_tensor *b)
{
	const char *p = a->data, *q = b->data;
	return p && q && p < q + gg_nbytes(b) && q < p + gg_nbytes(a);
}

float *cpu_out_begin(gg_call *c, int nreads, const int *reads)
{
	for (int i = 0; i < nreads; i++)
		if (reads[i] >= 0 && overlap(&c->in[reads[i]], &c->out[0]))
			return gg_xaligned(gg_nbytes(&c->out[0]));
	return c->out[0].data;
}

void cpu_out_end(gg_call *c, float *p)
{
	if (p == c->out[0].data)
		return;
	memcpy(c->out[0].data, p, gg_nbytes(&c->out[0]));
	free(p);
}

void cpu_say_reference(const gg_call *c)
{
	if (gg_count(&c->out[0]))
		gg_note(c->d, "node '%s' (%s): oneDNN does not take it as it is: its reference kernel runs",
		        gg_node_name(c->node), c->node->op->name);
}

/* The first covered node on ref, its output into `out` in the layout of output 0. */
bool cpu_reference(gg_call *c, float *out)
{
	const gg_node *n = c->node;
	gg_tensor *in = gg_xcalloc((size_t)n->nin + 1, sizeof *in), y = {0}, to = c->out[0];
	bool ok = true;
	to.data = out;
	for (int i = 0; i < gg_nargs(n); i++) {
		int k = cpu_slot(c, n, i);
		if (k < 0)
			continue;
		in[i] = c->in[k];
		in[i].data = gg_xaligned(gg_nbytes(&in[i]) + 1);
		ok = ok && cpu_convert(&c->in[k], c->in_layout[k], &in[i], GG_PLAIN);
	}
	ok = ok && gg_eval_node(c->d, n, gg_nargs(n), in, 1, &y) &&
	     cpu_convert(&y, GG_PLAIN, &to, c->out_layout[0]);
	for (int i = 0; i < gg_nargs(n); i++)
		free(in[i].data);
	free(y.data);
	free(in);
	return ok;
}

void cpu_product_release(gg_call *c)
{
	cpu_product *p = c->state;
	if (!p)
		return;
	dnn_free(p->op);
	cpu_chain_free(p->rest);
	free(p);
	c->state = 0;
}

/* ---- the backend ---------------------------------------------------------------------------- */

extern const vec_table vec_base, vec_avx2, vec_avx512;

static const vec_table *pick_vec(void)
{
#ifdef __x86_64__
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
	    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
		return &vec_avx512;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return &vec_avx2;
#endif
	return &vec_base;
}

static bool open_backend(gg_diag *d, int threads)
{
	cpu_threads = threads > 0 ? threads : 1;
	omp_set_num_threads(cpu_threads);
	omp_set_dynamic(0);
	vec = pick_vec();
	return dnn_open(d);
}

static int cover(const gg_node *n) { return gg_target_cover(gg_target_find("cpu"), n); }

const gg_backend *gg_backend_query(uint32_t abi);
const gg_backend *gg_backend_query(uint32_t abi)
{
	static const gg_backend b = {GG_BACKEND_ABI,
	                             sizeof b,
	                             "cpu",
	                             open_backend,
	                             dnn_version,
	                             kernels,
	                             sizeof kernels / sizeof *kernels,
	                             cover,
	                             cpu_convert};
	return abi == GG_BACKEND_ABI ? &b : 0;
}
