/* oneDNN, versions 2 and 3. Version 3 made memory descriptors opaque, dropped operation descriptors and
 * the scale of element-wise post-ops; that is all we meet. */
#include "dnn.h"
#include <dnnl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t md_ref;
#define REF(m) (m)
#define md_tag dnnl_memory_desc_create_with_tag
#define md_strided dnnl_memory_desc_create_with_strides
#define md_free(m) dnnl_memory_desc_destroy(m)
#define append_eltwise(po, alg, a, b) dnnl_post_ops_append_eltwise(po, alg, a, b)
#define append_sum(po) dnnl_post_ops_append_sum(po, 1, 0, dnnl_data_type_undef)
#else
typedef const dnnl_memory_desc_t *md_ref;
#define REF(m) (&(m))
#define md_tag dnnl_memory_desc_init_by_tag
#define md_strided dnnl_memory_desc_init_by_strides
#define md_free(m) ((void)(m))
#define append_eltwise(po, alg, a, b) dnnl_post_ops_append_eltwise(po, 1, alg, a, b)
#define append_sum(po) dnnl_post_ops_append_sum(po, 1)
#endif

enum { SRC, WEIGHTS, DST, SCRATCH, BIAS, ADD, PLAIN, MEMORIES };

struct dnn_op {
	dnnl_primitive_t p, packer;
	dnnl_memory_t m[MEMORIES];
	int arg[3]; /* what the primitive calls SRC, WEIGHTS and DST */
	size_t scratch;
	void *packed;
	bool bias, add;
	bool small; /* too little work to wake other threads for */
};

/* About ten microseconds of one thread. oneDNN takes OpenMP's number of threads when it makes a
 * primitive, and again when it runs it. */
static const double SMALL = 2e6;

static int enter(const dnn_op *o)
{
	int threads = omp_get_max_threads();
	if (o->small)
		omp_set_num_threads(1);
	return threads;
}

static dnnl_engine_t engine;
static dnnl_stream_t stream;

const char *dnn_version(void)
{
	static char text[32];
	const dnnl_version_t *v = dnnl_version();
	snprintf(text, sizeof text, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
	return text;
}

bool dnn_open(gg_diag *d)
{
	if (dnnl_engine_create(&engine, dnnl_cpu, 0) ||
	    dnnl_stream_create(&stream, engine, dnnl_stream_default_flags))
		return gg_error(d, GG_MACHINE, "oneDNN finds no CPU engine");
	return true;
}

/* Strides of a plain array; `last` puts axis 1 (channels) innermost. */
static void strides_of(int n, const int64_t *dim, bool last, dnnl_dims_t stride)
{
	int64_t s = 1;
	if (last) {
		stride[1] = 1;
		s = dim[1];
	}
	for (int i = n; i-- > 0;)
		if (!last || i != 1) {
			stride[i] = s;
			s *= dim[i];
		}
}

static dnnl_status_t set_posts(dnnl_primitive_attr_t *attr, int n, const dnn_post *post, md_ref like)
{
	static const dnnl_alg_kind_t alg[] = {[DNN_RELU] = dnnl_eltwise_relu,
	                                      [DNN_CLIP] = dnnl_eltwise_clip,
	                                      [DNN_SIGMOID] = dnnl_eltwise_logistic,
	                                      [DNN_TANH] = dnnl_eltwise_tanh,
	                                      [DNN_LINEAR] = dnnl_eltwise_linear};
	dnnl_post_ops_t po;
	dnnl_status_t e = dnnl_primitive_attr_create(attr);
	if (e || (e = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user)) ||
	    (e = dnnl_post_ops_create(&po)))
		return e;
	for (int i = 0; !e && i < n; i++)
		if (post[i].kind == DNN_ADD)
			e = dnnl_post_ops_append_binary(po, dnnl_binary_add, like);
		else if (post[i].kind == DNN_SUM)
			e = append_sum(po);
		else
			e = append_eltwise(po, alg[post[i].kind], post[i].a, post[i].b);
	e = e ? e : dnnl_primitive_attr_set_post_ops(*attr, po);
	dnnl_post_ops_destroy(po);
	return e;
}

typedef struct conv_args {
	dnnl_dims_t stride, dilate, left, right;
} conv_args;

static dnnl_status_t make_conv(dnnl_primitive_desc_t *pd, const dnn_conv *c, const conv_args *a, md_ref src,
                               md_ref w, md_ref bias, md_ref dst, dnnl_primitive_attr_t attr)
{
#if DNNL_VERSION_MAJOR >= 3
	return c->transposed ? dnnl_deconvolution_forward_primitive_desc_create(
	                           pd, engine, dnnl_forward_inference, dnnl_deconvolution_direct, src, w,
	                           bias, dst, a->stride, a->dilate, a->left, a->right, attr)
	                     : dnnl_convolution_forward_primitive_desc_create(
	                           pd, engine, dnnl_forward_inference, dnnl_convolution_direct, src, w, bias,
	                           dst, a->stride, a->dilate, a->left, a->right, attr);
#else
	dnnl_convolution_desc_t cd; /* a deconvolution's is the same type */
	dnnl_status_t e = c->transposed ? dnnl_dilated_deconvolution_forward_desc_init(
	                                      &cd, dnnl_forward_inference, dnnl_deconvolution_direct, src, w,
	                                      bias, dst, a->stride, a->dilate, a->left, a->right)
	                                : dnnl_dilated_convolution_forward_desc_init(
	                                      &cd, dnnl_forward_inference, dnnl_convolution_direct, src, w,
	                                      bias, dst, a->stride, a->dilate, a->left, a->right);
	return e ? e : dnnl_primitive_desc_create(pd, &cd, attr, engine, 0);
#endif
}

/* The primitive of a gradient needs that of the convolution as a hint. */
static dnnl_status_t make_conv_grad(dnnl_primitive_desc_t *pd, bool weight, const conv_args *a, md_ref src,
                                    md_ref w, md_ref dst, dnnl_primitive_attr_t attr)
{
	dnnl_primitive_desc_t hint;
#if DNNL_VERSION_MAJOR >= 3
	dnnl_status_t e = dnnl_convolution_forward_primitive_desc_create(
	    &hint, engine, dnnl_forward_training, dnnl_convolution_direct, src, w, 0, dst, a->stride,
	    a->dilate, a->left, a->right, 0);
	if (e)
		return e;
	e = weight ? dnnl_convolution_backward_weights_primitive_desc_create(
	                 pd, engine, dnnl_convolution_direct, src, w, 0, dst, a->stride, a->dilate, a->left,
	                 a->right, hint, attr)
	           : dnnl_convolution_backward_data_primitive_desc_create(pd, engine, dnnl_convolution_direct,
	                                                                  src, w, dst, a->stride, a->dilate,
	                                                                  a->left, a->right, hint, attr);
#else
	dnnl_convolution_desc_t cd;
	dnnl_status_t e = dnnl_dilated_convolution_forward_desc_init(&cd, dnnl_forward_training,
	                                                             dnnl_convolution_direct, src, w, 0, dst,
	                                                             a->stride, a->dilate, a->left, a->right);
	if (e || (e = dnnl_primitive_desc_create(&hint, &cd, 0, engine, 0)))
		return e;
	e = weight
	        ? dnnl_dilated_convolution_backward_weights_desc_init(
	              &cd, dnnl_convolution_direct, src, w, 0, dst, a->stride, a->dilate, a->left, a->right)
	        : dnnl_dilated_convolution_backward_data_desc_init(&cd, dnnl_convolution_direct, src, w, dst,
	                                                           a->stride, a->dilate, a->left, a->right);
	e = e ? e : dnnl_primitive_desc_create(pd, &cd, attr, engine, hint);
#endif
	dnnl_primitive_desc_destroy(hint);
	return e;
}

static dnnl_status_t make_matmul(dnnl_primitive_desc_t *pd, md_ref a, md_ref b, md_ref bias, md_ref c,
                                 dnnl_primitive_attr_t attr)
{
#if DNNL_VERSION_MAJOR >= 3
	return dnnl_matmul_primitive_desc_create(pd, engine, a, b, bias, c, attr);
#else
	dnnl_matmul_desc_t md;
	dnnl_status_t e = dnnl_matmul_desc_init(&md, a, b, bias, c);
	return e ? e : dnnl_primitive_desc_create(pd, &md, attr, engine, 0);
#endif
}

static md_ref query(dnnl_primitive_desc_t pd, dnnl_query_t what, int i)
{
	return dnnl_primitive_desc_query_md(pd, what, i);
}

static dnnl_status_t memory(dnnl_memory_t *m, md_ref d)
{
	return dnnl_memory_create(m, d, engine, DNNL_MEMORY_NONE);
}

/* What primitives call their source, weights and result, as queries and as arguments. */
typedef struct names {
	dnnl_query_t query[3];
	int arg[3];
} names;
static const names forward = {{dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
                              {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}},
                   of_input = {{dnnl_query_diff_dst_md, dnnl_query_weights_md, dnnl_query_diff_src_md},
                               {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC}},
                   of_weight = {{dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md},
                                {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};

/* The primitive, its memories, and (plain not NULL) the packing of its weights. */
static dnnl_status_t finish(dnn_op *o, dnnl_primitive_desc_t pd, const names *as, md_ref plain)
{
	md_ref w = query(pd, as->query[WEIGHTS], 0), scratch = query(pd, dnnl_query_scratchpad_md, 0);
	dnnl_status_t e = dnnl_primitive_create(&o->p, pd);
	o->scratch = dnnl_memory_desc_get_size(scratch);
	for (int i = SRC; !e && i <= DST; i++) {
		o->arg[i] = as->arg[i];
		e = memory(&o->m[i], query(pd, as->query[i], 0));
	}
	e = e ? e : memory(&o->m[SCRATCH], scratch);
	if (!e && o->bias)
		e = memory(&o->m[BIAS], query(pd, dnnl_query_weights_md, 1));
	if (!e && o->add)
		e = memory(&o->m[ADD], query(pd, dnnl_query_dst_md, 0));
	if (e || !plain)
		return e;
	dnnl_primitive_desc_t rd;
	bool made = as == &of_weight; /* it makes weights */
	if ((e = memory(&o->m[PLAIN], plain)) ||
	    (e = dnnl_reorder_primitive_desc_create(&rd, made ? w : plain, engine, made ? plain : w, engine,
	                                            0)))
		return e;
	e = dnnl_primitive_create(&o->packer, rd);
	dnnl_primitive_desc_destroy(rd);
	o->packed = gg_xaligned(dnnl_memory_desc_get_size(w));
	return e;
}

static dnn_op *done(dnn_op *o, dnnl_status_t e)
{
	if (!e)
		return o;
	dnn_free(o);
	return 0;
}

/* Channels-last memory of a batch of images. */
static dnnl_status_t image(dnnl_memory_desc_t *m, int64_t batch, int64_t channels, int spatial,
                           const int64_t *size)
{
	dnnl_dims_t dim = {batch, channels}, stride;
	memcpy(dim + 2, size, (size_t)spatial * sizeof *size);
	strides_of(2 + spatial, dim, true, stride);
	return md_strided(m, 2 + spatial, dim, dnnl_f32, stride);
}

/* Weights as the primitive names them, [g][out][in][kernel], and how ours lie. */
static dnnl_status_t conv_weights(const dnn_conv *c, dnnl_memory_desc_t *any, dnnl_memory_desc_t *plain)
{
	int g = c->groups > 1, n = g + 2 + c->spatial;
	dnnl_dims_t dim = {c->groups}, stride;
	dim[g] = c->cout / c->groups;
	dim[g + 1] = c->cin / c->groups;
	memcpy(dim + g + 2, c->kernel, (size_t)c->spatial * sizeof *dim);
	strides_of(n, dim, false, stride);
	if (c->transposed) { /* out and in change places */
		stride[g] = stride[g + 1];
		stride[g + 1] = stride[g] * dim[g];
	}
	dnnl_status_t e = md_tag(any, n, dim, dnnl_f32, dnnl_format_tag_any);
	return e ? e : md_strided(plain, n, dim, dnnl_f32, stride);
}

static void conv_geometry(const dnn_conv *c, conv_args *a)
{
	for (int i = 0; i < c->spatial; i++) {
		int64_t extent = (c->kernel[i] - 1) * c->dilation[i] + 1;
		a->stride[i] = c->stride[i];
		a->dilate[i] = c->dilation[i] - 1;
		a->left[i] = c->pad[i];
		a->right[i] = c->transposed ? (c->in[i] - 1) * c->stride[i] + extent - c->pad[i] - c->out[i]
		                            : (c->out[i] - 1) * c->stride[i] + extent - c->pad[i] - c->in[i];
	}
}

static double conv_work(const dnn_conv *c)
{
	double n = 2.0 * (double)c->batch * (double)c->cin * (double)c->cout / (double)c->groups;
	for (int i = 0; i < c->spatial; i++)
		n *= (double)c->kernel[i] * (double)(c->transposed ? c->in[i] : c->out[i]);
	return n;
}

static double matmul_work(const dnn_matmul *m)
{
	double n = 2.0 * (double)m->a[m->rank - 1];
	for (int i = 0; i < m->rank; i++)
		n *= (double)m->c[i];
	return n;
}

dnn_op *dnn_conv_new(const dnn_conv *c)
{
	dnn_op *o = gg_xcalloc(1, sizeof *o);
	dnnl_memory_desc_t src = {0}, any = {0}, plain = {0}, bias = {0}, dst = {0};
	dnnl_primitive_attr_t attr = 0;
	dnnl_primitive_desc_t pd;
	conv_args a;
	dnnl_dims_t cout = {c->cout};
	o->bias = c->bias;
	o->add = c->npost && c->post[0].kind == DNN_ADD;
	o->small = conv_work(c) < SMALL;
	int threads = enter(o);
	conv_geometry(c, &a);
	dnnl_status_t e = image(&src, c->batch, c->cin, c->spatial, c->in);
	e = e ? e : image(&dst, c->batch, c->cout, c->spatial, c->out);
	e = e ? e : conv_weights(c, &any, &plain);
	e = e ? e : md_tag(&bias, 1, cout, dnnl_f32, dnnl_a);
	e = e ? e : set_posts(&attr, c->npost, c->post, REF(dst));
	e = e ? e : make_conv(&pd, c, &a, REF(src), REF(any), c->bias ? REF(bias) : 0, REF(dst), attr);
	if (!e) {
		e = finish(o, pd, &forward, REF(plain));
		dnnl_primitive_desc_destroy(pd);
	}
	dnnl_primitive_attr_destroy(attr);
	omp_set_num_threads(threads);
	md_free(src), md_free(any), md_free(plain), md_free(bias), md_free(dst);
	return done(o, e);
}

dnn_op *dnn_conv_grad_new(const dnn_conv *c, bool weight)
{
	dnn_op *o = gg_xcalloc(1, sizeof *o);
	dnnl_memory_desc_t src = {0}, any = {0}, plain = {0}, dst = {0};
	dnnl_primitive_attr_t attr = 0;
	dnnl_primitive_desc_t pd;
	conv_args a;
	o->small = conv_work(c) < SMALL;
	int threads = enter(o);
	conv_geometry(c, &a);
	dnnl_status_t e = image(&src, c->batch, c->cin, c->spatial, c->in);
	e = e ? e : image(&dst, c->batch, c->cout, c->spatial, c->out);
	e = e ? e : conv_weights(c, &any, &plain);
	e = e ? e : set_posts(&attr, 0, 0, REF(dst));
	e = e ? e : make_conv_grad(&pd, weight, &a, REF(src), REF(any), REF(dst), attr);
	if (!e) {
		e = finish(o, pd, weight ? &of_weight : &of_input, REF(plain));
		dnnl_primitive_desc_destroy(pd);
	}
	dnnl_primitive_attr_destroy(attr);
	omp_set_num_threads(threads);
	md_free(src), md_free(any), md_free(plain), md_free(dst);
	return done(o, e);
}

dnn_op *dnn_matmul_new(const dnn_matmul *m)
{
	dnn_op *o = gg_xcalloc(1, sizeof *o);
	dnnl_memory_desc_t a = {0}, any = {0}, b = {0}, bias = {0}, c = {0};
	dnnl_primitive_attr_t attr = 0;
	dnnl_primitive_desc_t pd;
	dnnl_dims_t stride, one;
	for (int i = 0; i < m->rank; i++)
		one[i] = i == m->rank - 1 ? m->c[i] : 1;
	o->bias = m->bias;
	o->small = matmul_work(m) < SMALL;
	int threads = enter(o);
	dnnl_status_t e = md_strided(&a, m->rank, m->a, dnnl_f32, m->a_stride);
	e = e ? e : md_strided(&b, m->rank, m->b, dnnl_f32, m->b_stride);
	e = e ? e : md_tag(&any, m->rank, m->b, dnnl_f32, dnnl_format_tag_any);
	strides_of(m->rank, m->c, false, stride);
	e = e ? e : md_strided(&c, m->rank, m->c, dnnl_f32, stride);
	strides_of(m->rank, one, false, stride);
	e = e ? e : md_strided(&bias, m->rank, one, dnnl_f32, stride);
	e = e ? e : set_posts(&attr, m->npost, m->post, REF(c));
	e = e ? e
	      : make_matmul(&pd, REF(a), m->pack ? REF(any) : REF(b), m->bias ? REF(bias) : 0, REF(c), attr);
	if (!e) {
		e = finish(o, pd, &forward, m->pack ? REF(b) : 0);
		dnnl_primitive_desc_destroy(pd);
	}
	dnnl_primitive_attr_destroy(attr);
	omp_set_num_threads(threads);
	md_free(a), md_free(any), md_free(b), md_free(bias), md_free(c);
	return done(o, e);
}

size_t dnn_scratch(const dnn_op *o) { return o->scratch; }

static void set(dnn_op *o, int i, const void *p) { dnnl_memory_set_data_handle(o->m[i], (void *)p); }

static bool reorder(dnn_op *o, const float *plain, int from, int to)
{
	set(o, PLAIN, plain);
	set(o, WEIGHTS, o->packed);
	dnnl_exec_arg_t arg[] = {{DNNL_ARG_FROM, o->m[from]}, {DNNL_ARG_TO, o->m[to]}};
	return !dnnl_primitive_execute(o->packer, stream, 2, arg) && !dnnl_stream_wait(stream);
}

bool dnn_pack(dnn_op *o, const float *weights) { return reorder(o, weights, PLAIN, WEIGHTS); }
bool dnn_unpack(dnn_op *o, float *weights) { return reorder(o, weights, WEIGHTS, PLAIN); }

bool dnn_run(dnn_op *o, const dnn_args *a)
{
	dnnl_exec_arg_t arg[6] = {{o->arg[SRC], o->m[SRC]},
	                          {o->arg[WEIGHTS], o->m[WEIGHTS]},
	                          {o->arg[DST], o->m[DST]},
	                          {DNNL_ARG_SCRATCHPAD, o->m[SCRATCH]}};
	int n = 4;
	set(o, SRC, a->src);
	set(o, WEIGHTS, a->weights ? (const void *)a->weights : o->packed);
	set(o, DST, a->dst);
	set(o, SCRATCH, a->scratch);
	if (o->bias) {
		set(o, BIAS, a->bias);
		arg[n++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, o->m[BIAS]};
	}
	if (o->add) {
		set(o, ADD, a->add);
		arg[n++] = (dnnl_exec_arg_t){DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, o->m[ADD]};
	}
	int threads = enter(o);
	bool ok = !dnnl_primitive_execute(o->p, stream, n, arg) && !dnnl_stream_wait(stream);
	omp_set_num_threads(threads);
	return ok;
}

void dnn_free(dnn_op *o)
{
	if (!o)
		return;
	for (int i = 0; i < MEMORIES; i++)
		if (o->m[i])
			dnnl_memory_destroy(o->m[i]);
	if (o->p)
		dnnl_primitive_destroy(o->p);
	if (o->packer)
		dnnl_primitive_destroy(o->packer);
	free(o->packed);
	free(o);
}
