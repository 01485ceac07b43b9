/* oneDNN in our words. What differs between its versions 2 and 3 is in dnn.c and nowhere else.
 *
 * All tensors are f32. Convolutions read and write channels-last; weights come as a plain array
 * with strides, and are packed as the primitive likes best. */
#ifndef CPU_DNN_H
#define CPU_DNN_H

#include "../backend.h"

typedef struct dnn_op dnn_op;

/* What is done to a result before it is written, in order. SUM adds what the output holds, ADD
 * (at most one, and first) another tensor that lies like it. */
typedef struct dnn_post {
	enum { DNN_RELU, DNN_CLIP, DNN_SIGMOID, DNN_TANH, DNN_LINEAR, DNN_SUM, DNN_ADD } kind;
	float a, b; /* relu: slope below 0; clip: limits; linear: a * x + b */
} dnn_post;
enum { DNN_POSTS = 4 };

typedef struct dnn_conv {
	bool transposed, bias;
	int spatial;                                                      /* axes */
	int64_t batch, groups, cin, cout;                                 /* channels of all groups */
	int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3]; /* pad: before */
	int npost;
	dnn_post post[DNN_POSTS];
} dnn_conv;

typedef struct dnn_matmul {
	int rank; /* of all three; dims of 1 are repeated. The last two are the matrix */
	int64_t a[GG_MAX_RANK], b[GG_MAX_RANK], c[GG_MAX_RANK];
	int64_t a_stride[GG_MAX_RANK], b_stride[GG_MAX_RANK];
	bool pack; /* pack b; else it is read as it lies */
	bool bias; /* one per column */
	int npost;
	dnn_post post[DNN_POSTS];
} dnn_matmul;

bool dnn_open(gg_diag *d);
const char *dnn_version(void);
/* NULL: oneDNN does not take it, and it is left to ref. */
dnn_op *dnn_conv_new(const dnn_conv *c);
/* The gradient of the convolution's input (src: dy, dst: it), or of its weight (src: the input, dst, which
 * is only read: dy; dnn_unpack gives it). No bias, no posts, not transposed. */
dnn_op *dnn_conv_grad_new(const dnn_conv *c, bool weight);
dnn_op *dnn_matmul_new(const dnn_matmul *m);
size_t dnn_scratch(const dnn_op *o);
/* Packs weights: plain [g][out][in][kernel], or [g][in][out][kernel] when transposed; b by its strides. */
bool dnn_pack(dnn_op *o, const float *weights);
bool dnn_unpack(dnn_op *o, float *weights);
typedef struct dnn_args {
	const float *src, *weights, *bias, *add; /* weights NULL: the packed ones */
	float *dst;
	void *scratch;
} dnn_args;
bool dnn_run(dnn_op *o, const dnn_args *a);
void dnn_free(dnn_op *o);

#endif
