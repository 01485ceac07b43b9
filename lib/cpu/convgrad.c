/* ConvInputGrad, also added to another gradient, and ConvWeightGrad: oneDNN's backward convolutions,
 * channels-last like the forward ones; a plain image is reordered on the way. A 1x1 convolution's is a
 * product of matrices, to which what lies in the output is added as it is written. */
#include "cpu.h"
#include "dnn.h"
#include "../window.h"
#include <stdlib.h>
#include <string.h>

typedef struct grad {
	dnn_op *op; /* NULL: left to ref */
	bool weight, constant;
	bool product;     /* dy by the weight, as matrices */
	bool sums;        /* the product adds what lies in the output */
	int dy, other, z; /* inputs of the call; other: the weight, or the input; z: what is added, or -1 */
	size_t at[2], total; /* in scratch, after oneDNN's: dy and the other image, channels-last */
} grad;

static bool is_last(const gg_tensor *t, uint8_t layout)
{
	return layout == GG_NHWC || cpu_same_bytes(&t->shape);
}

static bool describe(const gg_call *c, const grad *k, dnn_conv *o)
{
	const gg_shape *x = k->weight ? &c->in[k->other].shape : &c->out[0].shape;
	const gg_shape *w = k->weight ? &c->out[0].shape : &c->in[k->other].shape;
	gg_window win;
	if (!gg_window_conv(c->d, c->node, x, w, &win))
		return false;
	*o = (dnn_conv){
	    .spatial = win.nd, .batch = x->dim[0], .cin = x->dim[1], .cout = w->dim[0], .groups = win.group};
	for (int i = 0; i < o->spatial; i++) {
		o->in[i] = win.in[i];
		o->out[i] = win.out[i];
		o->kernel[i] = win.kernel[i];
		o->stride[i] = win.stride[i];
		o->dilation[i] = win.dilation[i];
		o->pad[i] = win.begin[i];
	}
	return true;
}

static void release(gg_call *c)
{
	grad *k = c->state;
	if (k)
		dnn_free(k->op);
	free(k);
	c->state = 0;
}

/* Room for an image that does not lie as oneDNN wants it. */
static void room(grad *k, int i, const gg_tensor *t, bool there)
{
	k->at[i] = k->total;
	k->total += there ? 0 : cpu_round(gg_nbytes(t));
}

/* The gradient of the input is made where it belongs. */
static bool is_direct(const gg_call *c, const grad *k)
{
	return is_last(&c->out[0], c->out_layout[0]) && (k->z < 0 || k->sums);
}

static bool is_product(const dnn_conv *o)
{
	bool yes = o->groups == 1;
	for (int i = 0; i < o->spatial; i++)
		yes = yes && o->kernel[i] == 1 && o->stride[i] == 1 && !o->pad[i] && o->in[i] == o->out[i];
	return yes;
}

/* Pixels by output channels, times output by input channels. */
static dnn_op *new_product(const dnn_conv *o, bool pack, bool sums)
{
	int64_t rows = o->batch, m = o->cout, n = o->cin;
	for (int i = 0; i < o->spatial; i++)
		rows *= o->in[i];
	dnn_matmul p = {.rank = 2,
	                .a = {rows, m},
	                .b = {m, n},
	                .c = {rows, n},
	                .a_stride = {m, 1},
	                .b_stride = {n, 1},
	                .pack = pack,
	                .npost = sums,
	                .post = {{.kind = DNN_SUM}}};
	return dnn_matmul_new(&p);
}

static bool prepare(gg_call *c)
{
	grad *k = c->state = gg_xcalloc(1, sizeof *k);
	dnn_conv o;
	k->weight = !strcmp(c->node->op->name, "ConvWeightGrad");
	k->dy = cpu_slot(c, c->node, 0);
	k->other = cpu_slot(c, c->node, 1);
	k->z = cpu_slot(c, c->node, 3);
	k->constant = !k->weight && c->in_const[k->other];
	if (gg_count(&c->in[k->dy]) && gg_count(&c->in[k->other]) && gg_count(&c->out[0])) {
		if (!describe(c, k, &o)) {
			release(c);
			return false;
		}
		k->product = !k->weight && is_product(&o);
		k->sums = k->product && k->z >= 0 && is_last(&c->out[0], c->out_layout[0]) &&
		          is_last(&c->in[k->z], c->in_layout[k->z]);
		k->op = k->product ? new_product(&o, k->constant, k->sums) : dnn_conv_grad_new(&o, k->weight);
	}
	if (!k->op) {
		cpu_say_reference(c);
		return true;
	}
	if (k->constant && !dnn_pack(k->op, cpu_in(c, k->other)))
		return gg_node_error(c->d, GG_MACHINE, c->node, "oneDNN cannot pack the weights");
	k->total = cpu_round(dnn_scratch(k->op));
	room(k, 0, &c->in[k->dy], is_last(&c->in[k->dy], c->in_layout[k->dy]));
	if (k->weight)
		room(k, 1, &c->in[k->other], is_last(&c->in[k->other], c->in_layout[k->other]));
	else
		room(k, 1, &c->out[0], is_direct(c, k));
	c->workspace = k->total;
	return true;
}

/* Input i channels-last: as it is, or from scratch. */
static float *last(gg_call *c, const grad *k, int which, int i)
{
	gg_tensor t = c->in[i];
	if (is_last(&t, c->in_layout[i]))
		return t.data;
	t.data = (char *)c->scratch + k->at[which];
	cpu_convert(&c->in[i], GG_PLAIN, &t, GG_NHWC);
	return t.data;
}

static void add(int64_t n, float *y, const float *a, const float *b)
{
	enum { PIECE = 16384 };
#pragma omp parallel for num_threads(cpu_threads) if (n > PIECE)
	for (int64_t at = 0; at < n; at += PIECE)
		vec->add(cpu_min(PIECE, n - at), y + at, a + at, b + at, 0);
}

/* Where z is added by itself the gradient lies in scratch: z may lie in the output. */
static bool finish(gg_call *c, const grad *k, gg_tensor *dx, gg_tensor *y)
{
	const gg_tensor *z = k->z < 0 || k->sums ? 0 : &c->in[k->z];
	bool direct = is_last(y, c->out_layout[0]);
	if (!z)
		return direct || cpu_convert(dx, GG_NHWC, y, GG_PLAIN);
	if (is_last(z, c->in_layout[k->z])) {
		add(gg_count(y), direct ? y->data : dx->data, dx->data, z->data);
		return direct || cpu_convert(dx, GG_NHWC, y, GG_PLAIN);
	}
	gg_tensor plain = *z;
	plain.data = gg_xaligned(gg_nbytes(y));
	bool ok = cpu_convert(dx, GG_NHWC, &plain, GG_PLAIN);
	add(gg_count(y), direct ? plain.data : y->data, plain.data, z->data);
	ok = ok && (!direct || cpu_convert(&plain, GG_PLAIN, y, GG_NHWC));
	free(plain.data);
	return ok;
}

static bool run_input(gg_call *c, grad *k, float *out)
{
	gg_tensor y = c->out[0], dx = y;
	y.data = out;
	dx.data = is_direct(c, k) ? (void *)out : (char *)c->scratch + k->at[1];
	dnn_args a = {.src = last(c, k, 0, k->dy), .dst = dx.data, .scratch = c->scratch};
	if (k->sums && c->in[k->z].data != dx.data)
		memcpy(dx.data, c->in[k->z].data, gg_nbytes(&dx));
	if (k->product && !k->constant)
		a.weights = cpu_in(c, k->other);
	else if (!k->constant && !dnn_pack(k->op, cpu_in(c, k->other)))
		return false;
	return dnn_run(k->op, &a) && finish(c, k, &dx, &y);
}

static bool run_weight(gg_call *c, grad *k, float *out)
{
	gg_tensor y = c->out[0], dst = y;
	dnn_args a = {.src = last(c, k, 1, k->other), .dst = last(c, k, 0, k->dy), .scratch = c->scratch};
	bool plain = c->out_layout[0] == GG_PLAIN || cpu_same_bytes(&y.shape);
	y.data = out;
	dst.data = plain ? (void *)out : gg_xaligned(gg_nbytes(&y));
	bool ok = dnn_run(k->op, &a) && dnn_unpack(k->op, dst.data);
	if (plain)
		return ok;
	ok = ok && cpu_convert(&dst, GG_PLAIN, &y, GG_NHWC);
	free(dst.data);
	return ok;
}

static bool run(gg_call *c)
{
	grad *k = c->state;
	float *out = cpu_out_begin(c, 2, (int[]){k->dy, k->other});
	bool ok = !k->op ? cpu_reference(c, out) : k->weight ? run_weight(c, k, out) : run_input(c, k, out);
	if (!ok)
		gg_node_error(c->d, GG_MACHINE, c->node, "the gradient of the convolution failed");
	cpu_out_end(c, out);
	return ok;
}

const gg_kernel cpu_conv_input_grad = {"cpu_conv_input_grad", prepare, run, release};
const gg_kernel cpu_conv_weight_grad = {"cpu_conv_weight_grad", prepare, run, release};
