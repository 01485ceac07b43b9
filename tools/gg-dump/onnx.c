/* A graph as an ONNX file: protobuf written by hand, in the order of the fields.
 *
 * Fused ops are expanded first, weights go into the file, bodies become subgraphs that name outer
 * values, so names are unique over all of them. The opset is the oldest of at least BASE that has
 * every op, attribute and dtype used: what reads the file need not be newer than the graph. */
#include "dump.h"
#include <stdlib.h>
#include <string.h>

enum { BASE = 21 };

typedef struct writer {
	gg_diag *d;
	gg_buf *b;
	gg_model *m;
	gg_arena a;
	gg_map names;   /* value -> its name in the file */
	gg_map used;    /* names of values, of all graphs */
	gg_map nodes;   /* names of nodes */
	gg_map domains; /* of the ops written */
	int64_t opset, weights;
} writer;

/* ---- protobuf ------------------------------------------------------------------------------------ */
enum { VARINT, FIXED64, BYTES, FIXED32 = 5 };

static void put_varint(gg_buf *b, uint64_t x)
{
	char p[10];
	size_t n = 0;
	for (; x > 127; x >>= 7)
		p[n++] = (char)(x | 128);
	p[n++] = (char)x;
	gg_buf_add(b, p, n);
}

static void put_int(gg_buf *b, int field, int64_t x)
{
	put_varint(b, (uint64_t)field << 3 | VARINT);
	put_varint(b, (uint64_t)x);
}

static void put_float(gg_buf *b, int field, float x)
{
	put_varint(b, (uint64_t)field << 3 | FIXED32);
	gg_buf_add(b, &x, 4);
}

static void put_bytes(gg_buf *b, int field, const void *p, size_t n)
{
	put_varint(b, (uint64_t)field << 3 | BYTES);
	put_varint(b, n);
	if (n)
		gg_buf_add(b, p, n);
}

static void put_str(gg_buf *b, int field, const char *s) { put_bytes(b, field, s, strlen(s)); }

/* A message within the message: its length is known at its end. */
static size_t begin(gg_buf *b, int field)
{
	put_varint(b, (uint64_t)field << 3 | BYTES);
	return b->len;
}

static void end(gg_buf *b, size_t at)
{
	size_t n = b->len - at;
	put_varint(b, n);
	char len[10];
	size_t k = b->len - at - n;
	memcpy(len, b->p + at + n, k);
	memmove(b->p + at + k, b->p + at, n);
	memcpy(b->p + at, len, k);
}

/* ---- types --------------------------------------------------------------------------------------- */
static void put_dim(gg_buf *b, gg_dim d)
{
	const char *sym = gg_dim_symbol(d);
	size_t at = begin(b, 1); /* TensorShapeProto.dim */
	if (gg_dim_known(d))
		put_int(b, 1, d);
	else
		put_str(b, 2, sym ? sym : gg_dim_str(d));
	end(b, at);
}

static void put_value_info(writer *w, int field, const gg_value *v, const char *name)
{
	gg_buf *b = w->b;
	size_t info = begin(b, field);
	put_str(b, 1, name);
	size_t type = begin(b, 2), tensor = begin(b, 1);
	if (v->dtype)
		put_int(b, 1, gg_dtype_onnx((gg_dtype)v->dtype));
	if (v->shape.rank >= 0) {
		size_t shape = begin(b, 2);
		for (int i = 0; i < v->shape.rank; i++)
			put_dim(b, v->shape.dim[i]);
		end(b, shape);
	}
	end(b, tensor);
	end(b, type);
	end(b, info);
}

/* ---- tensors --------------------------------------------------------------------------------------- */
static void put_tensor_type(gg_buf *b, gg_dtype t, const gg_shape *s)
{
	for (int i = 0; i < s->rank; i++)
		put_int(b, 1, s->dim[i]);
	put_int(b, 2, gg_dtype_onnx(t));
}

/* Memory form to file form. */
static void put_tensor_data(gg_buf *b, const gg_tensor *t)
{
	int64_t n = gg_count(t);
	const uint8_t *p = t->data;
	if (t->dtype == GG_STRING) {
		for (int64_t i = 0; i < n; i++)
			put_str(b, 6, ((const char **)t->data)[i]);
		return;
	}
	if (gg_dtype_bits(t->dtype) != 4) {
		put_bytes(b, 9, p, gg_nbytes(t));
		return;
	}
	uint8_t *packed = gg_xcalloc(gg_packed_bytes(t->dtype, n) + 1, 1);
	for (int64_t i = 0; i < n; i++)
		packed[i / 2] |= (uint8_t)((p[i] & 15) << (i % 2 * 4));
	put_bytes(b, 9, packed, gg_packed_bytes(t->dtype, n));
	free(packed);
}

static bool too_big(writer *w, int64_t more)
{
	w->weights += more;
	return w->weights > INT32_MAX - (1 << 20) &&
	       !gg_error(w->d, GG_UNSUPPORTED,
	                 "the weights take more than the 2 GB that an ONNX file may hold");
}

static bool put_initializer(writer *w, gg_value *v, const char *name)
{
	gg_buf *b = w->b;
	bool raw = v->data->kind != GG_DATA_FILL && v->dtype != GG_STRING;
	const void *bytes = NULL;
	int64_t len;
	gg_tensor t;
	if (!gg_size_of((gg_dtype)v->dtype, &v->shape, &len) || too_big(w, len))
		return w->d->errors || gg_error(w->d, GG_MALFORMED, "tensor '%s' has no size", v->name);
	if (raw ? !gg_data_bytes(w->d, w->m, v, &bytes, &len) : !gg_value_tensor(w->d, v, &t))
		return false;
	size_t at = begin(b, 5); /* GraphProto.initializer */
	put_tensor_type(b, (gg_dtype)v->dtype, &v->shape);
	put_str(b, 8, name);
	if (raw)
		put_bytes(b, 9, bytes, (size_t)len);
	else
		put_tensor_data(b, &t);
	end(b, at);
	return true;
}

/* ---- attributes ------------------------------------------------------------------------------------ */
static bool put_graph(writer *w, int field, gg_graph *g);

/* AttributeProto: field of the value, and its type's number. */
static const struct attr_code {
	int field, type;
} codes[] = {
    [GG_ATTR_FLOAT] = {2, 1},  [GG_ATTR_INT] = {3, 2},     [GG_ATTR_STRING] = {4, 3},
    [GG_ATTR_TENSOR] = {5, 4}, [GG_ATTR_GRAPH] = {6, 5},   [GG_ATTR_FLOATS] = {7, 6},
    [GG_ATTR_INTS] = {8, 7},   [GG_ATTR_STRINGS] = {9, 8}, [GG_ATTR_DTYPE] = {3, 2},
};

static bool put_attr(writer *w, const gg_attr *a)
{
	gg_buf *b = w->b;
	int field = codes[a->type].field;
	size_t at = begin(b, 5); /* NodeProto.attribute */
	put_str(b, 1, a->name);
	switch (a->type) {
	case GG_ATTR_INT:
		put_int(b, field, a->i);
		break;
	case GG_ATTR_DTYPE:
		put_int(b, field, gg_dtype_onnx(a->dtype));
		break;
	case GG_ATTR_FLOAT:
		put_float(b, field, a->f);
		break;
	case GG_ATTR_STRING:
		put_str(b, field, a->s);
		break;
	case GG_ATTR_INTS:
		for (int i = 0; i < a->n; i++)
			put_int(b, field, a->ints[i]);
		break;
	case GG_ATTR_FLOATS:
		for (int i = 0; i < a->n; i++)
			put_float(b, field, a->floats[i]);
		break;
	case GG_ATTR_STRINGS:
		for (int i = 0; i < a->n; i++)
			put_str(b, field, a->strings[i]);
		break;
	case GG_ATTR_TENSOR: {
		size_t t = begin(b, field);
		put_tensor_type(b, a->tensor->dtype, &a->tensor->shape);
		put_tensor_data(b, a->tensor);
		end(b, t);
		break;
	}
	case GG_ATTR_GRAPH:
		if (!put_graph(w, field, a->graph))
			return false;
		break;
	}
	put_int(b, 20, codes[a->type].type);
	end(b, at);
	return true;
}

/* ---- which opset ------------------------------------------------------------------------------------ */
static const struct since {
	const char *op, *attr; /* attr NULL: the op, or with `input` that input of it */
	const char *domain;
	int opset, input;
} sinces[] = {
#define X(NAME, DOMAIN, SINCE, REMOVED) {#NAME, NULL, DOMAIN, SINCE},
#include "opset.inc"
#undef X
    {"Attention", "left_window_size", "", 25},
    {"Attention", "right_window_size", "", 25},
    {"Attention", NULL, "", 24, 6},       /* nonpad_kv_seqlen */
    {"AveragePool", "ceil_mode", "", 22}, /* since then a last window all in the padding is none */
    {"Cast", "round_mode", "", 24},
    {"CastLike", "round_mode", "", 24},
    {"DequantizeLinear", "output_dtype", "", 23},
    {"MaxPool", "ceil_mode", "", 22},
    {"QuantizeLinear", "precision", "", 23},
    {"Range", "stash_type", "", 27},
    {"SpaceToDepth", "mode", "", 28},
};

static const struct since_dtypes {
	const char *op;
	int opset;
	gg_dtypes dtypes;
} since_dtypes[] = {
#define X(NAME, SINCE, DTYPES) {#NAME, SINCE, DTYPES},
#include "opset_dtypes.inc"
#undef X
};

/* What readers of ONNX go by: the version of the file format that came with an opset. */
static int ir_version(int64_t opset)
{
	static const int ir[] = {10, 10, 11, 12, 13, 13, 13, 14}; /* opset 21 and on */
	return ir[opset - BASE];
}

/* Of memory, which ONNX does not speak of: for it the value is the same. */
static bool is_reorder(const gg_node *n) { return !strcmp(n->op->name, "Reorder"); }

static const char *domain_of(const gg_op *op) { return op->domain ? op->domain : ""; }

static void need(writer *w, int64_t opset)
{
	if (opset > w->opset)
		w->opset = opset;
}

static void note_dtypes(writer *w, const gg_node *n)
{
	gg_dtypes used = 0;
	for (int i = 0; i < gg_nargs(n); i++)
		if (n->in[i].value)
			used |= GG_DT(n->in[i].value->dtype);
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			used |= GG_DT(n->out[i]->dtype);
	if (!strcmp(n->op->name, "Mod") && used & GG_FLOATS && !gg_get_int(n, "fmod"))
		need(w, 28);
	for (size_t i = 0; i < sizeof since_dtypes / sizeof *since_dtypes; i++)
		if (since_dtypes[i].dtypes & used && !strcmp(since_dtypes[i].op, n->op->name))
			need(w, since_dtypes[i].opset);
}

static bool note_op(writer *w, const gg_node *n)
{
	const char *domain = domain_of(n->op);
	bool known = *domain && strncmp(domain, "ai.onnx", 7);
	if (n->op->domain && !strcmp(n->op->domain, "gg"))
		return gg_node_error(w->d, GG_UNSUPPORTED, n, "ONNX has no form for it");
	for (size_t i = 0; i < sizeof sinces / sizeof *sinces; i++) {
		const struct since *s = &sinces[i];
		if (strcmp(s->op, n->op->name) || strcmp(s->domain, domain) ||
		    (s->attr && !gg_find_attr(n, s->attr)) || (s->input && !gg_in(n, s->input)))
			continue;
		known = true;
		if (!*domain)
			need(w, s->opset);
	}
	if (!known)
		return gg_node_error(w->d, GG_UNSUPPORTED, n, "ONNX has no such op");
	gg_map_puts(&w->domains, domain, (void *)n->op);
	if (!*domain)
		note_dtypes(w, n);
	return true;
}

/* ---- graphs ----------------------------------------------------------------------------------------- */
/* used: name -> the number to try next behind it. */
static const char *fresh(writer *w, gg_map *used, const char *base)
{
	const char *name = base;
	size_t first = (size_t)(uintptr_t)gg_map_gets(used, base), i = first;
	while (gg_map_gets(used, name))
		name = gg_printf(&w->a, "%s.%zu", base, i++);
	name = gg_intern(name);
	gg_map_puts(used, name, (void *)(uintptr_t)1);
	if (i != first)
		gg_map_puts(used, gg_intern(base), (void *)(uintptr_t)i);
	return name;
}

static const char *name_of(writer *w, const gg_value *v)
{
	const char *name = v ? gg_map_get(&w->names, (uint64_t)(uintptr_t)v) : "";
	if (!name)
		gg_bug("value '%s' has no name in the file", v->name);
	return name;
}

/* The main graph's values come first to their names: they are the interface. */
static const char *give_name(writer *w, const gg_value *v)
{
	const char *given = gg_map_get(&w->names, (uint64_t)(uintptr_t)v);
	if (given)
		return given;
	const char *name = fresh(w, &w->used, v->name);
	gg_map_put(&w->names, (uint64_t)(uintptr_t)v, (void *)name);
	return name;
}

static void put_node_head(gg_buf *b, const char *name, const char *op)
{
	if (name)
		put_str(b, 3, name);
	put_str(b, 4, op);
}

/* The bodies' last inputs are the captures: in the file they are the outer values themselves. */
static void name_captures(writer *w, const gg_node *n)
{
	gg_graph *g;
	for (int k = 0; (g = gg_body(n, k)); k++)
		for (int i = 0; i < n->ncap; i++) {
			const gg_value *in = g->in[g->nin - (size_t)(n->ncap - i)];
			const char *outer = name_of(w, n->in[n->nin - n->ncap + i].value);
			gg_map_put(&w->names, (uint64_t)(uintptr_t)in, (void *)outer);
		}
}

static bool put_node(writer *w, gg_node *n)
{
	gg_buf *b = w->b;
	bool reorder = is_reorder(n);
	name_captures(w, n);
	size_t at = begin(b, 1); /* GraphProto.node */
	for (int i = 0; i < gg_nargs(n); i++)
		put_str(b, 1, name_of(w, n->in[i].value));
	for (int i = 0; i < n->nout; i++)
		put_str(b, 2, n->out[i] ? give_name(w, n->out[i]) : "");
	put_node_head(b, n->nloc > 1 ? fresh(w, &w->nodes, n->loc[1]) : NULL,
	              reorder ? "Identity" : n->op->name);
	for (const gg_attr_spec *s = n->op->attrs; s && s->name; s++) {
		const gg_attr *a = gg_find_attr(n, s->name);
		if (a && !put_attr(w, a))
			return false;
	}
	if (*domain_of(n->op) && !reorder)
		put_str(b, 7, n->op->domain);
	end(b, at);
	return true;
}

/* In a body an output must be made by a node there, and be listed once. */
static const char *own_output(writer *w, const gg_value *v, gg_map *listed)
{
	const char *name = name_of(w, v);
	bool again = gg_map_get(listed, (uint64_t)(uintptr_t)name);
	gg_map_put(listed, (uint64_t)(uintptr_t)name, listed);
	if (!v->graph->owner || (v->kind == GG_TEMP && !again))
		return name;
	const char *copy = fresh(w, &w->used, v->name);
	size_t at = begin(w->b, 1);
	put_str(w->b, 1, name);
	put_str(w->b, 2, copy);
	put_node_head(w->b, NULL, "Identity");
	end(w->b, at);
	return copy;
}

static bool put_graph_fields(writer *w, gg_graph *g)
{
	size_t ncap = g->owner ? (size_t)g->owner->ncap : 0;
	const char **out = gg_alloc_n(&w->a, g->nout + 1, sizeof *out);
	gg_map listed = {0};
	for (size_t i = 0; i + ncap < g->nin; i++)
		give_name(w, g->in[i]);
	for (gg_value *v = g->consts; v; v = v->next_const)
		give_name(w, v);
	for (gg_node *n = g->first; n; n = n->next)
		if (!put_node(w, n))
			return false;
	for (size_t i = 0; i < g->nout; i++)
		out[i] = own_output(w, g->out[i]->value, &listed);
	gg_map_fini(&listed);
	put_str(w->b, 2, g->name && *g->name ? g->name : "graph");
	for (gg_value *v = g->consts; v; v = v->next_const)
		if (!put_initializer(w, v, name_of(w, v)))
			return false;
	for (size_t i = 0; i + ncap < g->nin; i++)
		put_value_info(w, 11, g->in[i], name_of(w, g->in[i]));
	for (size_t i = 0; i < g->nout; i++)
		put_value_info(w, 12, g->out[i]->value, out[i]);
	return true;
}

static bool put_graph(writer *w, int field, gg_graph *g)
{
	size_t at = begin(w->b, field);
	if (!put_graph_fields(w, g))
		return false;
	end(w->b, at);
	return true;
}

static void put_opset(gg_buf *b, const char *domain, int64_t version)
{
	size_t at = begin(b, 8); /* ModelProto.opset_import */
	put_str(b, 1, domain);
	put_int(b, 2, version);
	end(b, at);
}

/* Sets the opset and the domains. */
static bool note_graph(writer *w, const gg_graph *g)
{
	gg_graph *body;
	for (const gg_node *n = g->first; n; n = n->next) {
		if (!is_reorder(n) && !note_op(w, n))
			return false;
		for (int i = 0; (body = gg_body(n, i)); i++)
			if (!note_graph(w, body))
				return false;
	}
	return true;
}

/* ---- the model ---------------------------------------------------------------------------------------- */
/* Fused ops become plain ones, in every body; where plain ops cannot say it they stay, and are told of later.
 */
static bool expand_graph(gg_diag *d, gg_graph *g)
{
	for (gg_node *n = g->first, *next; n; n = next) {
		gg_graph *body;
		gg_node *prev = n->prev;
		for (int i = 0; (body = gg_body(n, i)); i++)
			if (!expand_graph(d, body))
				return false;
		next = n->next;
		if (!n->op->expand || !n->op->domain || !strncmp(n->op->domain, "ai.onnx", 7))
			continue;
		if (!n->op->expand(d, n)) {
			if (d->errors)
				return false;
			continue;
		}
		next = prev ? prev->next : g->first; /* what it became may be fused too */
	}
	return true;
}

bool gg_write_onnx(gg_diag *d, gg_buf *b, gg_model *m)
{
	static const char *const domains[] = {"ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft"};
	static const int versions[] = {4, 1, 1};
	writer w = {.d = d, .b = b, .m = m, .opset = BASE};
	if (b->len)
		return gg_error(d, GG_UNSUPPORTED, "an ONNX file holds one graph, the input has several");
	if (m->main->nstate)
		return gg_error(d, GG_UNSUPPORTED, "the graph updates state '%s', which ONNX has no form for",
		                m->main->state[0]->param->name);
	bool good = expand_graph(d, m->main) && note_graph(&w, m->main);
	for (size_t i = 0; i < m->main->nin; i++)
		give_name(&w, m->main->in[i]);
	for (size_t i = 0; i < m->main->nout; i++)
		give_name(&w, m->main->out[i]->value);
	if (good) {
		put_int(b, 1, ir_version(w.opset));
		put_str(b, 2, "gg");
		put_str(b, 3, gg_version);
		good = put_graph(&w, 7, m->main);
		put_opset(b, "", w.opset);
		for (int i = 0; i < 3; i++)
			if (gg_map_gets(&w.domains, domains[i]))
				put_opset(b, domains[i], versions[i]);
	}
	gg_map_fini(&w.names);
	gg_map_fini(&w.used);
	gg_map_fini(&w.nodes);
	gg_map_fini(&w.domains);
	gg_arena_fini(&w.a);
	return good;
}
