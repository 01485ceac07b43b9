/* The decoded model becomes a graph: names to values, functions inlined, bodies closed.
 *
 * Every ONNX graph (the main one, each body) and every call of a function has a scope: which
 * value a name stands for there. A function's scope is new, but its nodes go into the caller's
 * graph; a body's scope begins with the outer values that it reads, as captures. Each node is
 * lifted and inferred as it is added, so that lifting can ask for shapes. */
#include "onnx.h"
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INLINED = 1 << 20 };

typedef struct importer {
	gg_diag *d;
	gg_arena a; /* scratch */
	const onnx_options *o;
	const onnx_ModelProto *x;
	onnx_file file;
	const char *loc; /* file name in locations */
	gg_model *m;
	gg_map functions;
	gg_map frees;   /* onnx_GraphProto -> names */
	bool made_up;   /* a value has a name that is not the file's */
	size_t inlined; /* nodes of functions so far */
	gg_map symbols; /* dims that inputs declare: they are bound when the graph runs */
} importer;

typedef struct scope scope;

/* An attribute with its references resolved, and the scope that a graph in it was written in. */
typedef struct argument {
	const char *name;
	const onnx_AttributeProto *a;
	scope *from;
} argument;

/* A call of a function; the model itself is a call without arguments. */
typedef struct frame {
	const struct onnx_list *opsets;
	const argument *arg;
	int narg;
	const char *prefix; /* of node names: "call/" */
	int depth;
} frame;

struct scope {
	gg_graph *g;
	const frame *f;
	gg_map values; /* interned name -> value */
	gg_map rename; /* function outputs -> the caller's names; only where the graph has names of its own */
	gg_map info;   /* declared types: name -> onnx_ValueInfoProto */
};

static gg_value absent; /* what a function's input stands for when the call leaves it out */

static uint64_t key(const void *p) { return (uint64_t)(uintptr_t)p; }
static const char *text(const char *s) { return s ? s : ""; }
static bool is_default(const char *domain) { return !*domain || !strcmp(domain, "ai.onnx"); }

static bool build_nodes(importer *im, scope *s, const struct onnx_list *nodes);

static void end_scope(scope *s)
{
	gg_map_fini(&s->values);
	gg_map_fini(&s->rename);
	gg_map_fini(&s->info);
}

/* ---- names --------------------------------------------------------------------------------------- */
typedef struct names {
	const char **v;
	size_t n, cap;
} names;

static bool defines(gg_map *defined, const char *name)
{
	if (!*name || gg_map_get(defined, key(name)))
		return false;
	gg_map_put(defined, key(name), &absent);
	return true;
}

static void note_read(importer *im, gg_map *defined, gg_map *seen, names *out, const char *name)
{
	if (!*name || gg_map_get(defined, key(name)) || !defines(seen, name))
		return;
	out->v = gg_grow_in(&im->a, out->v, out->n, &out->cap, sizeof *out->v);
	out->v[out->n++] = name;
}

/* Names that a body reads from outside, bodies within it included, in order of first use. */
static const names *free_names(importer *im, const onnx_GraphProto *g)
{
	names *out = gg_map_get(&im->frees, key(g));
	gg_map defined = {0}, seen = {0};
	if (out)
		return out;
	out = gg_alloc(&im->a, sizeof *out);
	gg_map_put(&im->frees, key(g), out);
	EACH (onnx_ValueInfoProto, v, g->input)
		defines(&defined, text(v->name));
	EACH (onnx_TensorProto, t, g->initializer)
		defines(&defined, text(t->name));
	EACH (onnx_SparseTensorProto, t, g->sparse_initializer)
		defines(&defined, t->values ? text(t->values->name) : "");
	EACH (onnx_NodeProto, n, g->node)
		EACH (const char *, name, n->output)
			defines(&defined, *name);
	EACH (onnx_NodeProto, n, g->node) {
		EACH (const char *, name, n->input)
			note_read(im, &defined, &seen, out, *name);
		EACH (onnx_AttributeProto, a, n->attribute) {
			const names *inner = a->g ? free_names(im, a->g) : NULL;
			for (size_t i = 0; inner && i < inner->n; i++)
				note_read(im, &defined, &seen, out, inner->v[i]);
		}
	}
	EACH (onnx_ValueInfoProto, v, g->output)
		note_read(im, &defined, &seen, out, text(v->name));
	gg_map_fini(&defined);
	gg_map_fini(&seen);
	return out;
}

/* What a node is called in messages and locations. */
static const char *node_name(importer *im, const scope *s, const onnx_NodeProto *n)
{
	const char *name = text(n->name);
	EACH (const char *, out, n->output)
		name = *name ? name : *out;
	return *s->f->prefix ? gg_printf(&im->a, "%s%s", s->f->prefix, name) : name;
}

static bool node_fail(importer *im, const scope *s, const onnx_NodeProto *n, gg_status st, const char *fmt,
                      const char *arg)
{
	char *why = gg_printf(&im->a, fmt, arg);
	return gg_error(im->d, st, "node '%s' (%s): %s", node_name(im, s, n), text(n->op_type), why);
}

static gg_value *lookup(const scope *s, const char *name) { return gg_map_get(&s->values, key(name)); }

static bool bind(importer *im, scope *s, const char *name, gg_value *v)
{
	if (lookup(s, name))
		return gg_error(im->d, GG_MALFORMED, "value '%s' is made twice", name);
	gg_map_put(&s->values, key(name), v);
	return true;
}

/* A name of the file goes before one that was made up for a value in the same graph. */
static const char *claim(importer *im, gg_graph *g, const char *name)
{
	gg_value *v = im->made_up ? gg_find_value(g, name) : NULL;
	if (v)
		gg_rename(v, gg_fresh_name(g, name));
	return name;
}

/* The name in the graph of what the scope calls `name`. */
static const char *new_name(importer *im, const scope *s, const char *name)
{
	const char *given = gg_map_get(&s->rename, key(name));
	if (given || !*s->f->prefix)
		return claim(im, s->g, given ? given : name);
	return gg_fresh_name(s->g, gg_printf(&im->a, "%s%s", s->f->prefix, name));
}

/* ---- order --------------------------------------------------------------------------------------- */
typedef struct order {
	importer *im;
	const scope *s;
	const onnx_NodeProto *node;
	size_t n, nout;
	gg_map producer; /* name -> index + 1 */
	const onnx_NodeProto **out;
	unsigned char *state; /* 1: being visited, 2: done */
	struct visit {
		size_t i, next;
		names reads;
	} * stack;
	size_t depth, cap;
} order;

static names reads_of(order *o, const onnx_NodeProto *n)
{
	names r = {0};
	gg_map none = {0}, seen = {0};
	EACH (const char *, name, n->input)
		note_read(o->im, &none, &seen, &r, *name);
	EACH (onnx_AttributeProto, a, n->attribute) {
		const names *inner = a->g ? free_names(o->im, a->g) : NULL;
		for (size_t i = 0; inner && i < inner->n; i++)
			note_read(o->im, &none, &seen, &r, inner->v[i]);
	}
	gg_map_fini(&seen);
	return r;
}

static size_t producer(const order *o, const char *name)
{
	return (size_t)(uintptr_t)gg_map_get(&o->producer, key(name));
}

static bool cycle(const order *o, size_t at)
{
	gg_buf b = {0};
	size_t from = o->depth;
	while (from && o->stack[from - 1].i != at)
		from--;
	for (size_t k = from ? from - 1 : 0; k < o->depth && k < from + 8; k++) {
		const onnx_NodeProto *n = &o->node[o->stack[k].i];
		const char **value = n->output ? n->output->v : NULL;
		gg_buf_printf(&b, "%s'%s' (%s, which makes '%s')", b.len ? ", " : "",
		              node_name(o->im, o->s, n), text(n->op_type), value ? *value : "");
	}
	gg_error(o->im->d, GG_MALFORMED, "the graph has a cycle: %s", b.p);
	gg_buf_fini(&b);
	return false;
}

static void push(order *o, size_t i)
{
	o->state[i] = 1;
	GG_PUSH(o->stack, o->depth, o->cap, ((struct visit){.i = i, .reads = reads_of(o, &o->node[i])}));
}

/* Depth first, without recursion: what a node reads comes before it, else the order of the file. */
static bool visit(order *o, size_t root)
{
	push(o, root);
	while (o->depth) {
		struct visit *v = &o->stack[o->depth - 1];
		if (v->next == v->reads.n) {
			o->state[v->i] = 2;
			o->out[o->nout++] = &o->node[v->i];
			o->depth--;
			continue;
		}
		size_t p = producer(o, v->reads.v[v->next++]);
		if (!p || o->state[p - 1] == 2)
			continue;
		if (o->state[p - 1] == 1)
			return cycle(o, p - 1);
		push(o, p - 1);
	}
	return true;
}

/* Files are in order as a rule. Names that are yet to be made bear a mark. */
static bool is_sorted(importer *im, const struct onnx_list *nodes)
{
	enum { AHEAD = 1 };
	const char *nothing = gg_intern("");
	bool good = true;
	EACH (onnx_NodeProto, n, nodes)
		EACH (const char *, name, n->output)
			*gg_intern_mark(*name) = AHEAD;
	EACH (onnx_NodeProto, n, nodes) {
		*gg_intern_mark(nothing) = 0; /* an output that is left out */
		EACH (const char *, name, n->input)
			good &= *gg_intern_mark(*name) != AHEAD;
		EACH (onnx_AttributeProto, a, n->attribute) {
			const names *inner = a->g ? free_names(im, a->g) : NULL;
			for (size_t i = 0; inner && i < inner->n; i++)
				good &= *gg_intern_mark(inner->v[i]) != AHEAD;
		}
		EACH (const char *, name, n->output)
			*gg_intern_mark(*name) = 0;
	}
	return good;
}

static bool sort(importer *im, const scope *s, const struct onnx_list *nodes, const onnx_NodeProto **out)
{
	size_t k = 0;
	if (is_sorted(im, nodes)) {
		EACH (onnx_NodeProto, n, nodes)
			out[k++] = n;
		return true;
	}
	order o = {.im = im, .s = s, .node = nodes->v, .n = nodes->n, .out = out};
	bool good = true;
	o.state = gg_xcalloc(o.n + 1, 1);
	for (size_t i = 0; i < o.n; i++)
		EACH (const char *, name, o.node[i].output)
			if (**name && !producer(&o, *name))
				gg_map_put(&o.producer, key(*name), (void *)(uintptr_t)(i + 1));
	for (size_t i = 0; i < o.n && good; i++)
		good = o.state[i] || visit(&o, i);
	gg_map_fini(&o.producer);
	free(o.state);
	free(o.stack);
	return good;
}

/* ---- types ---------------------------------------------------------------------------------------- */
static const struct onnx_list *dims_of(const onnx_ValueInfoProto *v)
{
	static const struct onnx_list scalar;
	const onnx_TensorTypeProto *t = v->type ? v->type->tensor_type : NULL;
	return !t || !t->shape ? NULL : t->shape->dim ? t->shape->dim : &scalar;
}

static const gg_shape *asked_shape(const importer *im, const char *input)
{
	for (size_t i = 0; i < im->o->nshape; i++)
		if (!strcmp(im->o->shape[i].input, input))
			return &im->o->shape[i].shape;
	return NULL;
}

static bool is_named(const onnx_DimensionProto *d)
{
	return !d->has_dim_value && d->dim_param && *d->dim_param && *d->dim_param != '?';
}

/* A symbol, or what --shape says it is. */
static gg_dim symbol(const importer *im, const char *sym)
{
	if (!im->o->nshape)
		return gg_dim_sym(sym);
	EACH (onnx_ValueInfoProto, v, im->x->graph->input) {
		const gg_shape *s = asked_shape(im, text(v->name));
		int k = 0;
		EACH (onnx_DimensionProto, d, dims_of(v)) {
			if (s && k < s->rank && is_named(d) && !strcmp(d->dim_param, sym))
				return s->dim[k];
			k++;
		}
	}
	return gg_dim_sym(sym);
}

struct all_declared {
	importer *im;
	bool yes;
};

static void all_declared(const char *sym, void *arg)
{
	struct all_declared *x = arg;
	x->yes &= gg_map_get(&x->im->symbols, key(gg_intern(sym))) != NULL;
}

/* The dim that a dim_param stands for. An expression is one only of symbols that inputs declare:
 * "batch-size" is a name. */
static bool param_dim(importer *im, const char *param, gg_dim *out)
{
	struct all_declared all = {im, true};
	bool declared = gg_map_get(&im->symbols, key(param));
	if (!declared && gg_dim_parse(param, out)) {
		gg_dim_symbols(*out, all_declared, &all);
		if (all.yes)
			return true;
	}
	*out = declared ? symbol(im, param) : -1;
	return declared;
}

static bool element_type(importer *im, const char *what, const onnx_ValueInfoProto *v, gg_dtype *out)
{
	const onnx_TypeProto *t = v->type;
	*out = GG_NONE;
	if (t && (t->sequence_type || t->map_type || t->sparse_tensor_type || t->optional_type))
		return gg_error(im->d, GG_UNSUPPORTED,
		                "%s '%s' is not a tensor: sequences, maps, sparse tensors and optionals are "
		                "not supported",
		                what, text(v->name));
	if (!t || !t->tensor_type || !t->tensor_type->elem_type)
		return true;
	*out = gg_dtype_from_onnx(t->tensor_type->elem_type);
	return *out || gg_error(im->d, GG_UNSUPPORTED, "%s '%s' has ONNX dtype %d, which is not supported",
	                        what, text(v->name), (int)t->tensor_type->elem_type);
}

static bool check_asked(importer *im, const char *name, const struct onnx_list *dims, const gg_shape *s)
{
	if (!dims || !s)
		return true;
	if (dims->n != (size_t)s->rank)
		return gg_error(im->d, GG_USAGE, "input '%s' has rank %zu, --shape gives it %d", name,
		                dims->n, s->rank);
	int k = 0;
	EACH (onnx_DimensionProto, d, dims) {
		if (d->has_dim_value && d->dim_value >= 0 && d->dim_value != s->dim[k])
			return gg_error(im->d, GG_USAGE,
			                "input '%s' has size %lld in axis %d, --shape gives it %lld", name,
			                (long long)d->dim_value, k, (long long)s->dim[k]);
		k++;
	}
	return true;
}

/* A dim without a name gets one. */
static gg_dim fresh_symbol(importer *im, const char *name, int k)
{
	const char *sym = gg_intern(gg_printf(&im->a, "%s.%d", name, k));
	while (gg_map_get(&im->symbols, key(sym)))
		sym = gg_intern(gg_printf(&im->a, "%s_", sym));
	gg_map_put(&im->symbols, key(sym), &absent);
	return gg_dim_sym(sym);
}

static bool input_shape(importer *im, const onnx_ValueInfoProto *v, gg_shape *out)
{
	const struct onnx_list *dims = dims_of(v);
	const gg_shape *asked = asked_shape(im, text(v->name));
	*out = asked ? *asked : gg_shape_unknown;
	if (!check_asked(im, text(v->name), dims, asked))
		return false;
	if (!dims || asked)
		return true;
	if (dims->n > GG_MAX_RANK)
		return gg_error(im->d, GG_UNSUPPORTED, "input '%s' has rank %zu, at most %d is supported",
		                text(v->name), dims->n, GG_MAX_RANK);
	*out = gg_shape_of(0, NULL);
	EACH (onnx_DimensionProto, d, dims) {
		int k = out->rank++;
		if (d->has_dim_value && d->dim_value < 0)
			return gg_error(im->d, GG_MALFORMED, "input '%s' has the size %lld in axis %d",
			                text(v->name), (long long)d->dim_value, k);
		if (d->has_dim_value)
			out->dim[k] = d->dim_value;
		else if (!is_named(d))
			out->dim[k] = fresh_symbol(im, v->name, k);
		else if (!param_dim(im, d->dim_param, &out->dim[k]))
			gg_bug("the dim '%s' of an input is not declared", d->dim_param);
	}
	return true;
}

/* An expression of other inputs' symbols is not a symbol of its own. */
static void declare_symbols(importer *im, const onnx_GraphProto *g)
{
	for (int pass = 0; pass < 2; pass++)
		EACH (onnx_ValueInfoProto, v, g->input)
			EACH (onnx_DimensionProto, d, dims_of(v)) {
				gg_dim x;
				bool plain = is_named(d) && gg_dim_parse(d->dim_param, &x) &&
				             gg_dim_is_symbol(x);
				if (is_named(d) && (pass ? !param_dim(im, d->dim_param, &x) : plain))
					gg_map_put(&im->symbols, key(d->dim_param), &absent);
			}
}

/* A dim that is declared, as far as it says something here: a number, or an input's symbol. */
static bool declared_dim(importer *im, const onnx_DimensionProto *d, gg_dim *out)
{
	*out = d->has_dim_value ? d->dim_value : -1;
	if (d->has_dim_value)
		return d->dim_value >= 0;
	return is_named(d) && param_dim(im, d->dim_param, out);
}

static bool mismatch(importer *im, const gg_value *v, const char *declared)
{
	char *is = v->dtype ? gg_shape_str(&im->a, &v->shape) : "";
	return gg_error(im->d, GG_MALFORMED, "output '%s' is declared as %s, but it is %s%s", v->name,
	                declared, gg_dtype_name((gg_dtype)v->dtype), is);
}

/* What was inferred holds. What is declared fills in what only data or the exporter knew; where it
 * says otherwise of a graph's output, the file is inconsistent. */
static bool merge_declared(importer *im, gg_value *v, const onnx_ValueInfoProto *info, bool output)
{
	const struct onnx_list *dims = dims_of(info);
	gg_dtype t;
	if (!element_type(im, "value", info, &t))
		return false;
	if (t && v->dtype && t != v->dtype)
		return !output || mismatch(im, v, gg_dtype_name(t));
	if (t && !v->dtype)
		v->dtype = (uint8_t)t;
	if (!dims || dims->n > GG_MAX_RANK)
		return true;
	if (v->shape.rank >= 0 && (size_t)v->shape.rank != dims->n)
		return !output || mismatch(im, v, gg_printf(&im->a, "rank %zu", dims->n));
	bool unknown = v->shape.rank < 0;
	v->shape.rank = (int)dims->n;
	int k = 0;
	EACH (onnx_DimensionProto, d, dims) {
		gg_dim declared, *is = &v->shape.dim[k];
		bool says = declared_dim(im, d, &declared), open = !unknown && gg_dim_from_data(*is);
		if (unknown)
			*is = says ? declared : gg_dim_sym(gg_printf(&im->a, "?%s.%d", v->name, k));
		else if (says && open)
			*is = declared;
		else if (says && output && gg_dim_known(declared) && gg_dim_known(*is) && declared != *is)
			return mismatch(im, v, gg_printf(&im->a, "%lld in axis %d", (long long)declared, k));
		k++;
	}
	return true;
}

/* ---- attributes -------------------------------------------------------------------------------------- */
enum { FLOAT = 1, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS, TENSORS, GRAPHS, SPARSE };

static int attr_type(const onnx_AttributeProto *a)
{
	if (a->type)
		return a->type;
	return a->has_f     ? FLOAT
	       : a->has_i   ? INT
	       : a->s       ? STRING
	       : a->t       ? TENSOR
	       : a->g       ? GRAPH
	       : a->floats  ? FLOATS
	       : a->ints    ? INTS
	       : a->strings ? STRINGS
	                    : SPARSE;
}

static const argument *find_argument(const argument *arg, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (arg[i].name == name)
			return &arg[i];
	return NULL;
}

/* A node's attributes, those that name an attribute of the function replaced by the call's. */
static bool resolve(importer *im, scope *s, const onnx_NodeProto *n, argument **out, int *nout)
{
	argument *arg = gg_alloc_n(&im->a, (n->attribute ? n->attribute->n : 0) + 1, sizeof *arg);
	int k = 0;
	EACH (onnx_AttributeProto, a, n->attribute) {
		const char *ref = text(a->ref_attr_name);
		argument x = {text(a->name), a, s};
		const argument *given = *ref ? find_argument(s->f->arg, s->f->narg, ref) : &x;
		if (find_argument(arg, k, x.name))
			return node_fail(im, s, n, GG_MALFORMED, "attribute '%s' is given twice", x.name);
		if (given)
			arg[k++] = (argument){x.name, given->a, given->from};
	}
	*out = arg;
	*nout = k;
	return true;
}

static const char *string_of(const struct onnx_bytes *b)
{
	return b && (!b->n || !memchr(b->p, 0, b->n)) ? gg_intern_n(b->p, b->n) : NULL;
}

static bool strings_of(importer *im, const struct onnx_list *l, gg_attr *out)
{
	out->strings = gg_alloc_n(&im->a, (l ? l->n : 0) + 1, sizeof *out->strings);
	EACH (struct onnx_bytes, b, l)
		if (!(out->strings[out->n++] = string_of(b)))
			return false;
	return true;
}

/* Bodies are left to make_bodies. */
static bool to_attr(importer *im, scope *s, const onnx_NodeProto *n, const argument *arg, gg_attr *out)
{
	const onnx_AttributeProto *a = arg->a;
	static const int64_t none;
	*out = (gg_attr){.name = arg->name};
	switch (attr_type(a)) {
	case FLOAT:
		out->type = GG_ATTR_FLOAT;
		out->f = a->f;
		return true;
	case INT:
		out->type = GG_ATTR_INT;
		out->i = a->i;
		return true;
	case STRING:
		out->type = GG_ATTR_STRING;
		out->s = a->s ? string_of(a->s) : "";
		return out->s ||
		       node_fail(im, s, n, GG_UNSUPPORTED, "attribute '%s' has a NUL byte in it", arg->name);
	case FLOATS:
		out->type = GG_ATTR_FLOATS;
		out->n = a->floats ? (int)a->floats->n : 0;
		out->floats = a->floats ? a->floats->v : (const void *)&none;
		return true;
	case INTS:
		out->type = GG_ATTR_INTS;
		out->n = a->ints ? (int)a->ints->n : 0;
		out->ints = a->ints ? a->ints->v : &none;
		return true;
	case STRINGS:
		out->type = GG_ATTR_STRINGS;
		return strings_of(im, a->strings, out) ||
		       node_fail(im, s, n, GG_UNSUPPORTED, "attribute '%s' has a NUL byte in it", arg->name);
	case TENSOR:
		out->type = GG_ATTR_TENSOR;
		out->tensor = a->t ? onnx_tensor_load(&im->file, a->t, arg->name) : NULL;
		return out->tensor || im->d->errors ||
		       node_fail(im, s, n, GG_MALFORMED, "attribute '%s' has no tensor", arg->name);
	default:
		return node_fail(im, s, n, GG_UNSUPPORTED, "attribute '%s' has a type that is not supported",
		                 arg->name);
	}
}

/* ---- constants ------------------------------------------------------------------------------------------
 */
static bool add_data(importer *im, scope *s, gg_kind kind, const char *name, const onnx_TensorProto *t)
{
	gg_dtype dtype;
	gg_shape shape;
	if (!onnx_tensor_type(im->d, t, name, &dtype, &shape))
		return false;
	gg_data *data = onnx_tensor_data(&im->file, t, name);
	if (!data)
		return false;
	if (gg_dtype_class(dtype) != 'F')
		kind = GG_CONST;
	return bind(im, s, name, gg_add_const(s->g, kind, new_name(im, s, name), dtype, &shape, data));
}

static bool add_dense(importer *im, scope *s, const char *name, const gg_tensor *t)
{
	if (!t)
		return false;
	/* gg_add_tensor packs what is packed in files; the name is free after new_name. */
	return bind(im, s, name, gg_add_tensor(s->g, new_name(im, s, name), t));
}

static bool add_numbers(importer *im, scope *s, const char *name, const gg_attr *a)
{
	gg_tensor t = {.shape = gg_shape_of(0, NULL)};
	gg_dim n = a->n;
	switch (a->type) {
	case GG_ATTR_FLOAT:
		t.dtype = GG_F32;
		t.data = (void *)&a->f;
		break;
	case GG_ATTR_INT:
		t.dtype = GG_I64;
		t.data = (void *)&a->i;
		break;
	case GG_ATTR_STRING:
		t.dtype = GG_STRING;
		t.data = (void *)&a->s;
		break;
	default:
		t.dtype = a->type == GG_ATTR_FLOATS ? GG_F32 : a->type == GG_ATTR_INTS ? GG_I64 : GG_STRING;
		t.shape = gg_shape_of(1, &n);
		t.data = (void *)a->ints;
	}
	return add_dense(im, s, name, &t);
}

/* One of value, value_float, value_floats, value_int, value_ints, value_string, value_strings,
 * sparse_value. */
static bool add_constant(importer *im, scope *s, const onnx_NodeProto *n, const argument *arg, int narg)
{
	const char **out = n->output ? n->output->v : NULL;
	gg_attr a;
	if (narg != 1 || !out || n->output->n != 1)
		return node_fail(im, s, n, GG_MALFORMED, "it wants one attribute%s and has one output", "");
	if (!**out)
		return true;
	bool is_value = !strcmp(arg->name, "value"), is_sparse = !strcmp(arg->name, "sparse_value");
	if (is_value && arg->a->t)
		return add_data(im, s, GG_CONST, *out, arg->a->t);
	if (is_sparse && arg->a->sparse_tensor)
		return add_dense(im, s, *out, onnx_sparse_load(&im->file, arg->a->sparse_tensor, *out));
	if (is_value || is_sparse || strncmp(arg->name, "value_", 6))
		return node_fail(im, s, n, GG_MALFORMED, "attribute '%s' is no value", arg->name);
	return to_attr(im, s, n, arg, &a) && add_numbers(im, s, *out, &a);
}

static bool add_initializers(importer *im, scope *s, const onnx_GraphProto *g)
{
	gg_kind kind = s->g == im->m->main ? GG_PARAM : GG_CONST;
	EACH (onnx_TensorProto, t, g->initializer) {
		if (!*text(t->name))
			return gg_error(im->d, GG_MALFORMED, "an initializer has no name");
		if (!add_data(im, s, kind, t->name, t))
			return false;
	}
	EACH (onnx_SparseTensorProto, t, g->sparse_initializer) {
		const char *name = t->values ? text(t->values->name) : "";
		if (!*name)
			return gg_error(im->d, GG_MALFORMED, "a sparse initializer has no name");
		if (!add_dense(im, s, name, onnx_sparse_load(&im->file, t, name)))
			return false;
	}
	return true;
}

/* ---- bodies
 * ------------------------------------------------------------------------------------------------ */
typedef struct body {
	const onnx_GraphProto *x;
	scope s;
	scope *from;
} body;

static bool add_body_inputs(importer *im, body *b, const gg_node *owner)
{
	int i = 0;
	EACH (onnx_ValueInfoProto, v, b->x->input) {
		gg_shape shape = gg_shape_unknown;
		gg_dtype t;
		const struct onnx_list *dims = dims_of(v);
		if (!element_type(im, "body input", v, &t))
			return false;
		/* The arguments of Loop and Scan stand in the order of the body's inputs. */
		if (!t && gg_in(owner, i))
			t = (gg_dtype)gg_in(owner, i)->dtype;
		if (dims && dims->n <= GG_MAX_RANK) {
			shape.rank = 0;
			EACH (onnx_DimensionProto, d, dims)
				if (!declared_dim(im, d, &shape.dim[shape.rank++]))
					shape.dim[shape.rank - 1] = -1;
			for (int k = 0; k < shape.rank; k++)
				if (shape.dim[k] == -1)
					shape = gg_shape_unknown;
		}
		gg_value *in = gg_add_input(b->s.g, new_name(im, &b->s, text(v->name)), t, &shape);
		if (!bind(im, &b->s, text(v->name), in))
			return false;
		i++;
	}
	return true;
}

static bool reads(const names *n, const char *name)
{
	for (size_t i = 0; i < n->n; i++)
		if (n->v[i] == name)
			return true;
	return false;
}

/* What the k-th body reads from outside and no earlier one did becomes an input of all of them. */
static bool capture(importer *im, const onnx_NodeProto *n, gg_node *owner, body *b, int nbody, int k)
{
	const names *free = free_names(im, b[k].x);
	for (size_t i = 0; i < free->n; i++) {
		const char *name = free->v[i];
		gg_value *v = lookup(b[k].from, name);
		if (!v)
			return node_fail(im, b[k].from, n, GG_MALFORMED,
			                 "its body reads '%s', which nothing before it makes", name);
		if (lookup(&b[k].s, name))
			continue;
		if (v != &absent)
			gg_add_capture(owner, v);
		im->made_up = true;
		for (int j = k; j < nbody; j++)
			if (b[j].from == b[k].from && reads(free_names(im, b[j].x), name) &&
			    !lookup(&b[j].s, name))
				gg_map_put(&b[j].s.values, key(name),
				           v == &absent ? v : b[j].s.g->in[b[j].s.g->nin - 1]);
	}
	return true;
}

static void add_info(scope *s, const struct onnx_list *infos)
{
	EACH (onnx_ValueInfoProto, v, infos)
		gg_map_put(&s->info, key(text(v->name)), v);
}

static bool add_outputs(importer *im, scope *s, const onnx_GraphProto *g)
{
	EACH (onnx_ValueInfoProto, v, g->output) {
		gg_value *out = lookup(s, text(v->name));
		if (!out || out == &absent)
			return gg_error(im->d, GG_MALFORMED, "output '%s' is not made by any node",
			                text(v->name));
		if (!s->g->owner && gg_is_output(out))
			return gg_error(im->d, GG_MALFORMED, "the list of outputs names '%s' twice",
			                text(v->name));
		if (!s->g->owner && !merge_declared(im, out, v, true))
			return false;
		gg_add_output(s->g, out);
	}
	return true;
}

static bool build_body(importer *im, body *b)
{
	static const struct onnx_list none;
	add_info(&b->s, b->x->value_info);
	return add_initializers(im, &b->s, b->x) && build_nodes(im, &b->s, b->x->node ? b->x->node : &none) &&
	       add_outputs(im, &b->s, b->x);
}

static bool has_bodies(importer *im, const gg_node *owner)
{
	for (const gg_attr_spec *spec = owner->op->attrs; spec && spec->name; spec++)
		if (spec->type == GG_ATTR_GRAPH && spec->required && !gg_find_attr(owner, spec->name))
			return gg_node_error(im->d, GG_MALFORMED, owner, "required attribute '%s' is missing",
			                     spec->name);
	return true;
}

static bool make_bodies(importer *im, const onnx_NodeProto *n, gg_node *owner, const argument *arg, int narg)
{
	body *b = gg_alloc_n(&im->a, (size_t)narg + 1, sizeof *b);
	int nbody = 0;
	bool good = true;
	for (int i = 0; i < narg && good; i++) {
		if (attr_type(arg[i].a) != GRAPH || !arg[i].a->g)
			continue;
		const gg_attr_spec *spec = gg_op_attr(owner->op, arg[i].name);
		if (!spec || spec->type != GG_ATTR_GRAPH)
			return node_fail(im, arg[i].from, n, GG_UNSUPPORTED,
			                 "attribute '%s' is not supported", arg[i].name);
		body *x = &b[nbody++];
		*x = (body){.x = arg[i].a->g, .from = arg[i].from};
		x->s.g = gg_graph_new(im->m, text(x->x->name));
		x->s.f = arg[i].from->f;
		good = add_body_inputs(im, x, owner);
		gg_set_attr_graph(owner, arg[i].name, x->s.g);
	}
	good = good && has_bodies(im, owner);
	for (int i = 0; i < nbody && good; i++)
		good = capture(im, n, owner, b, nbody, i);
	for (int i = 0; i < nbody && good; i++)
		good = build_body(im, &b[i]);
	for (int i = 0; i < nbody; i++)
		end_scope(&b[i].s);
	return good;
}

/* ---- nodes
 * ---------------------------------------------------------------------------------------------------- */
static bool read_inputs(importer *im, scope *s, const onnx_NodeProto *n, gg_value ***out, int *nout)
{
	size_t count = n->input ? n->input->n : 0;
	gg_value **in = gg_alloc_n(&im->a, count + 1, sizeof *in);
	int k = 0;
	EACH (const char *, name, n->input) {
		gg_value *v = **name ? lookup(s, *name) : NULL;
		if (**name && !v)
			return node_fail(im, s, n, GG_MALFORMED, "it reads '%s', which nothing makes", *name);
		in[k++] = v == &absent ? NULL : v;
	}
	*out = in;
	*nout = k;
	return true;
}

/* The opset of a domain in this scope; 0: none. */
static int64_t opset(const scope *s, const char *domain)
{
	EACH (onnx_OperatorSetIdProto, o, s->f->opsets)
		if (!strcmp(text(o->domain), domain) || (is_default(text(o->domain)) && is_default(domain)))
			return o->version;
	return 0;
}

static bool check_opsets(importer *im, const struct onnx_list *opsets)
{
	EACH (onnx_OperatorSetIdProto, o, opsets)
		if (is_default(text(o->domain)) && (o->version < ONNX_OLDEST || o->version > ONNX_NEWEST))
			return gg_error(im->d, GG_UNSUPPORTED,
			                "opset %lld of ai.onnx is not supported, %d to %d are",
			                (long long)o->version, ONNX_OLDEST, ONNX_NEWEST);
	return true;
}

static void set_names(importer *im, scope *s, const onnx_NodeProto *n, onnx_node *x)
{
	x->out = gg_alloc_n(&im->a, (n->output ? n->output->n : 0) + 1, sizeof *x->out);
	EACH (const char *, name, n->output)
		x->out[x->nout++] = **name ? new_name(im, s, *name) : NULL;
	x->name = node_name(im, s, n);
	x->loc = gg_alloc_n(&im->a, 2, sizeof *x->loc);
	x->loc[x->nloc++] = im->loc;
	if (*text(n->name))
		x->loc[x->nloc++] = x->name;
}

static bool bind_outputs(importer *im, scope *s, const onnx_NodeProto *n, const gg_node *made)
{
	int i = 0;
	EACH (const char *, name, n->output) {
		gg_value *v = gg_out(made, i++);
		const onnx_ValueInfoProto *info = gg_map_get(&s->info, key(*name));
		if (**name && v && ((info && !merge_declared(im, v, info, false)) || !bind(im, s, *name, v)))
			return false;
	}
	return true;
}

static bool add_op(importer *im, scope *s, const onnx_NodeProto *n, const argument *arg, int narg)
{
	onnx_node x = {.d = im->d, .a = &im->a, .g = s->g, .op = text(n->op_type), .domain = text(n->domain)};
	if (is_default(x.domain))
		x.domain = "";
	x.version = opset(s, x.domain);
	if (!*x.op)
		return node_fail(im, s, n, GG_MALFORMED, "it has no op%s", "");
	if (!x.version && (!*x.domain || !strncmp(x.domain, "ai.onnx", 7)))
		return node_fail(im, s, n, GG_MALFORMED, "the model imports no opset of its domain '%s'",
		                 x.domain);
	if (!read_inputs(im, s, n, &x.in, &x.nin))
		return false;
	set_names(im, s, n, &x);
	x.attr = gg_alloc_n(&im->a, (size_t)narg + 1, sizeof *x.attr);
	for (int i = 0; i < narg; i++)
		if (attr_type(arg[i].a) != GRAPH && !to_attr(im, s, n, &arg[i], &x.attr[x.nattr++]))
			return false;
	uint32_t before = im->m->next_id;
	if (im->d->errors || !onnx_check_opset(&x) || !onnx_lift(&x))
		return false;
	im->made_up |= im->m->next_id != before;
	gg_node *made = onnx_emit(&x);
	return made && make_bodies(im, n, made, arg, narg) && gg_infer_node(im->d, made) &&
	       bind_outputs(im, s, n, made);
}

/* ---- functions
 * ---------------------------------------------------------------------------------------------------- */
static const char *function_key(importer *im, const char *domain, const char *name, const char *overload)
{
	return gg_intern(gg_printf(&im->a, "%s\n%s\n%s", is_default(text(domain)) ? "" : domain, text(name),
	                           text(overload)));
}

/* The call's attributes, and the function's defaults for those that it leaves out. */
static void call_arguments(importer *im, const onnx_FunctionProto *fn, scope *s, const argument *arg,
                           int narg, frame *f)
{
	argument *all = gg_alloc_n(
	    &im->a, (size_t)narg + (fn->attribute_proto ? fn->attribute_proto->n : 0) + 1, sizeof *all);
	if (narg)
		memcpy(all, arg, (size_t)narg * sizeof *all);
	f->narg = narg;
	EACH (onnx_AttributeProto, a, fn->attribute_proto)
		if (!find_argument(arg, narg, text(a->name)))
			all[f->narg++] = (argument){text(a->name), a, s};
	f->arg = all;
}

/* An output that is an input of the function, or is named before, needs a value of its own. */
static gg_value *named(importer *im, scope *s, const onnx_NodeProto *n, gg_value *v, const char *name)
{
	if (v->name == name)
		return v;
	onnx_node x = {.d = im->d,
	               .a = &im->a,
	               .g = s->g,
	               .op = gg_intern("Identity"),
	               .domain = "",
	               .in = &v,
	               .nin = 1};
	set_names(im, s, n, &x);
	x.out = &name;
	x.nout = 1;
	claim(im, s->g, name);
	gg_node *made = onnx_emit(&x);
	return made && gg_infer_node(im->d, made) ? made->out[0] : NULL;
}

static bool return_outputs(importer *im, scope *s, const onnx_NodeProto *n, const onnx_FunctionProto *fn,
                           scope *inner, const char **name)
{
	const char **formal = fn->output ? fn->output->v : NULL;
	int i = 0;
	EACH (const char *, out, n->output) {
		gg_value *v = **out ? lookup(inner, formal[i]) : NULL;
		if (**out && (!v || v == &absent))
			return node_fail(im, s, n, GG_MALFORMED, "the function does not make its output '%s'",
			                 formal[i]);
		if (v && (!(v = named(im, s, n, v, name[i])) || !bind(im, s, *out, v)))
			return false;
		i++;
	}
	return true;
}

static bool call(importer *im, scope *s, const onnx_NodeProto *n, const onnx_FunctionProto *fn,
                 const argument *arg, int narg)
{
	frame f = {.opsets = fn->opset_import, .depth = s->f->depth + 1};
	scope inner = {.g = s->g, .f = &f};
	static const struct onnx_list none;
	const struct onnx_list *in = fn->input ? fn->input : &none, *out = fn->output ? fn->output : &none;
	gg_value **actual;
	int nin, i = 0;
	if (f.depth > GG_LIMIT_DEPTH)
		return node_fail(im, s, n, GG_MALFORMED,
		                 "function '%s' calls itself, or calls are nested too deeply",
		                 text(fn->name));
	if ((n->input && n->input->n > in->n) || (n->output && n->output->n > out->n))
		return node_fail(im, s, n, GG_MALFORMED, "it has more inputs or outputs than function '%s'",
		                 text(fn->name));
	if (!check_opsets(im, f.opsets) || !read_inputs(im, s, n, &actual, &nin))
		return false;
	im->made_up = true;
	f.prefix = gg_printf(&im->a, "%s/", node_name(im, s, n));
	call_arguments(im, fn, &inner, arg, narg, &f);
	EACH (const char *, name, in) {
		gg_map_put(&inner.values, key(*name), i < nin && actual[i] ? actual[i] : &absent);
		i++;
	}
	const char **given = gg_alloc_n(&im->a, out->n + 1, sizeof *given);
	i = 0;
	EACH (const char *, name, n->output) {
		const char *formal = ((const char **)out->v)[i];
		given[i] = **name ? new_name(im, s, *name) : NULL;
		if (given[i] && !gg_map_get(&inner.rename, key(formal)))
			gg_map_put(&inner.rename, key(formal), (void *)given[i]);
		i++;
	}
	bool good = build_nodes(im, &inner, fn->node ? fn->node : &none) &&
	            return_outputs(im, s, n, fn, &inner, given);
	end_scope(&inner);
	return good;
}

static bool add_node(importer *im, scope *s, const onnx_NodeProto *n)
{
	argument *arg = NULL;
	int narg = 0;
	const onnx_FunctionProto *fn = NULL;
	if (s->f->depth && ++im->inlined > MAX_INLINED) /* a few functions, each calling the next one twice */
		return node_fail(im, s, n, GG_UNSUPPORTED, "functions make more than a million nodes%s", "");
	if (!resolve(im, s, n, &arg, &narg))
		return false;
	if (im->functions.n)
		fn = gg_map_get(&im->functions, key(function_key(im, n->domain, n->op_type, n->overload)));
	if (fn)
		return call(im, s, n, fn, arg, narg);
	if (is_default(text(n->domain)) && !strcmp(text(n->op_type), "Constant"))
		return add_constant(im, s, n, arg, narg);
	return add_op(im, s, n, arg, narg);
}

static bool build_nodes(importer *im, scope *s, const struct onnx_list *nodes)
{
	const onnx_NodeProto **order = gg_xcalloc(nodes->n + 1, sizeof *order);
	bool good = sort(im, s, nodes, order);
	for (size_t i = 0; i < nodes->n && good; i++)
		good = add_node(im, s, order[i]);
	free(order);
	return good;
}

/* ---- the model
 * -------------------------------------------------------------------------------------------------------- */
/* An input that has an initializer is a constant: who calls need not give it. */
static bool add_inputs(importer *im, scope *s, const onnx_GraphProto *g)
{
	gg_map initial = {0};
	bool good = true;
	declare_symbols(im, g);
	EACH (onnx_TensorProto, t, g->initializer)
		gg_map_put(&initial, key(text(t->name)), t);
	EACH (onnx_SparseTensorProto, t, g->sparse_initializer)
		gg_map_put(&initial, key(t->values ? text(t->values->name) : ""), t);
	EACH (onnx_ValueInfoProto, v, g->input) {
		gg_dtype t;
		gg_shape shape;
		const char *name = text(v->name);
		if (gg_map_get(&initial, key(name)))
			continue;
		if (!*name)
			good = gg_error(im->d, GG_MALFORMED, "a graph input has no name");
		good = good && element_type(im, "input", v, &t);
		if (good && !t)
			good = gg_error(im->d, GG_MALFORMED, "input '%s' has no dtype", name);
		good = good && input_shape(im, v, &shape) &&
		       bind(im, s, name, gg_add_input(s->g, name, t, &shape));
		if (!good)
			break;
	}
	gg_map_fini(&initial);
	return good;
}

static bool check_asked_inputs(importer *im)
{
	for (size_t i = 0; i < im->o->nshape; i++) {
		const gg_value *v = gg_find_value(im->m->main, im->o->shape[i].input);
		if (!v || v->kind != GG_INPUT)
			return gg_error(im->d, GG_USAGE, "--shape names '%s', which is no input",
			                im->o->shape[i].input);
	}
	return true;
}

static bool build(importer *im, const onnx_ModelProto *x)
{
	static const struct onnx_list none;
	frame f = {.opsets = x->opset_import, .prefix = ""};
	scope s = {.g = im->m->main, .f = &f};
	if (!x->has_ir_version)
		return gg_error(im->d, GG_MALFORMED, "the file has no IR version, so it is no ONNX model");
	if (!check_opsets(im, x->opset_import))
		return false;
	EACH (onnx_FunctionProto, fn, x->functions)
		gg_map_put(&im->functions, key(function_key(im, fn->domain, fn->name, fn->overload)), fn);
	add_info(&s, x->graph->value_info);
	bool good = add_inputs(im, &s, x->graph) && check_asked_inputs(im) &&
	            add_initializers(im, &s, x->graph) &&
	            build_nodes(im, &s, x->graph->node ? x->graph->node : &none) &&
	            add_outputs(im, &s, x->graph);
	end_scope(&s);
	return good;
}

/* Tensors in the file are referred to by its name in its folder. */
static bool set_base(importer *im, const gg_source *src)
{
	const char *path = im->o->path ? im->o->path : ".";
	char *dir = gg_strdup(&im->a, path), *file = gg_strdup(&im->a, path);
	char *base = realpath(im->o->path ? dirname(dir) : dir, NULL);
	if (!base)
		return gg_error(im->d, GG_MACHINE, "the folder of '%s' cannot be found", path);
	im->m->base = gg_intern(base);
	free(base);
	im->file = (onnx_file){im->d, im->m, NULL, src->p, src->len};
	if (im->o->path && src->mapped)
		im->file.file = gg_intern(basename(file));
	im->loc = im->o->path ? gg_intern(basename(gg_strdup(&im->a, path))) : gg_intern(src->name);
	return true;
}

gg_model *onnx_import(gg_diag *d, const gg_source *src, const onnx_options *o)
{
	importer im = {.d = d, .o = o};
	onnx_ModelProto *x = onnx_decode(d, &im.a, src);
	bool good = false;
	im.x = x;
	if (x) {
		im.m = gg_model_new(x->graph->name);
		im.m->allow_outside = o->allow_outside;
		good = set_base(&im, src) && build(&im, x);
	}
	if (!good) {
		gg_model_free(im.m);
		im.m = NULL;
	}
	gg_map_fini(&im.functions);
	gg_map_fini(&im.symbols);
	gg_map_fini(&im.frees);
	gg_arena_fini(&im.a);
	return im.m;
}
