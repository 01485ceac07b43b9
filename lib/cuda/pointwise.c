/* Pointwise nodes, alone, in runs, or behind a product: one generated kernel.
 *
 * A thread makes V neighbours of the output. An operand that lies like the output is read V at a
 * time, one that repeats along the last axis once, any other by its strides. Between nodes
 * values are rounded to their dtype, so that a run gives what its nodes give one by one. */
#include "cuda.h"
#include "../opkit.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPERANDS = 64, MAX_NODES = 64, HEAD = -2 };

typedef struct operand {
	int in; /* of the call, or HEAD: the output as the head left it */
	bool channel;
	gg_dtype t;
	enum { VECTOR, SAME, STRIDED } form;
} operand;

typedef struct result { /* what a piece of the program made: a variable and its dtype */
	char name[16];
	gg_dtype t;
} result;

struct cuda_chain {
	cuda_kernel k;
	int nops;
	int in[MAX_OPERANDS];
	bool empty;
};

typedef struct build {
	gg_call *c;
	int from, nops, nvars;
	operand op[MAX_OPERANDS];
	int64_t stride[MAX_OPERANDS + 1][GG_MAX_RANK]; /* the last one: the output's own */
	const gg_shape *shape;
	gg_layout layout;
	result head, done[MAX_NODES]; /* by covered node */
	gg_buf text;
} build;

/* ---- operands ---------------------------------------------------------------------------------- */

/* Along the channels alone. */
static void channel_strides(const build *b, int64_t n, int64_t *stride)
{
	int rank = b->shape->rank, at = b->layout == GG_NHWC && rank >= 3 ? rank - 1 : 1;
	memset(stride, 0, sizeof(int64_t[GG_MAX_RANK]));
	stride[at] = n == 1 ? 0 : 1;
}

static int add_operand(build *b, int in, bool channel)
{
	for (int i = 0; i < b->nops; i++)
		if (b->op[i].in == in && b->op[i].channel == channel)
			return i;
	if (b->nops == MAX_OPERANDS)
		return -1;
	const gg_tensor *t = in == HEAD ? &b->c->out[0] : &b->c->in[in];
	operand *o = &b->op[b->nops];
	*o = (operand){.in = in, .channel = channel, .t = t->dtype};
	if (channel)
		channel_strides(b, gg_count(t), b->stride[b->nops]);
	else
		cuda_strides(&t->shape, in == HEAD ? b->layout : (gg_layout)b->c->in_layout[in], b->shape,
		             b->layout, b->stride[b->nops]);
	return b->nops++;
}

static bool load(build *b, int in, bool channel, result *out)
{
	int k = add_operand(b, in, channel);
	if (k < 0)
		return false;
	snprintf(out->name, sizeof out->name, "x%d", k);
	out->t = b->op[k].t;
	return true;
}

/* What node n reads in slot i. False: absent, or too many operands. */
static bool source(build *b, const gg_node *n, int i, result *out)
{
	gg_value *v = gg_in(n, i);
	for (int j = 0; v && j < b->c->ncover; j++)
		if (v->producer == b->c->cover[j] && b->c->cover[j] != n) {
			*out = j < b->from ? b->head : b->done[j];
			return true;
		}
	int in = cuda_slot(b->c, n, i);
	return in >= 0 && load(b, in, false, out);
}

/* ---- expressions ------------------------------------------------------------------------------- */

/* Where the op has no expression, or one that is for floats alone. */
static const struct special {
	const char *name, *floats, *ints;
} specials[] = {
    {"Abs", "fabs(x)", "x < 0 ? -x : x"},
    {"And", 0, "x & y"},
    {"BitwiseAnd", 0, "x & y"},
    {"BitwiseNot", 0, "~x"},
    {"BitwiseOr", 0, "x | y"},
    {"BitwiseXor", 0, "x ^ y"},
    {"BitShift", 0, "y < 0 || y >= a ? (b != 0 || x >= 0 ? 0 : -1) : b != 0 ? (i64)((u64)x << y) : x >> y"},
    {"Div", "x / y", "y ? x / y : 0"},
    {"IsInf", "x == x && x - x != 0 && (x < 0 ? a != 0 : b != 0)", "0"},
    {"Mean", "x + y", "x + y"},
    {"Mod",
     "a != 0 || fmod(x, y) != fmod(x, y) ? fmod(x, y) : fmod(x, y) == 0 ? copysign(x - x, y) :"
     " (fmod(x, y) < 0) != (y < 0) ? fmod(x, y) + y : fmod(x, y)",
     "y == 0 || (y < 0 && y + 1 == 0) ? 0 : a == 0 && x % y != 0 && (x % y < 0) != (y < 0) ? x % y + y : x % "
     "y"},
    {"Not", 0, "x == 0"},
    {"Or", 0, "x | y"},
    {"Xor", 0, "x ^ y"},
};

static const char *expression(const gg_op *op, gg_dtype t)
{
	if (!strcmp(op->name, "Gelu") && (t == GG_F16 || t == GG_BF16))
		return "a != 0 ? 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)))"
		       " : 0.5 * x * quick_erfc(-0.70710678118654752440 * x)";
	for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
		if (!strcmp(specials[i].name, op->name))
			return gg_dtype_class(t) == 'F' ? specials[i].floats : specials[i].ints;
	return op->expr;
}

/* Literals with a point or an exponent are floats there, not doubles. */
static void put_expression(gg_buf *b, const char *e, bool single)
{
	while (*e) {
		const char *p = e;
		if (isalpha((unsigned char)*p) || *p == '_') {
			while (isalnum((unsigned char)*p) || *p == '_')
				p++;
			gg_buf_add(b, e, (size_t)(p - e));
		} else if (isdigit((unsigned char)*p)) {
			bool real = false;
			while (isalnum((unsigned char)*p) || *p == '.' ||
			       ((*p == '-' || *p == '+') && p[-1] == 'e')) {
				real |= *p == '.' || *p == 'e';
				p++;
			}
			gg_buf_add(b, e, (size_t)(p - e));
			gg_buf_str(b, real && single ? "f" : "");
		} else {
			gg_buf_add(b, p++, 1);
		}
		e = p;
	}
}

static void put_number(gg_buf *b, double x, bool single)
{
	if (isinf(x))
		gg_buf_printf(b, "(%s1e300 * 1e300)", x < 0 ? "-" : "");
	else
		gg_buf_printf(b, "%a", x);
	if (!isinf(x) && single)
		gg_buf_str(b, "f");
}

/* "v3 = ...", rounded to t. */
static result put_result(build *b, gg_dtype t, const char *expr, gg_dtype from, bool single)
{
	result r = {.t = t};
	const char *type = cuda_compute(t);
	bool real = gg_dtype_class(from) == 'F', whole = gg_dtype_class(t) != 'F';
	snprintf(r.name, sizeof r.name, "v%d", b->nvars++);
	if (t == GG_BOOL) {
		gg_buf_printf(&b->text, "\t\t%s = (", r.name);
		put_expression(&b->text, expr, single);
		gg_buf_str(&b->text, ") != 0;\n");
		return r;
	}
	gg_buf_printf(&b->text, "\t\t%s = ld(st(%s%s%s(", r.name, real && whole ? "(" : "",
	              real && whole ? type : "", real && whole ? ")" : "");
	put_expression(&b->text, expr, single);
	gg_buf_printf(&b->text, "), is<%s>()));\n", cuda_type(t));
	return r;
}

/* An expression over x, y and z, which become variables of the dtype `in`; attributes a, b, c. */
static result put(build *b, const char *expr, gg_dtype in, gg_dtype t, int n, const result *arg,
                  const double *attr)
{
	static const char *const names[] = {"x", "y", "z"};
	const char *type = cuda_compute(in);
	bool single = !strcmp(type, "float");
	gg_buf_printf(&b->text, "\t\t%s v%d;\n\t\t{\n", cuda_compute(t), b->nvars);
	for (int i = 0; i < n; i++)
		gg_buf_printf(&b->text, "\t\tconst %s %s = (%s)%s;\n", type, names[i], type, arg[i].name);
	for (int i = 0; attr && i < GG_EXPR_ATTRS; i++) {
		gg_buf_printf(&b->text, "\t\tconst %s %c = (%s)", type, "abc"[i], type);
		put_number(&b->text, attr[i], single);
		gg_buf_str(&b->text, ";\n");
	}
	result r = put_result(b, t, expr, in, single);
	gg_buf_str(&b->text, "\t\t}\n");
	return r;
}

/* ---- nodes ------------------------------------------------------------------------------------- */

static bool put_variadic(build *b, const gg_node *n, result *out)
{
	gg_dtype t = (gg_dtype)n->out[0]->dtype;
	const char *expr = expression(n->op, t);
	result arg[2];
	if (!source(b, n, 0, &arg[0]))
		return false;
	*out = put(b, "x", arg[0].t, t, 1, arg, NULL);
	for (int i = 1; i < gg_nargs(n); i++) {
		arg[0] = *out;
		if (!source(b, n, i, &arg[1]))
			return false;
		*out = put(b, expr, t, t, 2, arg, NULL);
	}
	if (!strcmp(n->op->name, "Mean")) {
		double count[GG_EXPR_ATTRS] = {gg_nargs(n)};
		arg[0] = *out;
		*out = put(b, "x / a", t, t, 1, arg, count);
	}
	return true;
}

static bool put_clip(build *b, const gg_node *n, result *out)
{
	static const char *const limit[] = {"x < y ? y : x", "x > y ? y : x"};
	gg_dtype t = (gg_dtype)n->out[0]->dtype;
	result arg[2];
	if (!source(b, n, 0, &arg[0]))
		return false;
	*out = put(b, "x", t, t, 1, arg, NULL);
	for (int i = 0; i < 2; i++) {
		if (!gg_in(n, i + 1))
			continue;
		arg[0] = *out;
		if (!source(b, n, i + 1, &arg[1]))
			return false;
		*out = put(b, limit[i], t, t, 2, arg, NULL);
	}
	return true;
}

static bool put_batchnorm(build *b, const gg_node *n, result *out)
{
	gg_dtype t = (gg_dtype)n->out[0]->dtype, wide = t == GG_F64 ? GG_F64 : GG_F32;
	double eps[GG_EXPR_ATTRS] = {gg_get_float(n, "epsilon")};
	result x, stat[4], r;
	if (!source(b, n, 0, &x))
		return false;
	for (int i = 0; i < 4; i++)
		if (!load(b, cuda_slot(b->c, n, i + 1), true, &stat[i]))
			return false;
	r = put(b, "x / sqrt(y + a)", wide, wide, 2, (result[]){stat[0], stat[3]}, eps);
	x = put(b, "x - y", wide, wide, 2, (result[]){x, stat[2]}, NULL);
	*out = put(b, "x * y + z", wide, t, 3, (result[]){x, r, stat[1]}, NULL);
	if (!strcmp(n->op->name, "BatchNormRelu"))
		*out = put(b, "x < 0 ? 0 : x", t, t, 1, out, NULL);
	return true;
}

static bool put_node(build *b, const gg_node *n, result *out)
{
	static const char *const folds[] = {"Max", "Min", "Sum", "Mean"};
	const char *name = n->op->name;
	gg_dtype t = (gg_dtype)n->out[0]->dtype;
	double attr[GG_EXPR_ATTRS];
	result arg[3];
	for (size_t i = 0; i < sizeof folds / sizeof *folds; i++)
		if (!strcmp(name, folds[i]))
			return put_variadic(b, n, out);
	if (!strcmp(name, "Clip"))
		return put_clip(b, n, out);
	if (!strncmp(name, "BatchNorm", 9))
		return put_batchnorm(b, n, out);
	bool cast = !strcmp(name, "Cast") || !strcmp(name, "CastLike");
	int nargs = cast ? 1 : gg_nargs(n);
	for (int i = 0; i < nargs; i++)
		if (i >= 3 || !source(b, n, i, &arg[i]))
			return false;
	gg_dtype in = !strcmp(name, "Where") ? arg[1].t : arg[0].t;
	const char *expr = cast ? "x" : expression(n->op, in);
	if (!expr)
		gg_bug("op '%s' has a row for cuda_pointwise but no expression for %s", name,
		       gg_dtype_name(in));
	gg_expr_attrs(n, attr);
	if (!strcmp(name, "BitShift")) {
		attr[0] = gg_dtype_bits(t);
		attr[1] = *gg_get_string(n, "direction") == 'L';
	}
	*out = put(b, expr, in, t, nargs, arg, n->op->attrs ? attr : NULL);
	return true;
}

/* ---- the head's wishes ------------------------------------------------------------------------- */

static bool put_activation(build *b, const cuda_head *h, result *r)
{
	const char *name = h->activation;
	double attr[GG_EXPR_ATTRS] = {h->param[0], h->param[1]};
	const gg_op *op = gg_op_find(!strcmp(name, "GeluTanh") ? "Gelu" : name);
	for (int i = 0; op && op->attrs && op->attrs[i].name && i < GG_EXPR_ATTRS && !h->nparams; i++) {
		const gg_attr *a = gg_op_default(op, op->attrs[i].name);
		attr[i] = a && a->type == GG_ATTR_FLOAT ? (double)a->f : 0;
	}
	if (!strcmp(name, "GeluTanh"))
		attr[0] = 1;
	if (!strcmp(name, "Clip"))
		*r = put(b, "x < a ? a : x > b ? b : x", r->t, r->t, 1, r, attr);
	else if (op && op->expr)
		*r = put(b, expression(op, r->t), r->t, r->t, 1, r, attr);
	else
		return false;
	return true;
}

static bool put_head(build *b, const cuda_head *h)
{
	double beta[GG_EXPR_ATTRS] = {h->beta};
	gg_dtype t = b->c->out[0].dtype;
	result arg[2];
	if (!load(b, HEAD, false, &b->head))
		return false;
	if (h->channel >= 0) {
		arg[0] = b->head;
		if (!load(b, h->channel, true, &arg[1]))
			return false;
		b->head = put(b, "x + y", t, t, 2, arg, NULL);
	}
	if (h->add >= 0) {
		arg[0] = b->head;
		if (!load(b, h->add, false, &arg[1]))
			return false;
		b->head = put(b, "x + a * y", t, t, 2, arg, beta);
	}
	return !h->activation || !*h->activation || put_activation(b, h, &b->head);
}

/* ---- the kernel's text ------------------------------------------------------------------------- */

/* How many neighbours a thread makes: 16 bytes of the widest type, where everybody allows it. */
static int width(const build *b, int rank, const int64_t *dim)
{
	size_t most = gg_dtype_size(b->c->out[0].dtype);
	for (int i = 0; i < b->nops; i++)
		if (gg_dtype_size(b->op[i].t) > most)
			most = gg_dtype_size(b->op[i].t);
	int v = (int)(16 / most);
	while (v > 1 && (rank == 0 || dim[rank - 1] % v))
		v /= 2;
	return v;
}

static void set_forms(build *b, int rank, const int64_t *dim, int v)
{
	for (int i = 0; i < b->nops; i++) {
		int64_t last = rank ? b->stride[i][rank - 1] : 0;
		bool aligned = last == 1;
		for (int k = 0; k < rank - 1; k++)
			aligned &= b->stride[i][k] % v == 0;
		b->op[i].form = aligned ? VECTOR : last == 0 ? SAME : STRIDED;
	}
}

static void put_loads(build *b, gg_buf *s, int rank, const int64_t *dim, int v)
{
	for (int i = 0; i < b->nops; i++) {
		const char *t = cuda_type(b->op[i].t);
		char name[16];
		snprintf(name, sizeof name, "o%d", i);
		cuda_offset(s, name, "i", rank, dim, b->stride[i]);
		if (b->op[i].form == VECTOR)
			gg_buf_printf(s, "\tconst vec<%s, %d> a%d = *(const vec<%s, %d> *)(p%d + o%d);\n", t,
			              v, i, t, v, i, i);
		else if (b->op[i].form == SAME)
			gg_buf_printf(s, "\tconst %s a%d = p%d[o%d];\n", t, i, i, i);
	}
	gg_buf_str(s, "\t#pragma unroll\n\tfor (int j = 0; j < V; j++) {\n");
	for (int i = 0; i < b->nops; i++) {
		gg_buf_printf(s, "\t\tconst %s x%d = ld(", cuda_compute(b->op[i].t), i);
		if (b->op[i].form == VECTOR)
			gg_buf_printf(s, "a%d.v[j]);\n", i);
		else if (b->op[i].form == SAME)
			gg_buf_printf(s, "a%d);\n", i);
		else
			gg_buf_printf(s, "p%d[o%d + j * %lldL]);\n", i, i, (long long)b->stride[i][rank - 1]);
	}
}

static bool finish(build *b, const result *last, cuda_chain *k)
{
	int64_t dim[GG_MAX_RANK], total = gg_count(&b->c->out[0]);
	int rank = cuda_physical(b->shape, b->layout, dim);
	const char *t = cuda_type(b->c->out[0].dtype);
	char defines[128];
	gg_buf s = {0};
	cuda_strides(b->shape, b->layout, b->shape, b->layout, b->stride[b->nops]);
	cuda_merge(&rank, dim, b->nops + 1, b->stride);
	int v = width(b, rank, dim);
	set_forms(b, rank, dim, v);
	snprintf(defines, sizeof defines, "#define V %d\n#define INDEX unsigned%s\n", v,
	         total >> 31 ? " long" : "");
	gg_buf_str(&s, "KERNEL(");
	for (int i = 0; i < b->nops; i++)
		gg_buf_printf(&s, "const %s *p%d, ", cuda_type(b->op[i].t), i);
	gg_buf_printf(&s, "%s *out)\n{\nSPREAD(t, %lluu) {\n\tconst INDEX i = t * V;\n\tvec<%s, V> y;\n", t,
	              (unsigned long long)(total / v), t);
	put_loads(b, &s, rank, dim, v);
	gg_buf_add(&s, b->text.p, b->text.len);
	gg_buf_printf(&s, "\t\ty.v[j] = st(%s, is<%s>());\n\t}\n\t*(vec<%s, V> *)(out + i) = y;\n}\n}\n",
	              last->name, t, t);
	bool good = cuda_compile(b->c->d, defines, s.p, &k->k);
	cuda_spread(&k->k, total / v, 256);
	gg_buf_fini(&s);
	return good;
}

bool cuda_chain_new(gg_call *c, const cuda_head *h, int from, cuda_chain **out)
{
	build *b = gg_xcalloc(1, sizeof *b);
	cuda_chain *k = gg_xcalloc(1, sizeof *k);
	bool good = true, empty = gg_count(&c->out[0]) == 0;
	bool wishes = h && (h->channel >= 0 || h->add >= 0 || (h->activation && *h->activation));
	*b = (build){.c = c, .from = from, .shape = &c->out[0].shape, .layout = (gg_layout)c->out_layout[0]};
	*out = NULL;
	if (h && (!wishes && from == c->ncover)) {
		free(b);
		free(k);
		return true;
	}
	if (h)
		good = put_head(b, h);
	result last = b->head;
	for (int j = from; j < c->ncover && good; j++) {
		good = put_node(b, c->cover[j], &b->done[j]);
		last = b->done[j];
	}
	if (!good)
		gg_node_error(c->d, GG_UNSUPPORTED, c->node, "more than %d inputs in one call", MAX_OPERANDS);
	k->empty = empty;
	k->nops = b->nops;
	for (int i = 0; i < b->nops; i++)
		k->in[i] = b->op[i].in;
	good = good && (empty || finish(b, &last, k));
	gg_buf_fini(&b->text);
	free(b);
	if (!good) {
		free(k);
		return false;
	}
	*out = k;
	return true;
}

bool cuda_chain_run(const cuda_chain *k, gg_call *c)
{
	void *arg[MAX_OPERANDS + 1];
	if (!k || k->empty)
		return true;
	for (int i = 0; i < k->nops; i++)
		arg[i] = k->in[i] == HEAD ? c->out[0].data : c->in[k->in[i]].data;
	arg[k->nops] = c->out[0].data;
	return cuda_launch(c->d, &k->k, k->nops + 1, arg);
}

void cuda_chain_free(cuda_chain *k) { free(k); }

/* ---- the kernels ------------------------------------------------------------------------------- */

static bool prepare(gg_call *c)
{
	cuda_chain *k;
	bool good = cuda_chain_new(c, NULL, 0, &k);
	c->state = k;
	return good;
}

static bool run(gg_call *c) { return cuda_chain_run(c->state, c); }
static void release(gg_call *c) { cuda_chain_free(c->state); }

const gg_kernel cuda_pointwise = {"cuda_pointwise", prepare, run, release};
const gg_kernel cuda_batchnorm = {"cuda_batchnorm", prepare, run, release};
