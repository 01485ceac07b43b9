/* The backend itself: its kernels, made from the rows of the cuda target, and what they share. */
#include "cuda.h"
#include "../target.h"
#include <string.h>

/* Hidden, so that a row without a kernel does not link. */
#define ROW(kernel, op, dtypes, slot, layouts, need, ok) \
	extern const gg_kernel kernel __attribute__((visibility("hidden")));
#include "../target/cuda.inc"
#undef ROW

static const gg_kernel *const kernels[] = {
#define ROW(kernel, op, dtypes, slot, layouts, need, ok) &kernel,
#include "../target/cuda.inc"
#undef ROW
};

int cuda_physical(const gg_shape *s, gg_layout l, int64_t *dim)
{
	for (int i = 0; i < s->rank; i++)
		dim[i] = s->dim[i];
	if (l == GG_NHWC && s->rank >= 3) {
		memmove(dim + 1, dim + 2, (size_t)(s->rank - 2) * sizeof *dim);
		dim[s->rank - 1] = s->dim[1];
	}
	return s->rank;
}

/* The logical axis at physical place i. */
static int logical(int i, int rank, gg_layout l)
{
	return l != GG_NHWC || rank < 3 || i == 0 ? i : i == rank - 1 ? 1 : i + 1;
}

void cuda_strides(const gg_shape *s, gg_layout l, const gg_shape *out, gg_layout lout, int64_t *stride)
{
	int64_t own[GG_MAX_RANK], by_axis[GG_MAX_RANK] = {0}, n = 1;
	int rank = cuda_physical(s, l, own), skip = out->rank - s->rank;

	for (int i = rank; i-- > 0; n *= own[i])
		by_axis[skip + logical(i, rank, l)] = own[i] == 1 ? 0 : n;
	for (int i = 0; i < out->rank; i++)
		stride[i] = by_axis[logical(i, out->rank, lout)];
}

static void drop_dim(int i, int *rank, int64_t *dim, int n, int64_t (*stride)[GG_MAX_RANK])
{
	--*rank;
	for (int d = i; d < *rank; d++) {
		dim[d] = dim[d + 1];
		for (int j = 0; j < n; j++)
			stride[j][d] = stride[j][d + 1];
	}
}

void cuda_merge(int *rank, int64_t *dim, int n, int64_t (*stride)[GG_MAX_RANK])
{
	for (int i = *rank; i-- > 0;)
		if (dim[i] == 1)
			drop_dim(i, rank, dim, n, stride);
	for (int i = *rank - 1; i-- > 0;) {
		bool good = true;
		for (int j = 0; j < n; j++)
			good &= stride[j][i] == stride[j][i + 1] * dim[i + 1];
		if (!good)
			continue;
		dim[i + 1] *= dim[i];
		drop_dim(i, rank, dim, n, stride);
	}
}

int cuda_slot(const gg_call *c, const gg_node *n, int i)
{
	const gg_value *v = gg_in(n, i);

	if (v && n == c->node)
		return i;
	for (int k = 0; v && k < c->nin; k++)
		if (c->in_value[k] == v)
			return k;
	return -1;
}

void cuda_offset(gg_buf *b, const char *nm, const char *i, int rank, const int64_t *dim,
                 const int64_t *stride)
{
	int first = 0, last = rank - 1;

	while (first < rank && !stride[first])
		first++;
	while (last >= 0 && !stride[last])
		last--;
	gg_buf_printf(b, "\tlong %s = 0;\n", nm);
	if (first == rank)
		return;
	gg_buf_printf(b, "\t{ INDEX r = %s;\n", i);
	for (int k = rank - 1; k >= first; k--) {
		bool top = k == 0;
		if (stride[k])
			gg_buf_printf(
			    b, top ? "\t%s += (long)r * %lldL;\n" : "\t%s += (long)(r %% %lldu) * %lldL;\n",
			    nm, (long long)(top ? stride[k] : dim[k]), (long long)stride[k]);
		if (!top)
			gg_buf_printf(b, "\tr /= %lldu;\n", (long long)dim[k]);
	}
	gg_buf_str(b, "\t}\n");
}

static bool open_backend(gg_diag *d, int threads) { return cuda_open_device(d); }

static int arch(void) { return cuda_sm; }

static const gg_offline offline = {.open = cuda_open_offline,
                                   .built = cuda_built,
                                   .give = cuda_give,
                                   .deferred = cuda_deferred,
                                   .want = cuda_want};

const gg_backend *gg_backend_query(uint32_t abi);
const gg_backend *gg_backend_query(uint32_t abi)
{
	static const gg_backend b = {.abi = GG_BACKEND_ABI,
	                             .size = sizeof b,
	                             .name = "cuda",
	                             .open = open_backend,
	                             .version = cuda_version,
	                             .arch = arch,
	                             .describe = cuda_card_text,
	                             .kernels = kernels,
	                             .nkernels = sizeof kernels / sizeof *kernels,
	                             .device = &cuda_device,
	                             .offline = &offline};
	return abi == GG_BACKEND_ABI ? &b : NULL;
}
