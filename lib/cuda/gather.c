/* Reading at indices: Gather, GatherElements and GatherND. An element is its bytes.
 *
 * An index outside its axis is refused where it is known before the run, in the words of the reference; one
 * that only the device sees reads the nearest end. */
#include "cuda.h"
#include "../move.h"
#include <stdlib.h>

static const char inside_text[] = "FN long inside(long k, long n) {\n"
                                  "\tk = k < 0 ? k + n : k;\n\treturn k < 0 ? 0 : k >= n ? n - 1 : k;\n}\n";

bool cuda_check_indices(gg_call *c, int axis, int k)
{
	const gg_shape *x = &c->in[0].shape;
	int64_t count = gg_count(&c->in[1]);
	gg_arena a = {0};
	gg_eval e = {
	    .n = c->node, .d = c->d, .a = &a, .nin = c->nin, .nout = c->nout, .in = c->in, .out = c->out};
	bool good = true;
	for (int j = 0; j < k && count && good; j++)
		good = x->dim[axis + j] > 0 ||
		       gg_fail(&e, "an index into axis %d, which has size 0", axis + j);
	int64_t *at = good && c->in_const[1] ? gg_eval_ints(&e, 1) : NULL;
	for (int64_t i = 0; at && i < count && good; i++)
		good = gg_eval_indices(&e, &at[i], 1, x->dim[axis + (int)(i % k)]);
	gg_arena_fini(&a);
	return good;
}

/* How many neighbours move as one, of runs of `inner`. */
static int64_t together(const gg_call *c, int64_t inner)
{
	int64_t v = 16 / (int64_t)gg_dtype_size(c->out[0].dtype);
	while (v > 1 && inner % v)
		v /= 2;
	return v;
}

/* Compiles `body`, which makes y[i] of x and the indices `at`; v elements a word. */
static bool build(gg_call *c, int64_t v, gg_buf *body)
{
	cuda_kernel *k = c->state;
	int64_t total = gg_count(&c->out[0]) / v;
	gg_buf b = {0}, s = {0};
	gg_buf_printf(&b, "#define INDEX unsigned%s\n#define W %s\n#define T %s\n",
	              total >> 31 ? " long" : "", cuda_word(gg_dtype_size(c->out[0].dtype) * (size_t)v),
	              cuda_type(c->in[1].dtype));
	gg_buf_printf(&s, "%sKERNEL(const W *x, const T *at, W *y)\n{\nSPREAD(i, %lluu) {\n%s}\n}\n",
	              inside_text, (unsigned long long)total, body->p);
	cuda_spread(k, total, 256);
	bool good = cuda_compile(c->d, b.p, s.p, k);
	gg_buf_fini(&b);
	gg_buf_fini(&s);
	gg_buf_fini(body);
	return good;
}

static bool run(gg_call *c)
{
	const cuda_kernel *k = c->state;
	void *arg[] = {c->in[0].data, c->in[1].data, c->out[0].data};
	return !k->f || cuda_launch(c->d, k, 3, arg);
}

static void release(gg_call *c) { free(c->state); }

static bool prepare(gg_call *c)
{
	const gg_shape *x = &c->in[0].shape;
	int axis = gg_eval_axis(gg_get_int(c->node, "axis"), x->rank);
	int64_t inner = gg_span(x, axis + 1, x->rank), count = gg_count(&c->in[1]);
	int64_t v = together(c, inner);
	gg_buf s = {0};
	c->state = gg_xcalloc(1, sizeof(cuda_kernel));
	if (!gg_count(&c->out[0]))
		return true;
	if (!cuda_check_indices(c, axis, 1))
		return false;
	gg_buf_printf(&s,
	              "\tconst INDEX r = i / %lldu, o = r / %lldu;\n"
	              "\ty[i] = x[((long)o * %lldL + inside(at[r %% %lldu], %lldL)) * %lldL + i %% %lldu];\n",
	              (long long)(inner / v), (long long)count, (long long)x->dim[axis], (long long)count,
	              (long long)x->dim[axis], (long long)(inner / v), (long long)(inner / v));
	return build(c, v, &s);
}
const gg_kernel cuda_gather = {"cuda_gather", prepare, run, release};

static bool prepare_elements(gg_call *c)
{
	const gg_shape *x = &c->in[0].shape, *y = &c->out[0].shape;
	int axis = gg_eval_axis(gg_get_int(c->node, "axis"), x->rank);
	int64_t from[GG_MAX_RANK], along;
	gg_buf s = {0};
	c->state = gg_xcalloc(1, sizeof(cuda_kernel));
	if (!gg_count(&c->out[0]))
		return true;
	if (!cuda_check_indices(c, axis, 1))
		return false;
	gg_strides(x, from);
	along = from[axis];
	from[axis] = 0;
	cuda_offset(&s, "o", "i", y->rank, y->dim, from);
	gg_buf_printf(&s, "\ty[i] = x[o + inside(at[i], %lldL) * %lldL];\n", (long long)x->dim[axis],
	              (long long)along);
	return build(c, 1, &s);
}
const gg_kernel cuda_gather_elements = {"cuda_gather_elements", prepare_elements, run, release};

/* Rows of `inner` elements, each at a tuple of k indices behind the batch's. */
static bool prepare_nd(gg_call *c)
{
	const gg_shape *x = &c->in[0].shape, *idx = &c->in[1].shape;
	int batch = (int)gg_get_int(c->node, "batch_dims"), k = (int)idx->dim[idx->rank - 1];
	int64_t inner = gg_span(x, batch + k, x->rank), v = together(c, inner), stride[GG_MAX_RANK];
	gg_buf s = {0};
	c->state = gg_xcalloc(1, sizeof(cuda_kernel));
	if (!gg_count(&c->out[0]))
		return true;
	if (!cuda_check_indices(c, batch, k))
		return false;
	gg_strides(x, stride);
	gg_buf_printf(&s,
	              "\tconst INDEX r = i / %lldu;\n\tlong o = (long)(r / %lldu) * %lldL + i %% %lldu;\n",
	              (long long)(inner / v), (long long)gg_span(idx, batch, idx->rank - 1),
	              (long long)(gg_span(x, batch, x->rank) / v), (long long)(inner / v));
	for (int j = 0; j < k; j++)
		gg_buf_printf(&s, "\to += inside(at[(long)r * %d + %d], %lldL) * %lldL;\n", k, j,
		              (long long)x->dim[batch + j], (long long)(stride[batch + j] / v));
	gg_buf_str(&s, "\ty[i] = x[o];\n");
	return build(c, v, &s);
}
const gg_kernel cuda_gather_nd = {"cuda_gather_nd", prepare_nd, run, release};
