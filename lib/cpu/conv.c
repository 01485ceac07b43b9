/* Conv, FusedConv and ConvTranspose, with the pointwise nodes after them.
 *
 * oneDNN's channels-last convolutions are the fastest it has here, by a factor of two over plain
 * ones, so a plain input or output is reordered on the way. A residual, an activation and a bias
 * become part of the convolution; what is left of the run follows as a chain over the output.
 * oneDNN's Relu and Clip make the limit of a NaN: where somebody looks for NaN they follow too. */
#include "cpu.h"
#include "dnn.h"
#include "../plan.h"
#include "../window.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct conv {
	cpu_product p;
	int x, w, b, residual; /* inputs of the call; -1: absent */
	bool in_nhwc, out_nhwc, constant;
	bool copied;          /* the residual lies in the output, or is copied there, and is summed there */
	size_t at_in, at_out; /* in scratch, after oneDNN's */
} conv;

static bool describe(const gg_call *c, const conv *k, dnn_conv *o)
{
	const gg_shape *x = &c->in[k->x].shape, *w = &c->in[k->w].shape;
	gg_window win;
	o->transposed = !strcmp(c->node->op->name, "ConvTranspose");
	if (!(o->transposed ? gg_window_conv_transpose : gg_window_conv)(c->d, c->node, x, w, &win))
		return false;
	o->spatial = win.nd;
	o->batch = x->dim[0];
	o->cin = x->dim[1];
	o->cout = c->out[0].shape.dim[1];
	o->groups = win.group;
	o->bias = k->b >= 0;
	for (int i = 0; i < o->spatial; i++) {
		o->in[i] = x->dim[2 + i];
		o->out[i] = c->out[0].shape.dim[2 + i];
		o->kernel[i] = win.kernel[i];
		o->stride[i] = win.stride[i];
		o->dilation[i] = win.dilation[i];
		o->pad[i] = win.begin[i];
	}
	return true;
}

static bool add_residual(const gg_call *c, conv *k, dnn_conv *o, int r)
{
	if (!gg_shape_eq(&c->in[r].shape, &c->out[0].shape) || c->in_layout[r] != c->out_layout[0] ||
	    !k->out_nhwc)
		return false;
	/* Another operand makes oneDNN leave its fastest kernels. For 1x1 ones that costs less than a copy.
	 */
	bool there = gg_storage((gg_value *)c->out_value[0]) == gg_storage((gg_value *)c->in_value[r]);
	k->residual = r;
	k->copied = there || o->transposed || o->kernel[0] * o->kernel[1] != 1 || o->spatial != 2;
	o->post[o->npost++] = (dnn_post){k->copied ? DNN_SUM : DNN_ADD, 0, 0};
	return true;
}

/* An activation as part of the convolution; false: it has to follow. */
static bool add_activation(const gg_call *c, dnn_conv *o, const char *name, float a, float b)
{
	dnn_post p = {.a = a, .b = b};
	bool limits = !strcmp(name, "Relu") || !strcmp(name, "Clip");
	if (o->npost == DNN_POSTS || (limits && c->check))
		return false;
	if (!strcmp(name, "Relu"))
		p = (dnn_post){DNN_RELU, 0, 0};
	else if (!strcmp(name, "LeakyRelu"))
		p.kind = DNN_RELU;
	else if (!strcmp(name, "Clip"))
		p.kind = DNN_CLIP;
	else if (!strcmp(name, "Sigmoid"))
		p = (dnn_post){DNN_SIGMOID, 0, 0};
	else
		return false;
	o->post[o->npost++] = p;
	return true;
}

static bool constant_scalar(const gg_call *c, int slot, float *x)
{
	if (slot < 0)
		return true; /* absent: the limit stays */
	if (!c->in_const[slot] || gg_count(&c->in[slot]) != 1)
		return false;
	*x = *(const float *)c->in[slot].data;
	return true;
}

/* FusedConv's residual and activation: true when they are part of the convolution, else `h` has
 * what is left of them. */
static bool own_terms(const gg_call *c, conv *k, dnn_conv *o, cpu_head *h)
{
	const gg_node *n = c->node;
	const gg_attr *p = gg_op_attr(n->op, "activation_params") ? gg_get_list(n, "activation_params") : 0;
	int z = cpu_slot(c, n, 3);
	if (!gg_op_attr(n->op, "activation"))
		return true;
	if (z >= 0 && !add_residual(c, k, o, z))
		h->add = z;
	h->activation = gg_get_string(n, "activation");
	for (int i = 0; p && i < p->n && i < 2; i++)
		h->param[i] = p->floats[i];
	if (h->add >= 0)
		return false;
	if (!*h->activation || add_activation(c, o, h->activation, h->param[0], h->param[1])) {
		h->activation = 0;
		return true;
	}
	return false;
}

/* Takes covered node j into the convolution, where it reads the result so far `v` first. */
static bool absorb(const gg_call *c, conv *k, dnn_conv *o, int j, const gg_value *v)
{
	const gg_node *n = c->cover[j];
	const char *op = n->op->name;
	float lo = -INFINITY, hi = INFINITY;
	if (!gg_one_use(v))
		return false;
	if (!strcmp(op, "Add") && k->residual < 0 && !o->npost) {
		int r = cpu_slot(c, n, gg_in(n, 0) == v);
		return r >= 0 && add_residual(c, k, o, r);
	}
	if (gg_in(n, 0) != v)
		return false;
	if (!strcmp(op, "Clip"))
		return constant_scalar(c, cpu_slot(c, n, 1), &lo) &&
		       constant_scalar(c, cpu_slot(c, n, 2), &hi) && add_activation(c, o, op, lo, hi);
	if (!strcmp(op, "LeakyRelu"))
		lo = gg_get_float(n, "alpha");
	return add_activation(c, o, op, lo, 0);
}

static bool prepare(gg_call *c)
{
	conv *k = c->state = gg_xcalloc(1, sizeof *k);
	dnn_conv o = {0};
	k->x = cpu_slot(c, c->node, 0);
	k->w = cpu_slot(c, c->node, 1);
	k->b = cpu_slot(c, c->node, 2);
	k->residual = -1;
	k->in_nhwc = c->in_layout[k->x] == GG_NHWC || cpu_same_bytes(&c->in[k->x].shape);
	k->out_nhwc = c->out_layout[0] == GG_NHWC || cpu_same_bytes(&c->out[0].shape);
	cpu_head h = CPU_HEAD;
	int j = 1;
	if (gg_count(&c->in[k->x]) && gg_count(&c->in[k->w]) && gg_count(&c->out[0])) {
		if (!describe(c, k, &o)) {
			cpu_product_release(c);
			return false;
		}
		if (own_terms(c, k, &o, &h))
			while (j < c->ncover && absorb(c, k, &o, j, c->cover[j - 1]->out[0]))
				j++;
		k->p.op = dnn_conv_new(&o);
	}
	if (!k->p.op) { /* its reference does all of it */
		cpu_say_reference(c);
		j = 1;
		h = CPU_HEAD;
		k->residual = -1;
		k->copied = false;
	}
	k->p.rest = cpu_chain_new(c, &h, j);
	if (!k->p.op)
		return true;
	k->constant = c->in_const[k->w];
	if (k->constant && !dnn_pack(k->p.op, cpu_in(c, k->w)))
		return gg_node_error(c->d, GG_MACHINE, c->node, "oneDNN cannot pack the weights");
	k->at_in = cpu_round(dnn_scratch(k->p.op));
	k->at_out = k->at_in + (k->in_nhwc ? 0 : cpu_round(gg_nbytes(&c->in[k->x])));
	c->workspace = k->at_out + (k->out_nhwc ? 0 : gg_nbytes(&c->out[0]));
	return true;
}

static bool run_dnn(gg_call *c, conv *k, float *out)
{
	gg_tensor x = c->in[k->x], y = c->out[0], src, dst;
	src = x;
	dst = y;
	y.data = out;
	if (!k->in_nhwc) {
		src.data = (char *)c->scratch + k->at_in;
		cpu_convert(&x, GG_PLAIN, &src, GG_NHWC);
	}
	dst.data = k->out_nhwc ? (void *)out : (char *)c->scratch + k->at_out;
	if (k->copied && c->in[k->residual].data != dst.data)
		memcpy(dst.data, c->in[k->residual].data, gg_nbytes(&dst));
	if (!k->constant && !dnn_pack(k->p.op, cpu_in(c, k->w)))
		return false;
	dnn_args a = {.src = src.data,
	              .bias = k->b < 0 ? 0 : cpu_in(c, k->b),
	              .add = k->residual < 0 ? 0 : cpu_in(c, k->residual),
	              .dst = dst.data,
	              .scratch = c->scratch};
	if (!dnn_run(k->p.op, &a))
		return false;
	return k->out_nhwc || cpu_convert(&dst, GG_NHWC, &y, GG_PLAIN);
}

static bool run(gg_call *c)
{
	conv *k = c->state;
	int reads[] = {k->x, k->w, k->b};
	float *out = cpu_out_begin(c, 3, reads);
	if (out == c->out[0].data && k->p.rest && cpu_chain_overlaps(k->p.rest, c))
		out = gg_xaligned(gg_nbytes(&c->out[0]));
	bool ok = k->p.op ? run_dnn(c, k, out) : cpu_reference(c, out);
	if (!ok)
		gg_node_error(c->d, GG_MACHINE, c->node, "the convolution failed");
	if (ok && k->p.rest)
		cpu_chain_run(k->p.rest, c, out);
	cpu_out_end(c, out);
	return ok;
}

const gg_kernel cpu_conv = {"cpu_conv", prepare, run, cpu_product_release};
const gg_kernel cpu_deconv = {"cpu_deconv", prepare, run, cpu_product_release};
