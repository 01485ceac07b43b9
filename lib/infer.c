/* Shape inference: the op's rule on abstract inputs, once on values of a graph and once on tensors. */
#include "op.h"
#include <stdlib.h>
#include <string.h>

#define MAX_CONTENT 1024 /* elements of an integer tensor whose values are followed */

/* ---- dtypes against the schema ------------------------------------------------------------ */
static const struct gg_slot_type *slot_type(const struct gg_slot_type *row, int rows, int i)
{
	int last = 0;
	while (last + 1 < rows && row[last + 1].set)
		last++;
	return &row[i < last ? i : last];
}

static bool bad_dtype(gg_infer *f, int i, gg_dtypes set)
{
	gg_buf b = {0};
	for (int t = 1; t < GG_DTYPES; t++)
		if (set & GG_DT(t))
			gg_buf_printf(&b, "%s%s", b.len ? " " : "", gg_dtype_name((gg_dtype)t));
	gg_unsupported(f, "input %d has dtype %s, expected one of: %s", i, gg_dtype_name(f->in[i].dtype),
	               b.p ? b.p : "");
	gg_buf_fini(&b);
	return false;
}

/* Binds the type variables by the inputs, then gives each output slot its variable's dtype, or
 * the only dtype of its set. */
static bool check_dtypes(gg_infer *f)
{
	gg_dtype bound[256] = {0};
	int by[256];
	for (int i = 0; i < f->nin; i++) {
		const struct gg_slot_type *s = slot_type(f->n->op->in, 12, i);
		gg_dtype t = f->in[i].dtype;
		unsigned char var = (unsigned char)s->var;
		if (!t)
			continue;
		if (!(s->set & GG_DT(t)))
			return bad_dtype(f, i, s->set);
		if (var && bound[var] && bound[var] != t)
			return gg_fail(f, "input %d has dtype %s, input %d has %s: they must be equal", i,
			               gg_dtype_name(t), by[var], gg_dtype_name(bound[var]));
		bound[var] = t;
		by[var] = i;
	}
	for (int i = 0; i < f->nout; i++) {
		const struct gg_slot_type *s = slot_type(f->n->op->out, 8, i);
		if (s->var)
			f->out[i].dtype = bound[(unsigned char)s->var];
		else if (s->set && !(s->set & (s->set - 1)))
			f->out[i].dtype = (gg_dtype)__builtin_ctz(s->set);
	}
	return true;
}

static bool run_rule(gg_infer *f)
{
	for (int i = 0; i < f->nout; i++)
		f->out[i] = (gg_info){.shape = gg_shape_unknown};
	return check_dtypes(f) && f->n->op->infer(f);
}

/* ---- what rules ask for --------------------------------------------------------------------- */
const gg_tensor *gg_want(gg_infer *f, int i)
{
	if (i >= f->nin || !f->in[i].dtype)
		return 0;
	if (!f->in[i].data && f->want)
		f->in[i].data = f->want(f, i);
	return f->in[i].data;
}

const gg_dim *gg_want_dims(gg_infer *f, int i, int *n)
{
	if (i >= f->nin || !f->in[i].dtype || f->in[i].shape.rank < 0)
		return 0;
	gg_info *in = &f->in[i];
	char class = gg_dtype_class(in->dtype);
	int64_t count = gg_shape_count(&in->shape);
	if (count < 0 || count > MAX_CONTENT || !strchr("IUB", class))
		return 0;
	*n = (int)count;
	if (in->content)
		return in->content;
	const gg_tensor *t = gg_want(f, i);
	if (!t)
		return 0;
	gg_dim *c = gg_alloc_n(f->a, (size_t)count + 1, sizeof *c);
	for (int64_t k = 0; k < count; k++) {
		c[k] = gg_get_i64(t, k);
		if (!gg_dim_number(c[k]))
			return 0;
	}
	return in->content = c;
}

const char *gg_str(gg_infer *f, const gg_shape *s) { return gg_shape_str(f->a, s); }

bool gg_axis(gg_infer *f, const char *what, int64_t axis, int rank, int *out)
{
	if (axis < -rank || axis >= rank)
		return gg_fail(f, "%s %lld is out of range for rank %d", what, (long long)axis, rank);
	*out = (int)(axis < 0 ? axis + rank : axis);
	return true;
}

gg_dim gg_unknown_dim(gg_infer *f, int out, int axis)
{
	const gg_value *v = gg_out(f->n, out);
	char *name = gg_printf(f->a, "?%s.%d", v ? v->name : gg_node_name(f->n), axis);
	return gg_dim_sym(name);
}

bool gg_infer_same(gg_infer *f)
{
	f->out[0].shape = f->in[0].shape;
	if (!f->out[0].dtype)
		f->out[0].dtype = f->in[0].dtype;
	return true;
}

bool gg_infer_broadcast(gg_infer *f)
{
	gg_shape s = f->in[0].shape;
	for (int i = 1; i < f->nin; i++) {
		if (!f->in[i].dtype)
			continue;
		gg_shape a = s;
		if (!gg_broadcast(&a, &f->in[i].shape, &s))
			return gg_fail(f, "shapes %s and %s cannot be broadcast together", gg_str(f, &a),
			               gg_str(f, &f->in[i].shape));
	}
	f->out[0].shape = s;
	return true;
}

/* ---- on values ------------------------------------------------------------------------------ */
typedef struct driver {
	gg_node *n;
	gg_tensor *data; /* storage for in[].data */
} driver;

static const gg_tensor *load_const(gg_infer *f, int i)
{
	driver *k = f->ctx;
	gg_value *v = k->n->in[i].value;
	if (!gg_is_fixed(v))
		return 0;
	return gg_value_tensor(f->d, v, &k->data[i]) ? &k->data[i] : 0;
}

static gg_info info_of(const gg_value *v)
{
	return v ? (gg_info){.dtype = v->dtype, .shape = v->shape, .content = v->content}
	         : (gg_info){.shape = gg_shape_unknown};
}

/* A number beats a symbol; what is inferred beats what stood there, unless it hangs on data. */
static bool merge_shape(gg_shape *old, const gg_shape *now)
{
	if (now->rank < 0)
		return true;
	if (old->rank < 0) {
		*old = *now;
		return true;
	}
	if (old->rank != now->rank)
		return false;
	for (int i = 0; i < now->rank; i++) {
		gg_dim a = old->dim[i], b = now->dim[i];
		if (gg_dim_known(a) && gg_dim_known(b) && a != b)
			return false;
		if (gg_dim_known(b) || (!gg_dim_known(a) && (!gg_dim_from_data(b) || gg_dim_from_data(a))))
			old->dim[i] = b;
	}
	return true;
}

static bool merge(gg_diag *d, const gg_node *n, gg_value *v, const gg_info *x)
{
	if (x->dtype && v->dtype && x->dtype != v->dtype)
		return gg_node_error(d, GG_MALFORMED, n, "output '%s' is declared as %s, but it is %s",
		                     v->name, gg_dtype_name(v->dtype), gg_dtype_name(x->dtype));
	if (x->dtype)
		v->dtype = (uint8_t)x->dtype;
	if (!merge_shape(&v->shape, &x->shape)) {
		gg_arena a = {0};
		gg_node_error(d, GG_MALFORMED, n, "output '%s' is declared as %s, but it is %s", v->name,
		              gg_shape_str(&a, &v->shape), gg_shape_str(&a, &x->shape));
		gg_arena_fini(&a);
		return false;
	}
	int64_t count = gg_shape_count(&v->shape);
	v->content = 0;
	if (x->content && count >= 0 && count <= MAX_CONTENT) {
		gg_dim *c = gg_alloc_n(&v->graph->m->arena, (size_t)count + 1, sizeof *c);
		memcpy(c, x->content, (size_t)count * sizeof *c);
		v->content = c;
	}
	return true;
}

/* The elements of a small integer constant that is at hand; a body sees it only as an input. */
static const gg_dim *const_content(gg_diag *d, gg_arena *a, gg_value *v)
{
	char class = gg_dtype_class((gg_dtype)v->dtype);
	int64_t count = v->kind == GG_CONST && v->data->kind == GG_DATA_INLINE ? gg_shape_count(&v->shape)
	                                                                       : -1;
	gg_tensor t;
	if (count < 0 || count > GG_MAX_RANK || (class != 'I' && class != 'U') || !gg_value_tensor(d, v, &t))
		return 0;
	gg_dim *c = gg_alloc_n(a, (size_t)count + 1, sizeof *c);
	for (int64_t k = 0; k < count; k++) {
		c[k] = gg_get_i64(&t, k);
		if (!gg_dim_number(c[k]))
			return 0;
	}
	return c;
}

/* What is captured is known inside: the last inputs of each body. */
static bool merge_captures(gg_diag *d, gg_arena *a, gg_node *n)
{
	gg_graph *b;
	for (int k = 0; (b = gg_body(n, k)); k++) {
		for (int i = 0; i < n->ncap; i++) {
			gg_value *v = n->in[n->nin - n->ncap + i].value;
			gg_info x = info_of(v);
			if (v && !x.content)
				x.content = const_content(d, a, v);
			if (!merge(d, n, b->in[b->nin - (size_t)n->ncap + (size_t)i], &x))
				return false;
		}
	}
	return true;
}

static bool infer_with(gg_diag *d, gg_arena *a, gg_node *n)
{
	int nin = gg_nargs(n);
	driver k = {n, gg_alloc_n(a, (size_t)nin + 1, sizeof(gg_tensor))};
	gg_infer f = {.n = n, .d = d, .a = a, .nin = nin, .nout = n->nout, .want = load_const, .ctx = &k};
	f.in = gg_alloc_n(a, (size_t)nin + 1, sizeof *f.in);
	f.out = gg_alloc_n(a, (size_t)n->nout + 1, sizeof *f.out);
	for (int i = 0; i < nin; i++)
		f.in[i] = info_of(n->in[i].value);
	int before = d->errors;
	if ((n->ncap && !merge_captures(d, a, n)) || !run_rule(&f))
		return false;
	if (d->errors != before)
		return false; /* a constant that the rule asked for could not be read */
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && !merge(d, n, n->out[i], &f.out[i]))
			return false;
	return true;
}

bool gg_infer_node(gg_diag *d, gg_node *n)
{
	gg_arena a = {0};
	bool good = infer_with(d, &a, n);
	gg_arena_fini(&a);
	return good;
}

bool gg_infer_graph(gg_diag *d, gg_graph *g)
{
	gg_arena a = {0};
	bool good = true;
	for (gg_node *n = g->first; n && good; n = n->next) {
		good = infer_with(d, &a, n);
		gg_arena_reset(&a);
	}
	gg_arena_fini(&a);
	return good;
}

/* ---- on tensors ----------------------------------------------------------------------------- */
bool gg_infer_tensors(gg_diag *d, const gg_node *n, int nin, const gg_tensor *in, int nout, gg_info *out,
                      gg_arena *a)
{
	gg_infer f = {.n = n, .d = d, .a = a, .nin = nin, .nout = nout, .out = out, .tensors = true};
	bool all = !(n->op->flags & GG_DATA_SHAPE) && !gg_body(n, 0);
	f.in = gg_alloc_n(a, (size_t)nin + 1, sizeof *f.in);
	for (int i = 0; i < nin; i++) {
		bool has_data = in[i].dtype && (in[i].data || gg_count(&in[i]) == 0);
		all &= has_data || !in[i].dtype;
		f.in[i] = (gg_info){
		    .dtype = in[i].dtype, .shape = in[i].shape, .data = has_data ? &in[i] : 0};
	}
	if (!run_rule(&f))
		return false;
	/* All is known, so only a size that is beyond numbers is not. */
	for (int i = 0; i < nout; i++)
		if (all && n->out[i] && !gg_shape_known(&out[i].shape))
			return gg_node_error(d, GG_MALFORMED, n, "output '%s' is too large: its shape is %s",
			                     n->out[i]->name, gg_shape_str(a, &out[i].shape));
	return true;
}
