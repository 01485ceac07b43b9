/* Resize in all its modes: a thread makes an element of the output, a sum over the elements that its axes
 * read together. Where those lie and what they weigh is computed by the reference's own code when the kernel
 * is prepared, an axis at a time, and stays on the device. The cost is the product of what the axes read: 4
 * of linear, 16 of cubic images, more with antialias where they shrink. */
#include "cuda.h"
#include "../move.h"
#include "../op/resize.h"
#include <stdlib.h>
#include <string.h>

typedef struct resize {
	cuda_kernel k;
	void *table; /* on the device: i64 places, then weights, then what is outside */
	size_t at_weight, at_outside;
} resize;

/* An axis that is not as it was: output coordinate c<axis> reads at[first + c * count] and on. */
typedef struct axis {
	int axis;
	int64_t first;
	gg_resize_taps taps;
} axis;

static bool is_float(const gg_call *c) { return gg_dtype_class(c->out[0].dtype) == 'F'; }

/* Sums are in float, as precise as the half types and f32, or in double. */
static bool is_wide(const gg_call *c) { return !is_float(c) || c->out[0].dtype == GG_F64; }

static bool make_table(gg_call *c, resize *k, const axis *a, int n, const int64_t *stride)
{
	int64_t out[GG_MAX_RANK], total = 0;
	size_t size = is_wide(c) ? 8 : 4;
	for (int i = 0; i < n; i++) {
		out[i] = c->out[0].shape.dim[a[i].axis] * a[i].taps.count;
		total += out[i];
	}
	k->at_weight = cuda_round((size_t)total * sizeof(int64_t));
	k->at_outside = k->at_weight + cuda_round((size_t)total * size);
	size_t bytes = k->at_outside + 8;
	char *p = gg_xcalloc(bytes, 1);
	gg_tensor weight = {is_wide(c) ? GG_F64 : GG_F32, {.rank = 0}, p + k->at_weight};
	gg_tensor outside = {
	    a[0].taps.weight ? weight.dtype : c->out[0].dtype, {.rank = 0}, p + k->at_outside};
	for (int i = 0; i < n; i++)
		for (int64_t j = 0; j < out[i]; j++) {
			int64_t at = a[i].taps.at[j];
			((int64_t *)(void *)p)[a[i].first + j] = at < 0 ? -1 : at * stride[a[i].axis];
			if (a[i].taps.weight)
				gg_set_f64(&weight, a[i].first + j, a[i].taps.weight[j]);
		}
	if (GG_NUMBERS & GG_DT(outside.dtype))
		gg_set_f64(&outside, 0, gg_get_float(c->node, "extrapolation_value"));
	k->table = cuda_device.alloc(c->d, bytes, c->node->out[0]->name);
	bool good = k->table && cuda_device.upload(c->d, k->table, p, bytes);
	free(p);
	return good;
}

/* The sum over the first n axes is v<n>; o<n> is where it begins, by the others. Inner loops are those of
 * the first axes, whose sums the reference makes first. */
static void put_sum(gg_buf *s, const axis *a, int n)
{
	if (n == 0) {
		gg_buf_str(s, "\tconst C v = (C)ld(x[o0]);\n");
		return;
	}
	const axis *k = &a[n - 1];
	gg_buf_printf(s,
	              "\tC v%d = 0;\n\tfor (int j = 0; j < %lld; j++) {\n"
	              "\tconst long q = %lldL + (long)c%d * %lldL + j;\n\tconst C w = weight[q];\n"
	              "\tif (w == 0) continue;\n\tconst long o%d = o%d + at[q];\n",
	              n, (long long)k->taps.count, (long long)k->first, k->axis, (long long)k->taps.count,
	              n - 1, n);
	put_sum(s, a, n - 1);
	gg_buf_printf(s, n > 1 ? "\tv%d += w * v%d;\n\t}\n" : "\tv%d += w * v;\n\t}\n", n, n - 1);
}

static void put_text(gg_call *c, gg_buf *s, const axis *a, int n, const int64_t *stride)
{
	int64_t dim[GG_MAX_RANK];
	gg_layout l = (gg_layout)c->out_layout[0];
	int rank = cuda_physical(&c->out[0].shape, l, dim), logical[GG_MAX_RANK];
	for (int i = 0; i < rank; i++)
		logical[i] = l != GG_NHWC || rank < 3 || i == 0 ? i : i == rank - 1 ? 1 : i + 1;
	gg_buf_printf(s, "KERNEL(const W *x, const i64 *at, const C *weight, const O *outside, W *y)\n{\n"
	                 "SPREAD(t, TOTAL) {\n\tINDEX r = t;\n");
	for (int i = rank; i-- > 0;)
		gg_buf_printf(s, "\tconst INDEX c%d = r %% %lldu; r /= %lldu;\n", logical[i],
		              (long long)dim[i], (long long)dim[i]);
	gg_buf_printf(s, "\tlong o%d = 0;\n", n);
	for (int i = 0, k = 0; i < rank; i++)
		if (k < n && a[k].axis == i)
			k++;
		else
			gg_buf_printf(s, "\to%d += (long)c%d * %lldL;\n", n, i, (long long)stride[i]);
	for (int i = 0; i < n; i++)
		gg_buf_printf(
		    s, "\tif (CROP && at[%lldL + (long)c%d * %lldL] < 0) { y[t] = OUTSIDE; continue; }\n",
		    (long long)a[i].first, a[i].axis, (long long)a[i].taps.count);
	if (n && a[0].taps.weight) {
		put_sum(s, a, n);
		gg_buf_printf(s, "\ty[t] = round(v%d, is<W>());\n}\n}\n", n);
		return;
	}
	for (int i = 0; i < n; i++)
		gg_buf_printf(s, "\to%d += at[%lldL + c%d];\n", n, (long long)a[i].first, a[i].axis);
	gg_buf_printf(s, "\ty[t] = x[o%d];\n}\n}\n", n);
}

/* Integers are rounded to the nearest, the even one of two, and stay in their range. */
static const char round_text[] =
    "template <class T_> FN T_ round(double x, is<T_>) {\n"
    "#if INTS\n"
    "\tx = rint(x);\n"
    "\tconst double hi = SIGNED ? ldexp(1.0, 8 * (int)sizeof(T_) - 1) : ldexp(1.0, 8 * (int)sizeof(T_));\n"
    "\tconst u64 top = ~0ull >> (64 + SIGNED - 8 * sizeof(T_));\n"
    "\tif (x >= hi) return (T_)top;\n"
    "\tif (x <= (SIGNED ? -hi : 0)) return (T_)(SIGNED ? (u64)-(i64)top - 1 : 0);\n"
    "\treturn SIGNED ? (T_)(i64)x : (T_)(u64)x;\n"
    "#else\n"
    "\treturn st((C)x, is<T_>());\n"
    "#endif\n}\n";

static bool build(gg_call *c, resize *k, const axis *a, int n, const int64_t *stride)
{
	gg_dtype t = c->out[0].dtype;
	bool sums = n && a[0].taps.weight;
	int64_t total = gg_count(&c->out[0]);
	const char *word = sums ? cuda_type(t) : cuda_word(gg_dtype_size(t)),
	           *sum = is_wide(c) ? "double" : "float";
	gg_buf b = {0}, s = {0};
	gg_buf_printf(
	    &b,
	    "#define INDEX unsigned%s\n#define TOTAL %lluu\n#define W %s\n#define C %s\n#define O %s\n"
	    "#define CROP %d\n#define INTS %d\n#define SIGNED %d\n#define OUTSIDE %s\n",
	    total >> 31 ? " long" : "", (unsigned long long)total, word, sum, sums ? sum : word,
	    !strcmp(gg_get_string(c->node, "coordinate_transformation_mode"), "tf_crop_and_resize"),
	    !is_float(c), gg_dtype_class(t) == 'I', sums ? "round(*outside, is<W>())" : "*outside");
	if (sums)
		gg_buf_str(&s, round_text);
	put_text(c, &s, a, n, stride);
	cuda_spread(&k->k, total, 256);
	bool good = cuda_compile(c->d, b.p, s.p, &k->k);
	gg_buf_fini(&b);
	gg_buf_fini(&s);
	return good;
}

static bool prepare(gg_call *c)
{
	resize *k = c->state = gg_xcalloc(1, sizeof *k);
	const gg_shape *x = &c->in[0].shape;
	int64_t stride[GG_MAX_RANK], first = 0;
	axis a[GG_MAX_RANK];
	gg_arena mem = {0};
	gg_eval e = {
	    .n = c->node, .d = c->d, .a = &mem, .nin = c->nin, .nout = c->nout, .in = c->in, .out = c->out};
	int n = 0;
	for (int i = 1; i < 4; i++) {
		if (!cuda_known(c, i))
			return false;
		c->taken |= i < c->nin ? (uint64_t)1 << i : 0;
	}
	if (!gg_count(&c->out[0]))
		return true;
	if (!gg_count(&c->in[0]))
		return gg_fail(&e, "an empty input cannot be resized to a size above 0");
	cuda_strides(x, (gg_layout)c->in_layout[0], x, GG_PLAIN, stride);
	for (int i = 0; i < x->rank; i++) {
		a[n] = (axis){.axis = i, .first = first};
		gg_resize_taps_of(&e, i, &a[n].taps);
		if (!a[n].taps.identity)
			first += c->out[0].shape.dim[i] * a[n++].taps.count;
	}
	bool good = (!n || make_table(c, k, a, n, stride)) && build(c, k, a, n, stride);
	gg_arena_fini(&mem);
	return good;
}

static bool run(gg_call *c)
{
	const resize *k = c->state;
	char *p = k->table;
	void *arg[] = {c->in[0].data, p, p ? p + k->at_weight : NULL, p ? p + k->at_outside : NULL,
	               c->out[0].data};
	return !k->k.f || cuda_launch(c->d, &k->k, 5, arg);
}

static void release(gg_call *c)
{
	resize *k = c->state;
	if (k && k->table)
		cuda_device.release(k->table);
	free(k);
}

const gg_kernel cuda_resize = {"cuda_resize", prepare, run, release};
