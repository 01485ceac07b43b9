/* ConvInputGrad and ConvWeightGrad: oneDNN's backward convolutions, channels-last like the forward ones; a
 * plain image is reordered on the way. */
#include "cpu.h"
#include "dnn.h"
#include "../window.h"
#include <stdlib.h>
#include <string.h>

typedef struct grad {
	dnn_op *op; /* NULL: left to ref */
	bool weight, constant;
	int dy, other;       /* inputs of the call; other: the weight, or the input */
	size_t at[2], total; /* in scratch, after oneDNN's: dy and the other image, channels-last */
} grad;

static size_t round_up(size_t n) { return (n + 63) & ~(size_t)63; }
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
static size_t room(grad *k, int i, const gg_tensor *t, uint8_t layout)
{
	k->at[i] = k->total;
	return is_last(t, layout) ? 0 : round_up(gg_nbytes(t));
}

static bool prepare(gg_call *c)
{
	grad *k = c->state = gg_xcalloc(1, sizeof *k);
	dnn_conv o;
	k->weight = !strcmp(c->node->op->name, "ConvWeightGrad");
	k->dy = cpu_slot(c, c->node, 0);
	k->other = cpu_slot(c, c->node, 1);
	if (gg_count(&c->in[k->dy]) && gg_count(&c->in[k->other]) && gg_count(&c->out[0])) {
		if (!describe(c, k, &o)) {
			release(c);
			return false;
		}
		k->op = dnn_conv_grad_new(&o, k->weight);
	}
	if (!k->op) {
		cpu_say_reference(c);
		return true;
	}
	k->constant = !k->weight && c->in_const[k->other];
	if (k->constant && !dnn_pack(k->op, cpu_in(c, k->other)))
		return gg_node_error(c->d, GG_MACHINE, c->node, "oneDNN cannot pack the weights");
	k->total = round_up(dnn_scratch(k->op));
	k->total += room(k, 0, &c->in[k->dy], c->in_layout[k->dy]);
	k->total += k->weight ? room(k, 1, &c->in[k->other], c->in_layout[k->other])
	                      : room(k, 1, &c->out[0], c->out_layout[0]);
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

static bool run_input(gg_call *c, grad *k, float *out)
{
	bool direct = is_last(&c->out[0], c->out_layout[0]);
	gg_tensor y = c->out[0], dst = y;
	y.data = out;
	dst.data = direct ? (void *)out : (char *)c->scratch + k->at[1];
	dnn_args a = {.src = last(c, k, 0, k->dy), .dst = dst.data, .scratch = c->scratch};
	if (!k->constant && !dnn_pack(k->op, cpu_in(c, k->other)))
		return false;
	return dnn_run(k->op, &a) && (direct || cpu_convert(&dst, GG_NHWC, &y, GG_PLAIN));
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
