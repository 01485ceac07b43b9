/* gg-parse: a model file becomes a graph stream. */
#include "onnx.h"
#include <stdlib.h>
#include <string.h>

enum { FORMAT = 1, SHAPE, EMBED, HASH };

static const gg_option options[] = {
    {FORMAT, "format", 0, "NAME", "onnx, text or json; without it the file itself says"},
    {SHAPE, "shape", 0, "INPUT=N,...", "give an input this shape (1,3,224,224); may be repeated"},
    {EMBED, "embed", 0, 0, "put the weights into the stream"},
    {HASH, "hash", 0, 0, "add a hash of the contents to each reference to a weights file"},
    {0},
};

typedef struct parse {
	gg_tool t;
	const char *format;
	onnx_shape *shape;
	size_t nshape, cap_shape;
	bool embed, hash;
	gg_arena a;
	gg_buf out;
} parse;

/* ---- options ----------------------------------------------------------------------------------- */
static void add_shape(parse *p, const char *given)
{
	size_t n, quoted = *given == '\'' ? strcspn(given + 1, "'") + 1 : 0;
	const char *eq = strchr(given + quoted, '=');
	onnx_shape s = {.shape = gg_shape_of(0, NULL)};
	if (!eq || eq == given)
		gg_usage(&p->t, "--shape takes INPUT=N,..., not '%s'", given);
	s.input = gg_intern(gg_unquote(&p->a, gg_strndup(&p->a, given, (size_t)(eq - given))));
	char **dim = gg_split(&p->a, eq + 1, ',', &n);
	if (n > GG_MAX_RANK)
		gg_usage(&p->t, "--shape: '%s' gets rank %zu, at most %d is supported", s.input, n,
		         GG_MAX_RANK);
	for (size_t i = 0; eq[1] && i < n; i++) {
		int64_t size;
		if (!gg_parse_int(dim[i], &size) || size < 0)
			gg_usage(&p->t, "--shape: '%s' is no size", dim[i]);
		s.shape.dim[s.shape.rank++] = size;
	}
	GG_PUSH(p->shape, p->nshape, p->cap_shape, s);
}

static void read_options(parse *p, int argc, char **argv)
{
	static const char *const formats[] = {"onnx", "text", "json", "mindir", 0};
	int id, i = 0;
	gg_args_start(&p->t, argc, argv);
	while ((id = gg_args_next(&p->t)))
		switch (id) {
		case FORMAT:
			p->format = p->t.value;
			for (i = 0; formats[i] && strcmp(formats[i], p->format); i++)
				;
			if (!formats[i])
				gg_usage(&p->t, "--format: there is no '%s'; onnx, text and json are",
				         p->format);
			break;
		case SHAPE:
			add_shape(p, p->t.value);
			break;
		case EMBED:
			p->embed = true;
			break;
		case HASH:
			p->hash = true;
			break;
		}
}

/* ---- what came in -------------------------------------------------------------------------------- */
static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);
	return n >= k && !strcmp(s + n - k, end);
}

/* An ONNX file begins with its IR version, field 1; a stream with an array of two. */
static const char *sniff(const gg_source *s)
{
	size_t i = 0;
	if (ends_with(s->name, ".onnx") || ends_with(s->name, ".onnx.pb"))
		return "onnx";
	if (s->len && (*s->p == 0x08 || *s->p == 0x3a))
		return "onnx";
	if (s->len && (unsigned char)*s->p == 0x92)
		return "stream";
	while (i < s->len && strchr(" \t\r\n", s->p[i]))
		i++;
	return i < s->len && s->p[i] == '[' ? "json" : "text";
}

/* --shape for formats whose dims are read as they stand. */
static bool give_shapes(parse *p, gg_model *m)
{
	gg_binding *bind = NULL;
	size_t nbind = 0, cap = 0;
	bool good = true;
	for (size_t i = 0; i < p->nshape && good; i++) {
		const onnx_shape *s = &p->shape[i];
		gg_value *v = gg_find_value(m->main, s->input);
		if (!v || v->kind != GG_INPUT)
			good = gg_error(&p->t.d, GG_USAGE, "--shape names '%s', which is no input", s->input);
		else if (v->shape.rank < 0)
			v->shape = s->shape;
		else if (v->shape.rank != s->shape.rank)
			good = gg_error(&p->t.d, GG_USAGE, "input '%s' has rank %d, --shape gives it %d",
			                s->input, v->shape.rank, s->shape.rank);
		for (int k = 0; good && k < v->shape.rank; k++) {
			gg_dim is = v->shape.dim[k], want = s->shape.dim[k];
			gg_binding b = {gg_dim_symbol(is), want};
			if (gg_dim_known(is) ? is != want : !b.sym)
				good = gg_error(&p->t.d, GG_USAGE,
				                "input '%s' has size %s in axis %d, --shape gives it %lld",
				                s->input, gg_dim_str(is), k, (long long)want);
			else if (!gg_dim_known(is))
				GG_PUSH(bind, nbind, cap, b);
		}
	}
	if (good && p->nshape) {
		gg_bind(m, bind, nbind);
		good = gg_infer_graph(&p->t.d, m->main);
	}
	free(bind);
	return good;
}

/* ---- what goes out ------------------------------------------------------------------------------- */
static bool add_hashes(parse *p, gg_model *m)
{
	for (gg_graph *g = m->graphs; g; g = g->next_graph)
		for (gg_value *v = g->consts; v; v = v->next_const) {
			const void *bytes;
			int64_t len;
			if (v->data->kind != GG_DATA_FILE)
				continue;
			if (!gg_data_bytes(&p->t.d, m, v, &bytes, &len))
				return false;
			v->data->hash = gg_intern(
			    gg_printf(&p->a, "%016llx", (unsigned long long)gg_hash(bytes, (size_t)len, 0)));
		}
	return true;
}

static bool finish(parse *p, gg_model *m)
{
	if (p->embed && !gg_embed(&p->t.d, m))
		return false;
	return (!p->hash || add_hashes(p, m)) && gg_finish_model(&p->t, &p->out, m);
}

/* Folding keeps what a small constant says; large ones are left to the pass fold_constants. */
enum { FOLD_LIMIT = 1024 };

static bool fold(gg_diag *d, gg_graph *g)
{
	size_t folded;
	for (gg_node *n = g->first; n; n = n->next)
		for (int i = 0; gg_body(n, i); i++)
			if (!fold(d, gg_body(n, i)))
				return false;
	return gg_fold_constants(d, g, FOLD_LIMIT, SIZE_MAX, &folded);
}

static bool from_onnx(parse *p, const gg_source *s)
{
	onnx_options o = {.path = s->mapped && strcmp(s->name, "<stdin>") ? s->name : NULL,
	                  .shape = p->shape,
	                  .nshape = p->nshape,
	                  .allow_outside = p->t.allow_outside};
	gg_model *m = onnx_import(&p->t.d, s, &o);
	bool good = m && gg_prepare_model(&p->t, m) && gg_write_out(&p->t.d, m->main) &&
	            fold(&p->t.d, m->main) && finish(p, m);
	gg_done_with(&p->t, m);
	return good;
}

typedef int reader(gg_diag *d, gg_source *s, gg_model **out);

static bool from_text(parse *p, gg_source *s, reader *read)
{
	gg_model *m;
	int got;
	bool asked = p->embed || p->hash || p->nshape || p->t.nbind;
	while ((got = read(&p->t.d, s, &m)) > 0) {
		bool good = gg_prepare_model(&p->t, m) && give_shapes(p, m);
		/* A graph that another stage wrote, and that stays as it is, gets no new history. */
		if (good && m->nhistory && !asked)
			good = gg_check(&p->t.d, m) && gg_write(&p->t.d, &p->out, m);
		else
			good = good && finish(p, m);
		gg_done_with(&p->t, m);
		if (!good)
			return false;
	}
	return got == 0;
}

static bool parse_source(parse *p, gg_source *s)
{
	const char *format = p->format ? p->format : sniff(s);
	if (!strcmp(format, "onnx"))
		return from_onnx(p, s);
	if (!strcmp(format, "mindir"))
		return gg_error(&p->t.d, GG_UNSUPPORTED,
		                "format 'mindir' is not supported; onnx, text and json are");
	/* Another form of a graph is the same graph: gg-dump | gg-parse | gg-dump gives the same text. */
	p->t.unrecorded = !p->t.nbind && !p->nshape && !p->embed && !p->hash;
	return from_text(p, s,
	                 !strcmp(format, "json")   ? gg_read_json
	                 : !strcmp(format, "text") ? gg_read_text
	                                           : gg_read);
}

int main(int argc, char **argv)
{
	static parse p = {.t = {.name = "gg-parse",
	                        .summary = "read a model and write it as a graph stream",
	                        .operands = "[FILE]...",
	                        .options = options,
	                        .examples = "  gg-parse resnet50.onnx | gg-opt | gg-run\n"
	                                    "  gg-parse --bind batch=8 model.onnx | gg-dump\n"
	                                    "  gg-parse --shape x=1,3,224,224 model.onnx | gg-dump --stats\n"
	                                    "  gg-dump graph.gg | sed s/Relu/Tanh/ | gg-parse -o tanh.gg\n",
	                        .built_with = "nanopb, msgpack-c"}};
	read_options(&p, argc, argv);
	bool good = gg_stdout_ok(&p.t);
	for (size_t i = 0; good && i < p.t.nfile; i++) {
		gg_source s;
		good = gg_open(&p.t, &s, p.t.file[i]);
		if (!good)
			break;
		p.t.d.where = s.name;
		good = parse_source(&p, &s);
		p.t.d.where = NULL;
		gg_source_close(&s);
	}
	if (good)
		gg_emit(&p.t, &p.out);
	int status = gg_finish(&p.t);
	gg_done_with(&p.t, 0);
	gg_buf_fini(&p.out);
	gg_arena_fini(&p.a);
	free(p.shape);
	return status;
}
