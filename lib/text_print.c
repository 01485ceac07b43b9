/* The text form, written: text_read.c in the same order. docs/graph.md has the grammar.
 *
 * Ids are printed only where they are not the ones that reading would give: everything takes the
 * next id in order of the text, a node after its bodies and its outputs. */
#include "op.h"
#include "stream.h"
#include "text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct printer {
	gg_diag *d;
	gg_buf *b;
	int64_t elide;
	bool full; /* ids, places in memory, locations: all that a line for people leaves out */
	uint32_t next_id;
	bool new_ids;
	int indent;
	bool failed;
} printer;

static void print_graph(printer *p, const gg_graph *g);

/* ---- words and numbers ----------------------------------------------------------------------- */
static void put(printer *p, const char *s) { gg_buf_str(p->b, s); }

static void put_int(gg_buf *b, int64_t x)
{
	char s[24], *e = s + sizeof s, *q = e;
	uint64_t u = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
	do
		*--q = (char)('0' + u % 10);
	while (u /= 10);
	if (x < 0)
		*--q = '-';
	gg_buf_add(b, q, (size_t)(e - q));
}

static void put_quoted(gg_buf *b, const char *s)
{
	gg_buf_add(b, "\"", 1);
	while (*s) {
		size_t n = 0;
		while (s[n] && s[n] != '"' && s[n] != '\\' && (unsigned char)s[n] >= ' ' && s[n] != 127)
			n++;
		gg_buf_add(b, s, n);
		s += n;
		if (!*s)
			break;
		if (*s == '"' || *s == '\\')
			gg_buf_printf(b, "\\%c", *s);
		else if (*s == '\n')
			gg_buf_str(b, "\\n");
		else
			gg_buf_printf(b, "\\x%02x", (unsigned char)*s);
		s++;
	}
	gg_buf_add(b, "\"", 1);
}

static bool is_plain(const char *s)
{
	const char *e = s;
	while (gg_text_name_char(*e))
		e++;
	return e > s && !*e && strcmp(s, "_");
}

static void put_name(gg_buf *b, const char *s)
{
	gg_buf_add(b, "%", 1);
	if (is_plain(s))
		gg_buf_str(b, s);
	else
		put_quoted(b, s);
}

/* A bare word where it can be one, as in kernel=cpu_conv. */
static void put_word(gg_buf *b, const char *s)
{
	if (is_plain(s))
		gg_buf_str(b, s);
	else
		put_quoted(b, s);
}

/* Digits q, scaled by 10^-k, as 12.5, 0.00125 or 1.25e-07. */
static void put_decimal(gg_buf *b, bool minus, uint64_t q, int k)
{
	char s[24], t[64], *o = t;
	while (q && q % 10 == 0) {
		q /= 10;
		k--;
	}
	int n = snprintf(s, sizeof s, "%llu", (unsigned long long)q), point = n - k;
	if (minus)
		*o++ = '-';
	if (point > 16 || point < -3) {
		*o++ = s[0];
		if (n > 1)
			*o++ = '.';
		memcpy(o, s + 1, (size_t)n - 1);
		o += n - 1;
		o += sprintf(o, "e%c%02d", point > 0 ? '+' : '-', abs(point - 1));
	} else if (point <= 0) {
		o += sprintf(o, "0.%.*s%s", -point, "000", s);
	} else {
		for (int i = 0; i < n || i < point; i++) {
			if (i == point)
				*o++ = '.';
			*o++ = i < n ? s[i] : '0';
		}
	}
	gg_buf_add(b, t, (size_t)(o - t));
}

static bool reads_back(gg_dtype t, double x, double back)
{
	char p[8] = {0}, q[8] = {0};
	gg_store_f64(t, p, 0, 1, &x);
	gg_store_f64(t, q, 0, 1, &back);
	return !memcmp(p, q, sizeof p);
}

/* The fewest digits, nearly, that reading gives the same bits for. x is finite. */
static void put_double(gg_buf *b, gg_dtype t, double x)
{
	double v = fabs(x);
	int max = t == GG_F64 ? 17 : t == GG_F32 ? 9 : 6, e, bits;
	if (v == 0 || (v < 1e15 && v == floor(v))) {
		gg_buf_add(b, "-", signbit(x) ? 1 : 0);
		put_int(b, (int64_t)v);
		return;
	}
	frexp(v, &bits);
	e = (int)floor((bits - 1) * 0.30102999566398120);
	for (int digits = t == GG_F64 ? 15 : t == GG_F32 ? 6 : 2; digits <= max; digits++) {
		int k = digits - 1 - e;
		if (k < -GG_TEXT_POW10 || k > GG_TEXT_POW10)
			break;
		double q = rint(k < 0 ? v / gg_text_pow10[-k] : v * gg_text_pow10[k]);
		if (q >= 0x1p53)
			break;
		double back = k < 0 ? q * gg_text_pow10[-k] : q / gg_text_pow10[k];
		if (reads_back(t, v, back)) {
			put_decimal(b, x < 0, (uint64_t)q, k);
			return;
		}
	}
	char s[40];
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(s, sizeof s, "%.*e", digits - 1, x);
		if (reads_back(t, x, strtod(s, NULL)))
			break;
	}
	char *at = strchr(s, 'e');
	uint64_t q = 0;
	int frac = 0;
	bool point = false;
	for (char *c = s; c < at; c++) {
		if (*c == '.') {
			point = true;
		} else if (*c != '-') {
			q = q * 10 + (uint64_t)(*c - '0');
			frac += point;
		}
	}
	put_decimal(b, x < 0, q, frac - atoi(at + 1));
}

/* A float of any width from its bits: a NaN other than the usual one is written as them. */
static void put_float(gg_buf *b, gg_dtype t, const void *bits)
{
	double x, usual = NAN;
	char q[8] = {0};
	uint64_t u = 0;
	gg_load_f64(t, bits, 0, 1, &x);
	if (isinf(x)) {
		gg_buf_str(b, x < 0 ? "-inf" : "inf");
	} else if (!isnan(x)) {
		put_double(b, t, x);
	} else {
		size_t n = gg_dtype_size(t);
		gg_store_f64(t, q, 0, 1, &usual);
		memcpy(&u, bits, n);
		if (memcmp(q, bits, n))
			gg_buf_printf(b, "0x%0*llx", (int)(2 * n), (unsigned long long)u);
		else
			gg_buf_str(b, "nan");
	}
}

/* ---- types and data ---------------------------------------------------------------------------- */
static void put_type(gg_buf *b, gg_dtype t, const gg_shape *s)
{
	gg_buf_str(b, t ? gg_dtype_name(t) : "?");
	gg_buf_str(b, s->rank < 0 ? "[*" : "[");
	for (int i = 0; i < s->rank; i++) {
		if (i)
			gg_buf_add(b, ",", 1);
		if (gg_dim_known(s->dim[i]))
			put_int(b, s->dim[i]);
		else
			gg_buf_str(b, gg_dim_str(s->dim[i]));
	}
	gg_buf_add(b, "]", 1);
}

/* Element i of memory-form data; 4-bit data may be packed. */
static void put_element(gg_buf *b, gg_dtype t, const char *data, int64_t i, bool packed)
{
	const char *at = data + (packed && gg_dtype_bits(t) == 4 ? i / 2 : i * (int64_t)gg_dtype_size(t));
	uint8_t byte = *(const uint8_t *)at;
	uint64_t u;
	int64_t x;
	char one[8];
	switch (gg_dtype_class(t)) {
	case 'S':
		put_quoted(b, ((const char *const *)(const void *)data)[i]);
		return;
	case 'B':
		if (byte > 1)
			gg_buf_printf(b, "0x%02x", byte);
		else
			gg_buf_str(b, byte ? "true" : "false");
		return;
	case 'C':
		gg_buf_add(b, "(", 1);
		put_float(b, GG_F32, memcpy(one, at, 4));
		gg_buf_add(b, ", ", 2);
		put_float(b, GG_F32, memcpy(one, at + 4, 4));
		gg_buf_add(b, ")", 1);
		return;
	case 'F':
		put_float(b, t, memcpy(one, at, gg_dtype_size(t)));
		return;
	}
	if (gg_dtype_bits(t) == 4 && packed) {
		one[0] = (char)(byte >> (i % 2 * 4));
		x = one[0];
		gg_store_i64(t, one, 0, 1, &x);
	} else {
		memcpy(one, at, gg_dtype_size(t));
	}
	gg_load_i64(t, one, 0, 1, &x);
	memcpy(&u, &x, 8);
	if (t == GG_U64 && x < 0)
		gg_buf_printf(b, "%llu", (unsigned long long)u);
	else
		put_int(b, x);
}

static void put_elements(gg_buf *b, gg_dtype t, const gg_shape *s, const void *data, bool packed)
{
	int64_t n = gg_shape_count(s);
	if (s->rank == 0 && n == 1) {
		put_element(b, t, data, 0, packed);
		return;
	}
	gg_buf_add(b, "[", 1);
	for (int64_t i = 0; i < n; i++) {
		if (i)
			gg_buf_add(b, ", ", 2);
		put_element(b, t, data, i, packed);
	}
	gg_buf_add(b, "]", 1);
}

static void put_data(printer *p, const gg_value *v)
{
	static const char *const fills[] = {"zeros", "ones", "normal", "uniform"};
	const gg_data *x = v->data;
	int64_t n = gg_shape_count(&v->shape);
	switch (x->kind) {
	case GG_DATA_FILL:
		put(p, fills[x->fill]);
		if (x->fill != GG_FILL_NORMAL && x->fill != GG_FILL_UNIFORM)
			return;
		gg_buf_printf(p->b, "(%llu, ", (unsigned long long)x->seed);
		put_float(p->b, GG_F64, &x->a);
		put(p, ", ");
		put_float(p->b, GG_F64, &x->b);
		put(p, ")");
		return;
	case GG_DATA_FILE:
		put(p, "file(");
		put_quoted(p->b, x->file);
		gg_buf_printf(p->b, ", %lld, %lld, %lld, %lld", (long long)x->off, (long long)x->len,
		              (long long)x->size, (long long)x->mtime);
		if (x->hash) {
			put(p, ", ");
			put_quoted(p->b, x->hash);
		}
		put(p, ")");
		return;
	case GG_DATA_INLINE:
		if (p->elide < 0 || n <= p->elide)
			put_elements(p->b, v->dtype, &v->shape, x->bytes, true);
		else
			gg_buf_printf(p->b, "elided(%lld, %016llx)", (long long)n,
			              (unsigned long long)gg_hash(x->bytes, (size_t)x->len, 0));
	}
}

/* ---- attributes -------------------------------------------------------------------------------- */
static void put_signature(printer *p, const gg_graph *g);

static void put_body(printer *p, const gg_graph *g)
{
	put(p, "graph");
	if (g->name) {
		put(p, " ");
		put_quoted(p->b, g->name);
	}
	put_signature(p, g);
	put(p, " {\n");
	p->indent++;
	print_graph(p, g);
	p->indent--;
	gg_buf_printf(p->b, "%*s}", 2 * p->indent, "");
}

static void put_attr(printer *p, const gg_attr *a)
{
	gg_buf *b = p->b;
	bool list = a->type == GG_ATTR_INTS || a->type == GG_ATTR_FLOATS || a->type == GG_ATTR_STRINGS;
	switch (a->type) {
	case GG_ATTR_INT:
		put_int(b, a->i);
		break;
	case GG_ATTR_FLOAT:
		put_float(b, GG_F32, &a->f);
		break;
	case GG_ATTR_STRING:
		put_quoted(b, a->s);
		break;
	case GG_ATTR_DTYPE:
		put(p, gg_dtype_name(a->dtype));
		break;
	case GG_ATTR_TENSOR:
		put_type(b, a->tensor->dtype, &a->tensor->shape);
		put(p, " = ");
		put_elements(b, a->tensor->dtype, &a->tensor->shape, a->tensor->data, false);
		break;
	case GG_ATTR_GRAPH:
		put_body(p, a->graph);
		break;
	default:
		break;
	}
	if (!list)
		return;
	put(p, "[");
	for (int i = 0; i < a->n; i++) {
		put(p, i ? ", " : "");
		if (a->type == GG_ATTR_INTS)
			put_int(b, a->ints[i]);
		else if (a->type == GG_ATTR_FLOATS)
			put_float(b, GG_F32, &a->floats[i]);
		else
			put_quoted(b, a->strings[i]);
	}
	put(p, "]");
}

static void put_attrs(printer *p, const gg_node *n)
{
	if (!n->nattr)
		return;
	put(p, " {");
	for (int i = 0; i < n->nattr; i++) {
		put(p, i ? ", " : "");
		put_word(p->b, n->attr[i].name);
		put(p, "=");
		put_attr(p, &n->attr[i]);
	}
	put(p, "}");
}

/* ---- notes: what stands in <...> behind a type or an op -------------------------------------------- */
static void note(printer *p, int *count, const char *key)
{
	put(p, (*count)++ ? ", " : "<");
	put(p, key);
	put(p, "=");
}

static void note_id(printer *p, int *count, uint32_t id)
{
	if (p->full && !p->new_ids && id != p->next_id) {
		note(p, count, "id");
		put_int(p->b, id);
	}
	p->next_id = id + 1;
}

static void put_json(printer *p, const gg_extra *x)
{
	p->failed = p->failed || !gg_msgpack_to_json(p->d, p->b, x->bytes, x->len);
}

static void note_extra(printer *p, int *count, const gg_extra *x)
{
	for (; x && p->full; x = x->next) {
		put(p, (*count)++ ? ", " : "<");
		put_quoted(p->b, x->key);
		put(p, "=");
		put_json(p, x);
	}
}

static void end_notes(printer *p, int count) { put(p, count ? ">" : ""); }

static void put_value_type(printer *p, const gg_value *v)
{
	int count = 0;
	put_type(p->b, v->dtype, &v->shape);
	note_id(p, &count, v->id);
	if (v->layout) {
		note(p, &count, "layout");
		put(p, gg_layout_name(v->layout));
	}
	if (p->full && (v->mem_off != -1 || v->mem_len != -1)) {
		note(p, &count, "mem");
		put_int(p->b, v->mem_off);
		put(p, "+");
		put_int(p->b, v->mem_len);
	}
	if (p->full && v->alias) {
		note(p, &count, "alias");
		put_name(p->b, v->alias->name);
	}
	note_extra(p, &count, v->extra);
	end_notes(p, count);
}

/* A control predecessor by its first output, or by id where it has none. */
static void put_node_ref(printer *p, const gg_node *n)
{
	for (int i = 0; i < n->nout; i++) {
		if (n->out[i]) {
			put_name(p->b, n->out[i]->name);
			return;
		}
	}
	put(p, "@");
	put_int(p->b, n->id);
}

static void put_node_notes(printer *p, const gg_node *n)
{
	int count = 0;
	note_id(p, &count, n->id);
	if (n->kernel) {
		note(p, &count, "kernel");
		put_word(p->b, n->kernel);
	}
	if (n->stream) {
		note(p, &count, "stream");
		put_int(p->b, n->stream);
	}
	if (n->nafter) {
		note(p, &count, "after");
		for (int i = 0; i < n->nafter; i++) {
			put(p, i ? ", " : "[");
			put_node_ref(p, n->after[i]);
		}
		put(p, "]");
	}
	note_extra(p, &count, n->extra);
	end_notes(p, count);
}

/* ---- lines --------------------------------------------------------------------------------------- */
static void put_list(printer *p, const gg_node *n, int from, int to)
{
	for (int i = from; i < to; i++) {
		put(p, i > from ? ", " : "");
		if (n->in[i].value)
			put_name(p->b, n->in[i].value->name);
		else
			put(p, "_");
	}
}

/* Ids are counted in the order of reading: bodies, outputs, node. The outputs' types and the node's
 * notes stand elsewhere, so each part is printed on its own and put together. */
static void put_node(printer *p, const gg_node *n)
{
	gg_buf *line = p->b, attrs = {0}, types = {0}, notes = {0};
	p->b = &attrs;
	put_attrs(p, n);
	p->b = &types;
	for (int i = 0; i < n->nout; i++) {
		put(p, i ? ", " : " : ");
		if (n->out[i])
			put_value_type(p, n->out[i]);
		else
			put(p, "_");
	}
	p->b = &notes;
	put_node_notes(p, n);
	p->b = line;
	for (int i = 0; i < n->nout; i++) {
		put(p, i ? ", " : "");
		if (n->out[i])
			put_name(p->b, n->out[i]->name);
		else
			put(p, "_");
	}
	put(p, n->nout ? " = " : "");
	put(p, n->op->name);
	gg_buf_add(line, notes.p, notes.len);
	put(p, "(");
	put_list(p, n, 0, gg_nargs(n));
	put(p, n->ncap ? "; " : "");
	put_list(p, n, gg_nargs(n), n->nin);
	put(p, ")");
	gg_buf_add(line, attrs.p, attrs.len);
	gg_buf_add(line, types.p, types.len);
	gg_buf_fini(&attrs);
	gg_buf_fini(&types);
	gg_buf_fini(&notes);
}

static void put_loc(printer *p, const gg_node *n)
{
	if (!n->nloc || !p->full)
		return;
	put(p, "  #@");
	for (int i = 0; i < n->nloc; i++) {
		put(p, " ");
		put_quoted(p->b, n->loc[i] ? n->loc[i] : "");
	}
}

static void put_signature(printer *p, const gg_graph *g)
{
	put(p, "(");
	for (size_t i = 0; i < g->nin; i++) {
		put(p, i ? ", " : "");
		put_name(p->b, g->in[i]->name);
		put(p, " : ");
		put_value_type(p, g->in[i]);
	}
	put(p, ")");
}

static void start_line(printer *p, const char *word)
{
	for (int i = 0; i < p->indent; i++)
		put(p, "  ");
	put(p, word);
}

static void print_inputs(printer *p, const gg_graph *g)
{
	for (size_t i = 0; i < g->nin; i++) {
		start_line(p, "input ");
		put_name(p->b, g->in[i]->name);
		put(p, " : ");
		put_value_type(p, g->in[i]);
		put(p, "\n");
	}
}

static void print_extra(printer *p, const char *word, const gg_extra *x)
{
	for (; x; x = x->next) {
		start_line(p, word);
		put_quoted(p->b, x->key);
		put(p, " ");
		put_json(p, x);
		put(p, "\n");
	}
}

/* What both the main graph and a body have behind their inputs. */
static void print_graph(printer *p, const gg_graph *g)
{
	for (const gg_value *v = g->consts; v; v = v->next_const) {
		start_line(p, v->kind == GG_PARAM ? "param " : "const ");
		put_name(p->b, v->name);
		put(p, " : ");
		put_value_type(p, v);
		put(p, " = ");
		put_data(p, v);
		int count = 0;
		note_extra(p, &count, v->data->extra);
		end_notes(p, count);
		put(p, "\n");
	}
	for (const gg_node *n = g->first; n; n = n->next) {
		start_line(p, "");
		put_node(p, n);
		put_loc(p, n);
		put(p, "\n");
	}
	for (size_t i = 0; i < g->nout; i++) {
		start_line(p, "output ");
		put_name(p->b, g->out[i]->value->name);
		put(p, "\n");
	}
	for (size_t i = 0; i < g->nstate; i++) {
		start_line(p, "state ");
		put_name(p->b, g->state[i]->param->name);
		put(p, " <- ");
		put_name(p->b, g->state[i]->final.value->name);
		put(p, "\n");
	}
	if (!p->full)
		return;
	print_extra(p, "also ", g->extra);
	print_extra(p, "record ", g->records);
}

static void print_header(printer *p, const gg_model *m)
{
	const struct {
		const char *word, *text;
	} rows[] = {{"graph", m->name}, {"stage", m->stage}, {"target", m->target}, {"base", m->base}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		if (i && !rows[i].text)
			continue;
		put(p, rows[i].word);
		put(p, rows[i].text ? " " : "");
		if (rows[i].text)
			put_quoted(p->b, rows[i].text);
		put(p, "\n");
	}
	for (size_t i = 0; i < m->nhistory; i++) {
		put(p, "history");
		for (int k = 0; k < m->history[i].n; k++) {
			put(p, " ");
			put_quoted(p->b, m->history[i].word[k]);
		}
		put(p, "\n");
	}
}

/* ---- entry points ---------------------------------------------------------------------------------- */
bool gg_write_text(gg_diag *d, gg_buf *b, gg_model *m, const gg_text_options *o)
{
	printer p = {.d = d, .b = b, .elide = o ? o->elide : -1, .full = true, .next_id = 1};
	p.new_ids = o && o->new_ids;
	print_header(&p, m);
	print_extra(&p, "meta ", m->extra);
	print_inputs(&p, m->main);
	print_graph(&p, m->main);
	print_extra(&p, "record ", m->records);
	print_extra(&p, "blob ", m->blobs);
	return !p.failed;
}

void gg_print_attr(gg_buf *b, const gg_attr *a)
{
	gg_diag d = {.silent = true};
	printer p = {.d = &d, .b = b, .elide = -1};
	put_attr(&p, a);
}

void gg_print_node(gg_buf *b, const gg_node *n)
{
	gg_diag d = {.silent = true};
	printer p = {.d = &d, .b = b, .elide = 16};
	put_node(&p, n);
}
