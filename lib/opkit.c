/* What several arithmetic op files share: contents, folds, random seeds, activations, quantisation. */
#include "opkit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void gg_expr_attrs(const gg_node *n, double *attr)
{
	const gg_attr_spec *s = n->op->attrs;
	for (int i = 0; i < GG_EXPR_ATTRS; i++)
		attr[i] = 0;
	for (int i = 0; s && s[i].name && i < GG_EXPR_ATTRS; i++) {
		const gg_attr *a = gg_find_attr(n, s[i].name), *def = gg_op_default(n->op, s[i].name);
		a = a ? a : def;
		if (a && a->type == GG_ATTR_FLOAT)
			attr[i] = (double)a->f;
		else if (a && a->type == GG_ATTR_INT)
			attr[i] = (double)a->i;
		else if (a && a->type == GG_ATTR_STRING)
			attr[i] = !def || strcmp(a->s, def->s) != 0;
	}
}

/* ---- contents ------------------------------------------------------------------------------- */
/* A number that arithmetic in the dtype would wrap, or take for another, is not followed. */
static bool fits(gg_dtype t, gg_dim d)
{
	int bits = gg_dtype_bits(t);
	char class = gg_dtype_class(t);
	if (!gg_dim_number(d))
		return class == 'I';
	if (class == 'U')
		return d >= 0 && (bits >= 40 || d < (int64_t)1 << bits);
	return class == 'B' || bits >= 40 ||
	       (d >= -((int64_t)1 << (bits - 1)) && d < (int64_t)1 << (bits - 1));
}

void gg_follow(gg_infer *f, int nin, gg_dim2 *dims)
{
	gg_shape *s = &f->out[0].shape;
	int64_t count = gg_shape_count(s), stride[GG_MAX_RANK];
	if (count < 0 || count > GG_MAX_CONTENT || !strchr("IUB", gg_dtype_class(f->out[0].dtype)))
		return;
	gg_dim *c = gg_alloc(f->a, GG_MAX_CONTENT * sizeof *c);
	for (int i = 0; i < nin; i++) {
		int n;
		int64_t idx[GG_MAX_RANK] = {0}, at = 0;
		const gg_dim *x = gg_want_dims(f, i, &n);
		if (!x)
			return;
		gg_bcast_strides(&f->in[i].shape, s, stride);
		for (bool more = count > 0; more; more = gg_next_index(s, idx), at++) {
			int64_t k = 0;
			for (int j = 0; j < s->rank; j++)
				k += idx[j] * stride[j];
			gg_dim y = x[k];
			if (i && !dims(c[at], x[k], &y))
				return;
			c[at] = y;
		}
	}
	for (int64_t at = 0; at < count; at++)
		if (!fits(f->out[0].dtype, c[at]))
			return;
	f->out[0].content = c;
}

bool gg_infer_arith(gg_infer *f, gg_dim2 *dims)
{
	if (!gg_infer_broadcast(f))
		return false;
	if (dims)
		gg_follow(f, f->nin, dims);
	return true;
}

/* ---- evaluation ------------------------------------------------------------------------------- */
double gg_round_to(gg_dtype t, double x)
{
	uint64_t raw; /* room for any float */
	if (t == GG_F64)
		return x;
	gg_store_f64(t, &raw, 0, 1, &x);
	gg_load_f64(t, &raw, 0, 1, &x);
	return x;
}

static double first_f(double x, double y, const double *attr) { return x; }
static int64_t first_i(int64_t x, int64_t y, const double *attr) { return x; }

bool gg_map_fold(gg_eval *e, gg_f2 *f, gg_i2 *i, double divisor)
{
	gg_tensor *out = &e->out[0], acc = *out, pair[2];
	int64_t count = gg_count(out);
	double one = 1;
	int64_t none = 0;
	if (!count)
		return true;
	bool floats = gg_dtype_class(out->dtype) == 'F';
	acc.dtype = floats ? GG_F64 : out->dtype;
	acc.data = gg_xaligned((size_t)count * sizeof(double));
	gg_eval sub = *e;
	sub.in = pair;
	sub.out = &acc;
	/* The first input spreads over the accumulator by a map with a neutral second operand. */
	for (int k = 0; k < e->nin; k++) {
		gg_tensor neutral = {acc.dtype, {.rank = 0}, floats ? (void *)&one : (void *)&none};
		pair[0] = k ? acc : e->in[0];
		pair[1] = k ? e->in[k] : neutral;
		gg_map2(&sub, k ? f : first_f, k ? i : first_i, 0);
	}
	for (int64_t at = 0; floats && at < count; at += 256) {
		double v[256];
		int64_t n = count - at < 256 ? count - at : 256;
		gg_load_f64(GG_F64, acc.data, at, n, v);
		for (int64_t k = 0; k < n; k++)
			v[k] /= divisor;
		gg_store_f64(out->dtype, out->data, at, n, v);
	}
	if (!floats)
		memcpy(out->data, acc.data, gg_nbytes(out));
	free(acc.data);
	return true;
}

uint64_t gg_random_seed(const gg_eval *e)
{
	const gg_attr *a = gg_find_attr(e->n, "seed");
	if (!a)
		return e->seed;
	if (a->type == GG_ATTR_INT)
		return (uint64_t)a->i;
	return gg_hash(&a->f, sizeof a->f, 0);
}

const char *gg_input_names(gg_infer *f, int a, int b)
{
	const gg_value *x = gg_in(f->n, a), *y = gg_in(f->n, b);
	return gg_printf(f->a, "'%s' and '%s'", x ? x->name : "", y ? y->name : "");
}

/* ---- activations ------------------------------------------------------------------------------ */
static double relu(double x, const double *attr) { return x < 0 ? 0 : x; }
static double sigmoid(double x, const double *attr) { return 1 / (1 + exp(-x)); }
static double tanh_of(double x, const double *attr) { return tanh(x); }
static double gelu(double x, const double *attr) { return 0.5 * x * erfc(-0.70710678118654752440 * x); }
static double gelu_tanh(double x, const double *attr)
{
	return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}
static double silu(double x, const double *attr) { return x / (1 + exp(-x)); }

static const struct activation {
	const char *name, *op, *approximate;
	gg_f1 *f;
} activations[] = {
    {"Relu", "Relu", 0, relu}, {"Sigmoid", "Sigmoid", 0, sigmoid},      {"Tanh", "Tanh", 0, tanh_of},
    {"Gelu", "Gelu", 0, gelu}, {"GeluTanh", "Gelu", "tanh", gelu_tanh}, {"Swish", "Swish", 0, silu},
};

static const struct activation *find_activation(const char *name)
{
	for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
		if (!strcmp(activations[i].name, name))
			return &activations[i];
	return 0;
}

bool gg_activation_known(const char *name) { return !*name || find_activation(name); }

void gg_activate(const char *name, gg_tensor *t)
{
	const struct activation *a = find_activation(name);
	gg_eval e = {.in = t, .out = t, .nin = 1, .nout = 1};
	if (a)
		gg_map1(&e, a->f, 0, 0);
}

gg_value *gg_expand_node(gg_diag *d, gg_node *n, const char *op, int nin, gg_value *const *in)
{
	const char *name = gg_fresh_name(n->graph, n->out[0]->name);
	gg_node *k = gg_add_node(n->graph, n, gg_op_find(op), nin, in, 1, &name);
	gg_merge_loc(k, n);
	return gg_infer_node(d, k) ? k->out[0] : 0;
}

bool gg_expand_identity(gg_diag *d, gg_node *n)
{
	gg_value *y = gg_expand_node(d, n, "Identity", 1, (gg_value *[]){gg_in(n, 0)});
	if (!y)
		return false;
	gg_replace_value(n->out[0], y);
	gg_remove_node(n);
	return true;
}

gg_value *gg_expand_activation(gg_diag *d, gg_node *n, gg_value *x, const char *name)
{
	const struct activation *a = find_activation(name);
	gg_value *y = a ? gg_expand_node(d, n, a->op, 1, &x) : x;
	if (y && a && a->approximate)
		gg_set_attr_string(y->producer, "approximate", a->approximate);
	return y;
}

/* ---- quantisation ----------------------------------------------------------------------------- */
static bool clash(gg_dim a, gg_dim b) { return gg_dim_known(a) && gg_dim_known(b) && a != b; }

static bool is_scalar(const gg_shape *s) { return s->rank == 0 || (s->rank == 1 && s->dim[0] == 1); }

static bool blocks_fit(gg_infer *f, const gg_shape *x, const gg_shape *s, int axis, int64_t block)
{
	if (block <= 0)
		return gg_fail(f, "scale has shape %s, but block_size is %lld", gg_str(f, s),
		               (long long)block);
	for (int i = 0; i < x->rank; i++) {
		gg_dim n = i == axis ? gg_dim_ceildiv(x->dim[i], block) : x->dim[i];
		if (clash(n, s->dim[i]))
			return gg_fail(
			    f,
			    "scale has shape %s, which does not fit input %s in blocks of %lld along axis %d",
			    gg_str(f, s), gg_str(f, x), (long long)block, axis);
	}
	return true;
}

bool gg_infer_quant(gg_infer *f)
{
	const gg_shape *x = &f->in[0].shape, *s = &f->in[1].shape;
	int axis;
	f->out[0].shape = *x;
	if (f->nin > 2 && f->in[2].dtype && s->rank >= 0 && f->in[2].shape.rank >= 0) {
		gg_shape both;
		bool same = is_scalar(s) && is_scalar(&f->in[2].shape);
		if (!same && (f->in[2].shape.rank != s->rank || !gg_broadcast(s, &f->in[2].shape, &both)))
			return gg_fail(f, "zero point has shape %s, scale has %s", gg_str(f, &f->in[2].shape),
			               gg_str(f, s));
	}
	if (x->rank < 0 || s->rank < 0 || is_scalar(s))
		return true;
	if (!gg_axis(f, "axis", gg_get_int(f->n, "axis"), x->rank, &axis))
		return false;
	if (s->rank == 1 && !(x->rank == 1 && gg_get_int(f->n, "block_size") > 0)) {
		if (clash(s->dim[0], x->dim[axis]))
			return gg_fail(f, "scale has %lld elements, axis %d of the input has %lld",
			               (long long)s->dim[0], axis, (long long)x->dim[axis]);
		return true;
	}
	if (s->rank != x->rank)
		return gg_fail(f, "scale has rank %d, expected 0, 1 or %d", s->rank, x->rank);
	return blocks_fit(f, x, s, axis, gg_get_int(f->n, "block_size"));
}

gg_quant gg_quant_of(const gg_eval *e)
{
	const gg_shape *x = &e->in[0].shape, *s = &e->in[1].shape;
	if (is_scalar(s))
		return (gg_quant){1, 1, gg_count(&e->in[0]), 1, 0, 0, 0};
	int axis = (int)gg_eval_axis(gg_get_int(e->n, "axis"), x->rank);
	int64_t block = gg_get_int(e->n, "block_size");
	gg_quant q = {gg_span(x, 0, axis), x->dim[axis], gg_span(x, axis + 1, x->rank), 1, 0, 1, 0};
	if (s->rank > 1 || (x->rank == 1 && block > 0)) {
		q.block = block;
		q.so = s->dim[axis] * q.inner;
		q.sk = q.inner;
		q.si = 1;
	}
	return q;
}
