/* Conv, FusedConv and ConvTranspose: cuDNN where it has an engine, else a kernel of our own, plain and slow.
 *
 * A transposed convolution is the convolution that it undoes, walked `back`: its `in` is then the result.
 * Bias, a term of the result's shape and a Relu are part of the engine where cuDNN can; the rest of
 * the run follows as one kernel over the output. Half types and tf32 are computed channels-last,
 * with the channels of a small input padded to what the tensor cores take. */
#include "cuda.h"
#include "../window.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct conv {
	dnn_plan *plan;
	cuda_kernel direct; /* where plan and own are NULL */
	int bias, add;      /* inputs of the call that the engine takes; -1: absent */
	void *norm;         /* a BatchNormalization that it takes: scales, then shifts; NULL: none */
	bool to_x, to_y, to_w;
	cuda_copy reorder_x, reorder_y, reorder_w;
	bool folded; /* pairs of rows and columns became channels */
	cuda_kernel fold;
	cuda_kernel own;                  /* tile.c's, where it is better than the plan */
	cuda_wgmma_plan product;          /* likewise wgmma.c's, where product.k.f is set */
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

static int64_t x_channels(const dnn_conv *o) { return o->back ? o->cout : o->cin; }
static int64_t y_channels(const dnn_conv *o) { return o->back ? o->cin : o->cout; }

static int64_t x_volume(const dnn_conv *o)
{
	return volume(o, o->batch, x_channels(o), o->back ? o->out : o->in);
}

static int64_t y_volume(const dnn_conv *o)
{
	return volume(o, o->batch, y_channels(o), o->back ? o->in : o->out);
}

static bool describe(gg_call *c, dnn_conv *o, bool tf32)
{
	const gg_shape *w = &c->in[1].shape, *large = &c->in[0].shape, *small = &c->out[0].shape;
	bool back = !strcmp(c->node->op->name, "ConvTranspose");
	gg_window win;
	if (!(back ? gg_window_conv_transpose : gg_window_conv)(c->d, c->node, large, w, &win))
		return false;
	if (back) {
		large = &c->out[0].shape;
		small = &c->in[0].shape;
	}
	memset(o, 0, sizeof *o);
	o->back = back;
	o->dtype = c->out[0].dtype;
	o->tf32 = tf32;
	o->nhwc = tf32 || gg_dtype_size(o->dtype) == 2 ||
	          (c->in_layout[0] == GG_NHWC && c->out_layout[0] == GG_NHWC);
	o->nd = win.nd < 2 ? 2 : win.nd;
	o->batch = large->dim[0];
	o->cin = large->dim[1];
	o->cout = w->dim[0];
	o->group = win.group;
	for (int i = 0; i < o->nd; i++) {
		int a = i - (o->nd - win.nd);
		o->in[i] = a < 0 ? 1 : large->dim[2 + a];
		o->kernel[i] = a < 0 ? 1 : win.kernel[a];
		o->out[i] = a < 0 ? 1 : small->dim[2 + a];
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

static size_t shifts_at(int64_t channels) { return cuda_round((size_t)channels * sizeof(float)); }

/* A BatchNormalization right behind the convolution: numbers by channel, which the engine applies to
 * unrounded sums. False: reported. */
static bool absorb_norm(gg_call *c, conv *k, dnn_conv *o)
{
	const gg_node *n = c->ncover > 1 ? c->cover[1] : NULL;
	int slot[4], bias = cuda_slot(c, c->node, 2);
	bool biased = bias >= 0 && c->in[bias].dtype;
	if (!n || !gg_one_use(c->node->out[0]) || strncmp(n->op->name, "BatchNorm", 9) ||
	    strcmp(c->node->op->name, "Conv") || o->dtype == GG_F64 || (biased && !c->in_const[bias]))
		return true;
	for (int i = 0; i < 4; i++)
		if ((slot[i] = cuda_slot(c, n, i + 1)) < 0 || !c->in_const[slot[i]])
			return true;
	size_t at = shifts_at(o->cout) / sizeof(float), bytes = 2 * shifts_at(o->cout);
	float *p = gg_xcalloc(2 * at + 1, sizeof *p);
	for (int64_t i = 0; i < o->cout; i++) {
		double x[4];
		for (int j = 0; j < 4; j++)
			x[j] = gg_get_f64(&c->in[slot[j]], i);
		double by = x[0] / sqrt(x[3] + (double)gg_get_float(n, "epsilon"));
		p[i] = (float)by;
		p[at + (size_t)i] = (float)(x[1] + ((biased ? gg_get_f64(&c->in[bias], i) : 0) - x[2]) * by);
	}
	k->norm = cuda_device.alloc(c->d, bytes, c->in_value[slot[0]]->name);
	bool good = k->norm && cuda_device.upload(c->d, k->norm, p, bytes);
	free(p);
	o->scale = true;
	return good;
}

/* The same numbers of a convolution without one: its bias, which is constant, or nothing. */
static bool plain_norm(gg_call *c, conv *k, int64_t channels)
{
	int bias = cuda_slot(c, c->node, 2);
	size_t at = shifts_at(channels) / sizeof(float), bytes = 2 * shifts_at(channels);
	float *p = gg_xcalloc(2 * at + 1, sizeof *p);
	for (int64_t i = 0; i < channels; i++) {
		p[i] = 1;
		p[at + (size_t)i] = k->bias < 0 ? 0 : (float)gg_get_f64(&c->in[bias], i);
	}
	k->norm = cuda_device.alloc(c->d, bytes, c->in_value[1]->name);
	bool good = k->norm && cuda_device.upload(c->d, k->norm, p, bytes);
	free(p);
	return good;
}

static void drop_norm(conv *k)
{
	if (k->norm)
		cuda_device.release(k->norm);
	k->norm = NULL;
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
	o->bias = o->scale || (bias >= 0 && open);
	k->bias = o->bias && !o->scale ? bias : -1;
	h->channel = o->bias ? -1 : bias;
	if (o->scale)
		o->relu = !strcmp(c->cover[j++]->op->name, "BatchNormRelu");
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
		if (!gg_one_use(c->cover[j - 1]->out[0])) /* the chain wants it, too */
			break;
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

/* A thread makes the element of channel k at o. */
static const char direct_text[] =
    "KERNEL(const T *in, const T *w, T *out)\n{\nSPREAD(t, TOTAL) {\n"
    "\tINDEX r = t; long n, k, o[3];\n"
    "\tif (YLAST) { k = r % YC; r /= YC; }\n"
    "\to[2] = r % Y2; r /= Y2; o[1] = r % Y1; r /= Y1; o[0] = r % Y0; r /= Y0;\n"
    "\tif (!YLAST) { k = r % YC; r /= YC; }\n"
    "\tn = r;\n"
    "\tC s = 0;\n"
    "\tfor (int a = 0; a < K0; a++) for (int b = 0; b < K1; b++) for (int g = 0; g < K2; g++) {\n"
    "#if BACK\n"
    /* the windows that have o at this place of theirs */
    "\t\tconst long z = o[0] + B0 - a * D0, h = o[1] + B1 - b * D1, v = o[2] + B2 - g * D2;\n"
    "\t\tif (z < 0 || z % S0 || z / S0 >= O0 || h < 0 || h % S1 || h / S1 >= O1 || v < 0 || v % S2 || v / S2 "
    ">= O2) continue;\n"
    "\t\tconst long first = k / CW * (COUT / GROUPS);\n"
    "\t\tfor (long c = first; c < first + COUT / GROUPS; c++)\n"
    "\t\t\ts += ld(in[XLAST ? (((n * O0 + z / S0) * O1 + h / S1) * O2 + v / S2) * COUT + c"
    " : (((n * COUT + c) * O0 + z / S0) * O1 + h / S1) * O2 + v / S2])"
    " * ld(w[(((c * CW + k % CW) * K0 + a) * K1 + b) * K2 + g]);\n"
    "#else\n"
    "\t\tconst long first = k / (COUT / GROUPS) * CW;\n"
    "\t\tconst long z = o[0] * S0 - B0 + a * D0, h = o[1] * S1 - B1 + b * D1, v = o[2] * S2 - B2 + g * D2;\n"
    "\t\tif (z < 0 || z >= I0 || h < 0 || h >= I1 || v < 0 || v >= I2) continue;\n"
    "\t\tfor (long i = 0; i < CW; i++) {\n"
    "\t\t\tconst long c = first + i;\n"
    "\t\t\ts += ld(in[XLAST ? (((n * I0 + z) * I1 + h) * I2 + v) * CIN + c"
    " : (((n * CIN + c) * I0 + z) * I1 + h) * I2 + v])"
    " * ld(w[(((k * CW + i) * K0 + a) * K1 + b) * K2 + g]);\n"
    "\t\t}\n"
    "#endif\n"
    "\t}\n"
    "\tout[t] = st(s, is<T>());\n}\n}\n";

static bool make_direct(gg_call *c, conv *k, const dnn_conv *o)
{
	int64_t total = gg_count(&c->out[0]);
	gg_buf b = {0};
	gg_buf_printf(
	    &b,
	    "#define INDEX unsigned%s\n#define T %s\n#define C %s\n#define TOTAL %lluu\n#define CIN %lldL\n"
	    "#define COUT %lldL\n#define GROUPS %lldL\n#define CW %lldL\n#define YC %lldL\n"
	    "#define XLAST %d\n#define YLAST %d\n#define BACK %d\n",
	    total >> 31 ? " long" : "", cuda_type(o->dtype), o->dtype == GG_F64 ? "double" : "float",
	    (unsigned long long)total, (long long)o->cin, (long long)o->cout, (long long)o->group,
	    (long long)(o->cin / o->group), (long long)y_channels(o), c->in_layout[0] == GG_NHWC,
	    c->out_layout[0] == GG_NHWC, o->back);
	for (int i = 0; i < 3; i++) {
		int a = i - (3 - o->nd);
		gg_buf_printf(&b,
		              "#define I%d %lldL\n#define O%d %lldL\n#define K%d %lldL\n#define S%d %lldL\n"
		              "#define D%d %lldL\n#define B%d %lldL\n#define Y%d %c%d\n",
		              i, (long long)(a < 0 ? 1 : o->in[a]), i, (long long)(a < 0 ? 1 : o->out[a]), i,
		              (long long)(a < 0 ? 1 : o->kernel[a]), i, (long long)(a < 0 ? 1 : o->stride[a]),
		              i, (long long)(a < 0 ? 1 : o->dilation[a]), i,
		              (long long)(a < 0 ? 0 : o->before[a]), i, o->back ? 'I' : 'O', i);
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

/* ---- pairs of rows and columns as channels ------------------------------------------------------- */

/* A convolution of stride 2 over few channels is one of stride 1 over four times as many channels of a
 * quarter of the places, zeros around them: tensor cores take 16 channels better than 3. */
static bool fold_shape(const dnn_conv *o, dnn_conv *f)
{
	if (!o->nhwc || o->back || o->nd != 2 || o->group != 1 || o->cin > 4 || o->dtype == GG_F64)
		return false;
	*f = *o;
	f->cin = 16;
	for (int i = 0; i < 2; i++) {
		int64_t odd = o->before[i] & 1;
		if (o->stride[i] != 2 || o->dilation[i] != 1 || o->kernel[i] < 3)
			return false;
		f->kernel[i] = (o->kernel[i] + odd + 1) / 2;
		f->in[i] = o->out[i] - 1 + f->kernel[i];
		f->stride[i] = 1;
		f->before[i] = f->after[i] = 0;
	}
	return true;
}

/* Eight channels of one place; channel q is row q / (2 CIN) of the pair, its column, the old channel. */
static const char fold_text[] =
    "KERNEL(const T *in, T *out)\n{\nSPREAD(t, TOTAL) {\n"
    "\tINDEX r = t; const int part = r % 2; r /= 2;\n"
    "\tconst int w = r % W2; r /= W2; const int h = r % H2; const long n = r / H2;\n"
    "\tvec<T, 8> y;\n"
    "\tfor (int e = 0; e < 8; e++) {\n"
    "\t\tconst int q = part * 8 + e, c = q % CIN, x = 2 * w - PW + q / CIN % 2, z = 2 * h - PH + q / CIN / "
    "2;\n"
    "\t\ty.v[e] = q < 4 * CIN && x >= 0 && x < W && z >= 0 && z < H"
    " ? in[XLAST ? ((n * H + z) * W + x) * CIN + c : ((n * CIN + c) * H + z) * W + x] : T{};\n"
    "\t}\n"
    "\t*(vec<T, 8> *)(out + t * 8) = y;\n}\n}\n";

static bool make_fold(gg_call *c, conv *k, const dnn_conv *f)
{
	const gg_shape *x = &c->in[0].shape;
	int64_t total = f->batch * f->in[0] * f->in[1] * 2;
	gg_window w;
	gg_buf b = {0};
	if (!gg_window_conv(c->d, c->node, x, &c->in[1].shape, &w))
		return false;
	gg_buf_printf(
	    &b,
	    "#define INDEX unsigned%s\n#define T %s\n#define TOTAL %lldu\n#define CIN %d\n#define H2 "
	    "%d\n#define W2 %d\n#define PH %d\n#define PW %d\n#define H %d\n#define W %d\n#define XLAST %d\n",
	    total >> 31 ? " long" : "", cuda_type(f->dtype), (long long)total, (int)x->dim[1], (int)f->in[0],
	    (int)f->in[1], (int)((w.begin[0] + 1) / 2 * 2), (int)((w.begin[1] + 1) / 2 * 2), (int)x->dim[2],
	    (int)x->dim[3], c->in_layout[0] == GG_NHWC);
	bool good = cuda_compile(c->d, b.p, fold_text, &k->fold);
	cuda_spread(&k->fold, total, 256);
	gg_buf_fini(&b);
	return good;
}

/* The weights to go with it, channels last. */
static bool fold_weight(gg_call *c, conv *k, const dnn_conv *o, const dnn_conv *f)
{
	size_t size = gg_dtype_size(f->dtype), bytes = (size_t)volume(f, f->cout, 16, f->kernel) * size;
	char *p = gg_xcalloc(bytes + 1, 1);
	const char *from = c->in[1].data;
	int64_t cin = o->cin, kh = o->kernel[0], kw = o->kernel[1];
	for (int64_t i = 0; i < o->cout * cin; i++)
		for (int64_t y = 0; y < kh; y++)
			for (int64_t x = 0; x < kw; x++) {
				int64_t a = y + (o->before[0] & 1), b = x + (o->before[1] & 1);
				int64_t q = (a % 2 * 2 + b % 2) * cin + i % cin;
				int64_t to = ((i / cin * f->kernel[0] + a / 2) * f->kernel[1] + b / 2) * 16 +
				             q;
				memcpy(p + (size_t)to * size, from + (size_t)((i * kh + y) * kw + x) * size,
				       size);
			}
	k->weight = cuda_device.alloc(c->d, bytes, c->in_value[1]->name);
	bool good = k->weight && cuda_device.upload(c->d, k->weight, p, bytes);
	free(p);
	c->taken |= 2;
	return good;
}

/* ---- choosing ----------------------------------------------------------------------------------- */

/* Channels that tensor cores take at a time. */
static int64_t padded_channels(const dnn_conv *o)
{
	int64_t by = o->dtype == GG_F32 ? 4 : 8;
	return o->nhwc && !o->back && o->group == 1 && o->dtype != GG_F64 && (o->dtype != GG_F32 || o->tf32)
	           ? (o->cin + by - 1) / by * by
	           : o->cin;
}

static bool make_reorder_y(gg_call *c, conv *k, const dnn_conv *o)
{
	gg_layout want = o->nhwc ? GG_NHWC : GG_PLAIN;
	if (!k->to_y)
		return true;
	k->at_y = take(c, (size_t)y_volume(o) * gg_dtype_size(o->dtype));
	return cuda_reorder_make(c->d, o->dtype, &c->out[0].shape, want, (gg_layout)c->out_layout[0], 0,
	                         &k->reorder_y);
}

static bool make_moves(gg_call *c, conv *k, const dnn_conv *o, size_t workspace)
{
	gg_layout want = o->nhwc ? GG_NHWC : GG_PLAIN;
	size_t size = gg_dtype_size(o->dtype);
	int64_t cw = o->cin / o->group;
	dnn_conv f;
	if (k->folded) {
		fold_shape(o, &f);
		k->at_x = take(c, (size_t)volume(&f, f.batch, f.cin, f.in) * size);
		k->at_plan = take(c, workspace);
		return make_fold(c, k, &f) && fold_weight(c, k, o, &f) && make_reorder_y(c, k, o);
	}
	k->to_x = x_channels(o) != c->in[0].shape.dim[1] || c->in_layout[0] != want;
	if (k->to_x) {
		k->at_x = take(c, (size_t)x_volume(o) * size);
		if (!cuda_reorder_make(c->d, o->dtype, &c->in[0].shape, (gg_layout)c->in_layout[0], want,
		                       x_channels(o), &k->reorder_x))
			return false;
	}
	if (!make_reorder_y(c, k, o))
		return false;
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

/* ---- a product of our own ------------------------------------------------------------------------ */

static bool one_place(const dnn_conv *o)
{
	for (int i = 0; i < 2; i++)
		if (o->kernel[i] != 1 || o->before[i] || o->after[i])
			return false;
	return true;
}

/* Has it rows of channels, and numbers by channel that are known? */
static bool may_own(const gg_call *c, const conv *k, const dnn_conv *o)
{
	return o->nhwc && !o->back && o->nd == 2 && o->group == 1 && c->in_const[1] && !k->to_y &&
	       (k->bias < 0 || c->in_const[k->bias]);
}

/* Windows of one place at each place of the input: a product of matrices as they lie. */
static bool as_product(const gg_call *c, const conv *k, const dnn_conv *o, cuda_wgmma *w)
{
	memset(w, 0, sizeof *w);
	w->dtype = o->dtype;
	w->m = o->batch * o->out[0] * o->out[1];
	w->n = o->cout;
	w->k = o->cin;
	w->scale = o->scale;
	w->shift = o->scale || k->bias >= 0 ? GG_F32 : 0;
	w->add = o->add;
	w->relu = o->relu;
	return may_own(c, k, o) && !k->folded && one_place(o) && o->stride[0] == 1 && o->stride[1] == 1 &&
	       cuda_wgmma_fits(w);
}

/* Windows of one place, and those of a folded stem whose rows are 64 elements. */
static bool as_tile(const gg_call *c, const conv *k, const dnn_conv *o, cuda_tile *t)
{
	dnn_conv f;
	*t = (cuda_tile){.dtype = o->dtype, .n = o->cout, .add = o->add, .relu = o->relu};
	if (!may_own(c, k, o))
		return false;
	t->m = o->batch * o->out[0] * o->out[1];
	t->rows = o->out[0];
	t->cols = o->out[1];
	if (k->folded && fold_shape(o, &f) && f.kernel[1] == 4) {
		t->k = f.kernel[0] * 64;
		t->col = 16;
		t->row = t->step = f.in[1] * 16;
		t->image = f.in[0] * t->row;
	} else if (!k->folded) {
		if (!one_place(o))
			return false;
		t->k = o->cin;
		t->col = o->stride[1] * o->cin;
		t->row = o->stride[0] * o->in[1] * o->cin;
		t->image = o->in[0] * o->in[1] * o->cin;
		t->step = 64;
	}
	return cuda_tile_fits(t);
}

/* Where memory is the limit, and there is work for all processors. */
static bool wants_tile(const conv *k, const cuda_tile *t)
{
	double x = k->folded ? (double)t->m * 16 : (double)t->m * (double)t->k;
	double y = (double)t->m * (double)t->n * (t->add ? 2 : 1);
	double work = 2 * (double)t->m * (double)t->n * (double)t->k, bytes = 2 * (x + y);
	return k->folded || (t->m >= 128 * 2 * cuda_processors && work / bytes < (t->add ? 120 : 90));
}

static bool wants_product(const cuda_wgmma *w) { return cuda_own() || cuda_wgmma_us(w) < cuda_library_us(w); }

typedef struct trial {
	const conv *k;
	gg_diag *d;
	void *at[5];
} trial;

static bool run_trial(void *p)
{
	const trial *t = p;
	return cuda_tile_run(t->d, &t->k->own, t->at[0], t->at[1], t->k->norm, t->k->norm, t->at[2],
	                     t->at[3]);
}

/* Milliseconds; below 0: it was not measured. */
static float measure(gg_call *c, const conv *k, const cuda_tile *t)
{
	gg_diag silent = {.silent = true};
	trial r = {.k = k, .d = &silent};
	size_t x = (size_t)(t->m / (t->rows * t->cols) * t->image), y = (size_t)(t->m * t->n);
	const size_t elements[] = {x, (size_t)(t->n * t->k), t->add ? y : 0, y};
	bool good = true;
	for (int i = 0; i < 4 && good; i++)
		good = (r.at[i] = cuda_device.alloc(c->d, elements[i] * 2, "tuning")) &&
		       cuda_device.fill(c->d, r.at[i], 0x2a, elements[i] * 2);
	float ms = good ? cuda_measure(run_trial, &r) : -1;
	for (int i = 0; i < 4; i++)
		if (r.at[i])
			cuda_device.release(r.at[i]);
	return ms;
}

/* What the kernels of our own want by channel; false: reported. */
static bool need_norm(gg_call *c, conv *k, const dnn_conv *o) { return k->norm || plain_norm(c, k, o->cout); }

/* A kernel of our own where its estimate is better, before cuDNN is asked. */
static bool estimate_own(gg_call *c, conv *k, const dnn_conv *o)
{
	cuda_tile t;
	cuda_wgmma w;
	bool tile = as_tile(c, k, o, &t) && wants_tile(k, &t), product = as_product(c, k, o, &w);
	if (product && (!tile || t.k > 64 || cuda_own()) && wants_product(&w))
		return need_norm(c, k, o) && cuda_wgmma_make(c->d, &w, &k->product);
	return !tile || (need_norm(c, k, o) && cuda_tile_make(c->d, &t, &k->own));
}

/* A kernel of our own where it measures better, or where cuDNN has none. */
static bool compare_own(gg_call *c, conv *k, const dnn_conv *o, int known)
{
	cuda_tile t;
	cuda_wgmma w;
	bool tile = as_tile(c, k, o, &t), product = as_product(c, k, o, &w), own = k->norm != NULL;
	float best = k->plan ? dnn_plan_ms(k->plan) : 0, ms[2] = {-1, -1};
	tile &= known != DNN_PRODUCT_BETTER;
	product &= known != DNN_TILE_BETTER;
	if ((!tile && !product) || (k->plan && best <= 0))
		return true;
	if (!need_norm(c, k, o) || (tile && !cuda_tile_make(c->d, &t, &k->own)) ||
	    (product && !cuda_wgmma_make(c->d, &w, &k->product)))
		return false;
	if (k->plan) {
		ms[0] = tile ? measure(c, k, &t) : -1;
		ms[1] = product ? k->product.ms : -1;
		gg_verbose(
		    c->d,
		    "node '%s': %.4f and %.4f ms by kernels of our own, %.4f ms by cuDNN (k %lld, n %lld%s)",
		    gg_node_name(c->node), (double)ms[0], (double)ms[1], (double)best, (long long)o->cin,
		    (long long)o->cout, o->add ? ", add" : "");
		tile = ms[0] > 0 && ms[0] < best;
		best = tile ? ms[0] : best;
		product = ms[1] > 0 && ms[1] < best;
		if (tile || product)
			dnn_plan_worse(k->plan, product ? "product" : "tile");
	}
	if (!product)
		k->product.k.f = NULL;
	if (!tile || product)
		k->own.f = NULL;
	if (!tile && !product && !own)
		drop_norm(k);
	return true;
}

static bool has_engine(const conv *k) { return k->plan || k->own.f || k->product.k.f; }

/* cuDNN walks back a convolution that there is: nothing cropped, and what it makes is all of x. */
static bool may_ask(const dnn_conv *o)
{
	bool good = !o->back || (o->cout > 0 && o->cin > 0);
	for (int i = 0; i < o->nd && o->back && good; i++) {
		int64_t room = o->in[i] + o->before[i] + o->after[i] - (o->kernel[i] - 1) * o->dilation[i] -
		               1;
		good = o->before[i] >= 0 && o->after[i] >= 0 && o->out[i] > 0 &&
		       room / o->stride[i] + 1 == o->out[i];
	}
	return good;
}

/* A kernel of our own, or cuDNN's; false: reported, or there is none. */
static bool choose_engine(gg_call *c, conv *k, const dnn_conv *o, const dnn_conv *asked, size_t *workspace)
{
	if (!may_ask(asked))
		return false;
	int known = dnn_conv_known(asked);
	if (!known && (cuda_tune() < 2 || cuda_own()) && !estimate_own(c, k, o))
		return false;
	if (has_engine(k))
		return true;
	k->plan = known < 0 ? NULL : dnn_conv_plan(c->d, asked, workspace);
	return compare_own(c, k, o, known) && has_engine(k);
}

static bool make_engine(gg_call *c, conv *k, dnn_conv *o, size_t *workspace)
{
	int64_t cin = o->cin;
	dnn_conv f;
	*workspace = 0;
	if (c->in_const[1] && fold_shape(o, &f)) {
		k->folded = true;
		if (choose_engine(c, k, o, &f, workspace))
			return true;
		k->folded = false;
	}
	if (c->in_const[1])
		o->cin = padded_channels(o);
	if (choose_engine(c, k, o, o, workspace))
		return true;
	o->cin = cin;
	return false;
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
	if (k->empty)
		return true;
	if (!k->to_y && !absorb_norm(c, k, &o))
		return false;
	from = absorb(c, k, &o, &h, o.dtype != GG_F64 && !k->to_y);
	if (!make_engine(c, k, &o, &workspace)) {
		k->bias = k->add = -1;
		drop_norm(k);
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

static bool prepare_strict(gg_call *c) { return cuda_is_stem(c) ? cuda_stem_prepare(c) : prepare(c, false); }
static bool prepare_tf32(gg_call *c) { return prepare(c, true); }

bool cuda_conv_norm(gg_call *c, void **norm)
{
	conv k = {.bias = -1, .add = -1};
	cuda_head h = CUDA_HEAD;
	dnn_conv o;
	*norm = NULL;
	if (!c->in_const[1])
		return true;
	if (!describe(c, &o, false) || !absorb_norm(c, &k, &o))
		return false;
	int all = absorb(c, &k, &o, &h, true);
	if (all < c->ncover || !o.relu || o.add || (k.bias >= 0 && !c->in_const[k.bias]))
		drop_norm(&k);
	else if (!need_norm(c, &k, &o))
		return false;
	*norm = k.norm;
	return true;
}

/* ---- running ----------------------------------------------------------------------------------- */

static bool run(gg_call *c)
{
	if (cuda_is_stem(c))
		return cuda_stem_run(c);
	conv *k = c->state;
	char *scratch = c->scratch;
	const void *x = c->in[0].data, *w = k->weight ? k->weight : c->in[1].data;
	void *y = k->to_y ? scratch + k->at_y : c->out[0].data;
	if (k->empty)
		return true;
	if (!has_engine(k)) {
		void *arg[] = {c->in[0].data, c->in[1].data, c->out[0].data};
		return cuda_launch(c->d, &k->direct, 3, arg) && cuda_chain_run(k->rest, c);
	}
	if (k->folded) {
		void *arg[] = {c->in[0].data, scratch + k->at_x};
		if (!cuda_launch(c->d, &k->fold, 2, arg))
			return false;
		x = arg[1];
	} else if (k->to_x) {
		if (!cuda_copy_run(c->d, &k->reorder_x, x, scratch + k->at_x))
			return false;
		x = scratch + k->at_x;
	}
	if (k->to_w) {
		if (!cuda_copy_run(c->d, &k->reorder_w, w, scratch + k->at_w))
			return false;
		w = scratch + k->at_w;
	}
	const char *norm = k->norm, *bias = norm          ? norm + shifts_at(c->out[0].shape.dim[1])
	                                    : k->bias < 0 ? NULL
	                                                  : c->in[k->bias].data;
	const void *add = k->add < 0 ? NULL : c->in[k->add].data;
	bool good = k->product.k.f ? cuda_wgmma_run(c->d, &k->product, x, w, norm, bias, add, y)
	            : k->own.f     ? cuda_tile_run(c->d, &k->own, x, w, norm, bias, add, y)
	                       : dnn_conv_run(c->d, k->plan, x, w, norm, bias, add, y, scratch + k->at_plan);
	if (!good)
		return false;
	if (k->to_y && !cuda_copy_run(c->d, &k->reorder_y, y, c->out[0].data))
		return false;
	return cuda_chain_run(k->rest, c);
}

static void release(gg_call *c)
{
	conv *k = c->state;
	dnn_settle();
	if (cuda_is_stem(c)) {
		cuda_stem_release(c);
		return;
	}
	if (!k)
		return;
	if (k->weight)
		cuda_device.release(k->weight);
	drop_norm(k);
	cuda_chain_free(k->rest);
	free(k);
}

const gg_kernel cuda_conv = {"cuda_conv", prepare_strict, run, release};
const gg_kernel cuda_conv_tf32 = {"cuda_conv_tf32", prepare_tf32, run, release};
