/* Conv and FusedConv: cuDNN where it has an engine, else a kernel of our own, plain and slow.
 *
 * Bias, a term of the result's shape and a Relu are part of the engine where cuDNN can; the rest of
 * the run follows as one kernel over the output. Half types and tf32 are computed channels-last,
 * with the channels of a small input padded to what the tensor cores take. */
#include "cuda.h"
#include "../window.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct conv {
	dnn_plan *plan;
	cuda_kernel direct; /* where plan is NULL */
	int bias, add;      /* inputs of the call that the engine takes; -1: absent */
	bool to_x, to_y, to_w;
	cuda_copy reorder_x, reorder_y, reorder_w;
	size_t at_x, at_y, at_w, at_plan; /* in scratch */
	void *weight;                     /* packed, on the device */
	cuda_chain *rest;
	bool empty;
} conv;

/* ---- numbers ----------------------------------------------------------------------------------- */

static int64_t volume(const dnn_conv *o, int64_t batch, int64_t channels, const int64_t *spatial)
{
	int64_t n = batch * channels;
	for (int i = 0; i < o->nd; i++)
		n *= spatial[i];
	return n;
}

static bool describe(gg_call *c, dnn_conv *o, bool tf32)
{
	const gg_shape *x = &c->in[0].shape, *w = &c->in[1].shape;
	gg_window win;
	if (!gg_window_conv(c->d, c->node, x, w, &win))
		return false;
	memset(o, 0, sizeof *o);
	o->dtype = c->out[0].dtype;
	o->tf32 = tf32;
	o->nhwc = tf32 || gg_dtype_size(o->dtype) == 2 ||
	          (c->in_layout[0] == GG_NHWC && c->out_layout[0] == GG_NHWC);
	o->nd = win.nd < 2 ? 2 : win.nd;
	o->batch = x->dim[0];
	o->cin = x->dim[1];
	o->cout = w->dim[0];
	o->group = win.group;
	for (int i = 0; i < o->nd; i++) {
		int a = i - (o->nd - win.nd);
		o->in[i] = a < 0 ? 1 : x->dim[2 + a];
		o->kernel[i] = a < 0 ? 1 : win.kernel[a];
		o->out[i] = a < 0 ? 1 : c->out[0].shape.dim[2 + a];
		o->stride[i] = a < 0 ? 1 : win.stride[a];
		o->dilation[i] = a < 0 ? 1 : win.dilation[a];
		o->before[i] = a < 0 ? 0 : win.begin[a];
		o->after[i] = a < 0 ? 0 : win.end[a];
	}
	return true;
}

/* ---- weights ----------------------------------------------------------------------------------- */

/* [cout, cin, spatial] to channels last, with zeros for the channels that are added. */
static void pack(const dnn_conv *o, const char *from, char *to, int64_t cin, int64_t padded, size_t size)
{
	int64_t taps = volume(o, 1, 1, o->kernel);
	for (int64_t k = 0; k < o->cout; k++)
		for (int64_t t = 0; t < taps; t++)
			for (int64_t i = 0; i < cin; i++)
				memcpy(to + (size_t)((k * taps + t) * padded + i) * size,
				       from + (size_t)((k * cin + i) * taps + t) * size, size);
}

static bool pack_weight(gg_call *c, conv *k, const dnn_conv *o, int64_t padded)
{
	size_t size = gg_dtype_size(o->dtype);
	int64_t cin = c->in[1].shape.dim[1];
	size_t bytes = (size_t)volume(o, o->cout, padded, o->kernel) * size;
	char *p = gg_xcalloc(bytes + 1, 1);
	pack(o, c->in[1].data, p, cin, padded, size);
	k->weight = cuda_device.alloc(c->d, bytes, c->in_value[1]->name);
	bool good = k->weight && cuda_device.upload(c->d, k->weight, p, bytes);
	free(p);
	c->taken |= 2;
	return good;
}

/* ---- what becomes part of the engine ----------------------------------------------------------- */

static bool is_term(const gg_call *c, int slot)
{
	return slot >= 0 && c->in[slot].dtype == c->out[0].dtype && c->in_layout[slot] == c->out_layout[0] &&
	       gg_shape_eq(&c->in[slot].shape, &c->out[0].shape);
}

/* The node's own wishes, then Add and Relu of the run; returns how many nodes are taken. Where the engine
 * is not open to them, the chain does what the node wants. */
static int absorb(gg_call *c, conv *k, dnn_conv *o, cuda_head *h, bool open)
{
	const gg_node *n = c->node;
	bool fused = !strcmp(n->op->name, "FusedConv");
	const gg_attr *p = fused ? gg_get_list(n, "activation_params") : NULL;
	const char *act = fused ? gg_get_string(n, "activation") : "";
	int term = fused ? cuda_slot(c, n, 3) : -1, bias = cuda_slot(c, n, 2), j = 1;
	if (term >= 0 && !c->in[term].dtype)
		term = -1;
	if (bias >= 0 && !c->in[bias].dtype)
		bias = -1;
	o->bias = bias >= 0 && open;
	k->bias = o->bias ? bias : -1;
	h->channel = o->bias ? -1 : bias;
	open = open && (term < 0 || is_term(c, term));
	if (term >= 0 && open)
		k->add = term;
	else
		h->add = term;
	if (open && !strcmp(act, "Relu")) {
		o->relu = true;
	} else if (*act) {
		h->activation = act;
		for (; p && h->nparams < p->n && h->nparams < 2; h->nparams++)
			h->param[h->nparams] = p->floats[h->nparams];
		open = false;
	}
	for (; open && !o->relu && j < c->ncover; j++) {
		const gg_node *m = c->cover[j];
		bool first = gg_in(m, 0) == c->cover[j - 1]->out[0];
		if (!strcmp(m->op->name, "Relu")) {
			o->relu = true;
			continue;
		}
		if (strcmp(m->op->name, "Add") || k->add >= 0 || gg_in(m, 0) == gg_in(m, 1) ||
		    !is_term(c, cuda_slot(c, m, first)))
			break;
		k->add = cuda_slot(c, m, first);
	}
	o->add = k->add >= 0;
	return j;
}

/* ---- our own kernel ---------------------------------------------------------------------------- */

static const char direct_text[] =
    "KERNEL(const T *in, const T *w, T *out)\n{\nSPREAD(t, TOTAL) {\n"
    "\tINDEX r = t; long n, k, o[3];\n"
    "\tif (YLAST) { k = r % COUT; r /= COUT; }\n"
    "\to[2] = r % O2; r /= O2; o[1] = r % O1; r /= O1; o[0] = r % O0; r /= O0;\n"
    "\tif (!YLAST) { k = r % COUT; r /= COUT; }\n"
    "\tn = r;\n"
    "\tconst long first = k / (COUT / GROUPS) * CW;\n"
    "\tC s = 0;\n"
    "\tfor (int a = 0; a < K0; a++) for (int b = 0; b < K1; b++) for (int g = 0; g < K2; g++) {\n"
    "\t\tconst long z = o[0] * S0 - B0 + a * D0, h = o[1] * S1 - B1 + b * D1, v = o[2] * S2 - B2 + g * D2;\n"
    "\t\tif (z < 0 || z >= I0 || h < 0 || h >= I1 || v < 0 || v >= I2) continue;\n"
    "\t\tfor (long i = 0; i < CW; i++) {\n"
    "\t\t\tconst long c = first + i;\n"
    "\t\t\ts += ld(in[XLAST ? (((n * I0 + z) * I1 + h) * I2 + v) * CIN + c"
    " : (((n * CIN + c) * I0 + z) * I1 + h) * I2 + v])"
    " * ld(w[(((k * CW + i) * K0 + a) * K1 + b) * K2 + g]);\n"
    "\t\t}\n\t}\n"
    "\tout[t] = st(s, is<T>());\n}\n}\n";

static bool make_direct(gg_call *c, conv *k, const dnn_conv *o)
{
	int64_t total = gg_count(&c->out[0]);
	gg_buf b = {0};
	gg_buf_printf(
	    &b,
	    "#define INDEX unsigned%s\n#define T %s\n#define C %s\n#define TOTAL %lluu\n#define CIN %lldL\n"
	    "#define COUT %lldL\n#define GROUPS %lldL\n#define CW %lldL\n#define XLAST %d\n#define YLAST "
	    "%d\n",
	    total >> 31 ? " long" : "", cuda_type(o->dtype), o->dtype == GG_F64 ? "double" : "float",
	    (unsigned long long)total, (long long)o->cin, (long long)o->cout, (long long)o->group,
	    (long long)(o->cin / o->group), c->in_layout[0] == GG_NHWC, c->out_layout[0] == GG_NHWC);
	for (int i = 0; i < 3; i++) {
		int a = i - (3 - o->nd);
		gg_buf_printf(&b,
		              "#define I%d %lldL\n#define O%d %lldL\n#define K%d %lldL\n#define S%d %lldL\n"
		              "#define D%d %lldL\n#define B%d %lldL\n",
		              i, (long long)(a < 0 ? 1 : o->in[a]), i, (long long)(a < 0 ? 1 : o->out[a]), i,
		              (long long)(a < 0 ? 1 : o->kernel[a]), i, (long long)(a < 0 ? 1 : o->stride[a]),
		              i, (long long)(a < 0 ? 1 : o->dilation[a]), i,
		              (long long)(a < 0 ? 0 : o->before[a]));
	}
	bool good = cuda_compile(c->d, b.p, direct_text, &k->direct);
	cuda_spread(&k->direct, total, 256);
	gg_buf_fini(&b);
	return good;
}

/* ---- preparing --------------------------------------------------------------------------------- */

static size_t take(gg_call *c, size_t bytes)
{
	size_t at = c->workspace;
	c->workspace = cuda_round(at + bytes);
	return at;
}

/* Channels that tensor cores take at a time. */
static int64_t padded_channels(const dnn_conv *o)
{
	int64_t by = o->dtype == GG_F32 ? 4 : 8;
	return o->nhwc && o->group == 1 && o->dtype != GG_F64 && (o->dtype != GG_F32 || o->tf32)
	           ? (o->cin + by - 1) / by * by
	           : o->cin;
}

static bool make_engine(gg_call *c, conv *k, dnn_conv *o, size_t *workspace)
{
	int64_t cin = o->cin;
	if (c->in_const[1])
		o->cin = padded_channels(o);
	if (!(k->plan = dnn_conv_plan(c->d, o, workspace))) {
		o->cin = cin;
		return false;
	}
	return true;
}

static bool make_moves(gg_call *c, conv *k, const dnn_conv *o, size_t workspace)
{
	gg_layout want = o->nhwc ? GG_NHWC : GG_PLAIN;
	size_t size = gg_dtype_size(o->dtype);
	int64_t cw = o->cin / o->group;
	k->to_x = o->cin != c->in[0].shape.dim[1] || c->in_layout[0] != want;
	if (k->to_x) {
		k->at_x = take(c, (size_t)volume(o, o->batch, o->cin, o->in) * size);
		if (!cuda_reorder_make(c->d, o->dtype, &c->in[0].shape, (gg_layout)c->in_layout[0], want,
		                       o->cin, &k->reorder_x))
			return false;
	}
	if (k->to_y) {
		k->at_y = take(c, (size_t)volume(o, o->batch, o->cout, o->out) * size);
		if (!cuda_reorder_make(c->d, o->dtype, &c->out[0].shape, want, (gg_layout)c->out_layout[0], 0,
		                       &k->reorder_y))
			return false;
	}
	if (o->nhwc && c->in_const[1] && !pack_weight(c, k, o, cw))
		return false;
	k->to_w = o->nhwc && !c->in_const[1];
	if (k->to_w) {
		k->at_w = take(c, (size_t)volume(o, o->cout, cw, o->kernel) * size);
		if (!cuda_reorder_make(c->d, o->dtype, &c->in[1].shape, GG_PLAIN, GG_NHWC, 0, &k->reorder_w))
			return false;
	}
	k->at_plan = take(c, workspace);
	return true;
}

static bool prepare(gg_call *c, bool tf32)
{
	conv *k = c->state = gg_xcalloc(1, sizeof *k);
	cuda_head h = CUDA_HEAD;
	size_t workspace = 0;
	dnn_conv o, bare;
	int from;
	k->bias = k->add = -1;
	k->empty = !gg_count(&c->out[0]);
	if (!describe(c, &o, tf32))
		return false;
	bare = o;
	k->to_y = c->out_layout[0] != (o.nhwc ? GG_NHWC : GG_PLAIN);
	from = absorb(c, k, &o, &h, o.dtype != GG_F64 && !k->to_y);
	if (k->empty)
		return true;
	if (!make_engine(c, k, &o, &workspace)) {
		k->bias = k->add = -1;
		o = bare;
		h = CUDA_HEAD;
		from = absorb(c, k, &o, &h, false);
		if (!make_engine(c, k, &o, &workspace)) {
			gg_verbose(c->d, "node '%s': cuDNN has no engine for it", gg_node_name(c->node));
			k->to_y = false;
			return make_direct(c, k, &o) && cuda_chain_new(c, &h, from, &k->rest);
		}
	}
	return make_moves(c, k, &o, workspace) && cuda_chain_new(c, &h, from, &k->rest);
}

static bool prepare_strict(gg_call *c) { return prepare(c, false); }
static bool prepare_tf32(gg_call *c) { return prepare(c, true); }

/* ---- running ----------------------------------------------------------------------------------- */

static bool run(gg_call *c)
{
	conv *k = c->state;
	char *scratch = c->scratch;
	const void *x = c->in[0].data, *w = k->weight ? k->weight : c->in[1].data;
	void *y = k->to_y ? scratch + k->at_y : c->out[0].data;
	if (k->empty)
		return true;
	if (!k->plan) {
		void *arg[] = {c->in[0].data, c->in[1].data, c->out[0].data};
		return cuda_launch(c->d, &k->direct, 3, arg) && cuda_chain_run(k->rest, c);
	}
	if (k->to_x) {
		if (!cuda_copy_run(c->d, &k->reorder_x, x, scratch + k->at_x))
			return false;
		x = scratch + k->at_x;
	}
	if (k->to_w) {
		if (!cuda_copy_run(c->d, &k->reorder_w, w, scratch + k->at_w))
			return false;
		w = scratch + k->at_w;
	}
	if (!dnn_conv_run(c->d, k->plan, x, w, k->bias < 0 ? NULL : c->in[k->bias].data,
	                  k->add < 0 ? NULL : c->in[k->add].data, y, scratch + k->at_plan))
		return false;
	if (k->to_y && !cuda_copy_run(c->d, &k->reorder_y, y, c->out[0].data))
		return false;
	return cuda_chain_run(k->rest, c);
}

static void release(gg_call *c)
{
	conv *k = c->state;
	if (!k)
		return;
	if (k->weight)
		cuda_device.release(k->weight);
	cuda_chain_free(k->rest);
	free(k);
}

const gg_kernel cuda_conv = {"cuda_conv", prepare_strict, run, release};
const gg_kernel cuda_conv_tf32 = {"cuda_conv_tf32", prepare_tf32, run, release};
