/* A model as its records: the mirror of load.c, key for key. */
#include "op.h"
#include "pack.h"
#include <stdlib.h>
#include <string.h>

typedef struct save {
	gg_diag *d;
	gg_writer w;
	gg_model *m;
	size_t records;
	gg_map ids; /* of what is written, when an unknown record may name one */
} save;

static inline void put_record(save *s, const char *tag, size_t keys)
{
	s->records++;
	gg_put_array(&s->w, 2);
	gg_put_str(&s->w, tag);
	gg_put_map(&s->w, keys);
}

static inline void put_key_str(save *s, const char *key, const char *x)
{
	gg_put_str(&s->w, key);
	gg_put_str(&s->w, x);
}

static inline void put_key_int(save *s, const char *key, int64_t x)
{
	gg_put_str(&s->w, key);
	gg_put_int(&s->w, x);
}

static void put_id(save *s, const gg_value *v)
{
	if (v)
		gg_put_int(&s->w, v->id);
	else
		gg_put_nil(&s->w);
}

static size_t count_extra(const gg_extra *x)
{
	size_t n = 0;
	for (; x; x = x->next)
		n++;
	return n;
}

static void put_extra(save *s, const gg_extra *x)
{
	for (; x; x = x->next) {
		gg_put_str(&s->w, x->key);
		gg_put_raw(&s->w, x->bytes, x->len);
	}
}

/* ---- value -------------------------------------------------------------------------------- */
static void put_shape(save *s, const gg_shape *shape)
{
	gg_put_array(&s->w, (size_t)shape->rank);
	for (int i = 0; i < shape->rank; i++) {
		if (gg_dim_known(shape->dim[i]))
			gg_put_int(&s->w, shape->dim[i]);
		else
			gg_put_str(&s->w, gg_dim_str(shape->dim[i]));
	}
}

static void save_value(save *s, const gg_value *v)
{
	static const char *const kinds[] = {"input", "param", "const", "temp"};
	bool shape = v->shape.rank >= 0, mem = v->mem_len >= 0;
	put_record(s, "value",
	           3u + (v->dtype != GG_NONE) + shape + (v->layout != GG_PLAIN) + mem + !!v->alias +
	               count_extra(v->extra));
	put_key_int(s, "id", v->id);
	put_key_str(s, "name", v->name);
	put_key_str(s, "kind", kinds[v->kind]);
	if (v->dtype)
		put_key_str(s, "dtype", gg_dtype_name(v->dtype));
	if (shape) {
		gg_put_str(&s->w, "shape");
		put_shape(s, &v->shape);
	}
	if (v->layout != GG_PLAIN)
		put_key_str(s, "layout", gg_layout_name(v->layout));
	if (mem) {
		gg_put_str(&s->w, "mem");
		gg_put_array(&s->w, 2);
		gg_put_int(&s->w, v->mem_off);
		gg_put_int(&s->w, v->mem_len);
	}
	if (v->alias)
		put_key_int(s, "alias", v->alias->id);
	put_extra(s, v->extra);
}

/* ---- data --------------------------------------------------------------------------------- */
static void save_file(save *s, const gg_value *v)
{
	const gg_data *x = v->data;
	put_record(s, "data", 6u + !!x->hash + count_extra(x->extra));
	put_key_int(s, "id", v->id);
	put_key_str(s, "file", x->file);
	put_key_int(s, "off", x->off);
	put_key_int(s, "len", x->len);
	put_key_int(s, "size", x->size);
	put_key_int(s, "mtime", x->mtime);
	if (x->hash)
		put_key_str(s, "hash", x->hash);
	put_extra(s, x->extra);
}

static void save_fill(save *s, const gg_value *v)
{
	static const char *const fills[] = {"zeros", "ones", "normal", "uniform"};
	const gg_data *x = v->data;
	bool random = x->fill == GG_FILL_NORMAL || x->fill == GG_FILL_UNIFORM;
	put_record(s, "data", 2u + 3 * random + count_extra(x->extra));
	put_key_int(s, "id", v->id);
	put_key_str(s, "fill", fills[x->fill]);
	if (random) {
		gg_put_str(&s->w, "seed");
		gg_put_u64(&s->w, x->seed);
		gg_put_str(&s->w, "a");
		gg_put_f64(&s->w, x->a);
		gg_put_str(&s->w, "b");
		gg_put_f64(&s->w, x->b);
	}
	put_extra(s, x->extra);
}

static void put_strings(save *s, const char *const *p, int64_t n)
{
	gg_put_array(&s->w, (size_t)n);
	for (int64_t i = 0; i < n; i++)
		gg_put_str(&s->w, p[i]);
}

static void save_bytes(save *s, const gg_value *v)
{
	const gg_data *x = v->data;
	int64_t off = 0;
	do {
		int64_t n = x->len - off < GG_LIMIT_CHUNK ? x->len - off : GG_LIMIT_CHUNK;
		put_record(s, "data", 3 + (off ? 0 : count_extra(x->extra)));
		put_key_int(s, "id", v->id);
		put_key_int(s, "off", off);
		gg_put_str(&s->w, "bytes");
		gg_put_bin(&s->w, (const char *)x->bytes + off, (size_t)n);
		if (!off)
			put_extra(s, x->extra);
		off += n;
	} while (off < x->len);
}

static void save_data(save *s, const gg_value *v)
{
	switch (v->data->kind) {
	case GG_DATA_FILE:
		save_file(s, v);
		break;
	case GG_DATA_FILL:
		save_fill(s, v);
		break;
	case GG_DATA_INLINE:
		if (v->dtype != GG_STRING) {
			save_bytes(s, v);
			break;
		}
		put_record(s, "data", 2 + count_extra(v->data->extra));
		put_key_int(s, "id", v->id);
		gg_put_str(&s->w, "strings");
		put_strings(s, v->data->bytes, gg_shape_count(&v->shape));
		put_extra(s, v->data->extra);
	}
}

/* ---- attributes --------------------------------------------------------------------------- */
static void save_body(save *s, const gg_graph *g);

static void put_tensor(save *s, const gg_tensor *t)
{
	int64_t n = gg_count(t);
	gg_put_map(&s->w, 3);
	put_key_str(s, "dtype", gg_dtype_name(t->dtype));
	gg_put_str(&s->w, "shape");
	put_shape(s, &t->shape);
	if (t->dtype == GG_STRING) {
		gg_put_str(&s->w, "strings");
		put_strings(s, t->data, n);
		return;
	}
	size_t len = gg_packed_bytes(t->dtype, n);
	gg_put_str(&s->w, "bytes");
	if (gg_dtype_bits(t->dtype) != 4) {
		gg_put_bin(&s->w, t->data, len);
		return;
	}
	unsigned char *packed = gg_xcalloc(len, 1);
	for (int64_t i = 0; i < n; i++)
		packed[i / 2] |= (unsigned char)((((const unsigned char *)t->data)[i] & 15) << (i % 2 * 4));
	gg_put_bin(&s->w, packed, len);
	free(packed);
}

static void put_wrapper(save *s, const char *key)
{
	gg_put_map(&s->w, 1);
	gg_put_str(&s->w, key);
}

static void save_attr(save *s, const gg_attr *a)
{
	gg_put_str(&s->w, a->name);
	switch (a->type) {
	case GG_ATTR_INT:
		gg_put_int(&s->w, a->i);
		break;
	case GG_ATTR_FLOAT:
		gg_put_f32(&s->w, a->f);
		break;
	case GG_ATTR_STRING:
		gg_put_str(&s->w, a->s);
		break;
	case GG_ATTR_INTS:
		gg_put_array(&s->w, (size_t)a->n);
		for (int i = 0; i < a->n; i++)
			gg_put_int(&s->w, a->ints[i]);
		break;
	case GG_ATTR_FLOATS:
		gg_put_array(&s->w, (size_t)a->n);
		for (int i = 0; i < a->n; i++)
			gg_put_f32(&s->w, a->floats[i]);
		break;
	case GG_ATTR_STRINGS:
		put_strings(s, a->strings, a->n);
		break;
	case GG_ATTR_DTYPE:
		put_wrapper(s, "dtype");
		gg_put_str(&s->w, gg_dtype_name(a->dtype));
		break;
	case GG_ATTR_TENSOR:
		put_wrapper(s, "tensor");
		put_tensor(s, a->tensor);
		break;
	case GG_ATTR_GRAPH:
		put_wrapper(s, "graph");
		save_body(s, a->graph);
		break;
	}
}

/* ---- node --------------------------------------------------------------------------------- */
static void save_node(save *s, const gg_node *n)
{
	gg_writer *w = &s->w;
	put_record(s, "node",
	           4u + !!n->nattr + !!n->nafter + !!n->ncap + !!n->nloc + !!n->kernel + !!n->stream +
	               count_extra(n->extra));
	put_key_int(s, "id", n->id);
	put_key_str(s, "op", n->op->name);
	gg_put_str(w, "in");
	gg_put_array(w, (size_t)n->nin);
	for (int i = 0; i < n->nin; i++)
		put_id(s, n->in[i].value);
	gg_put_str(w, "out");
	gg_put_array(w, (size_t)n->nout);
	for (int i = 0; i < n->nout; i++)
		put_id(s, n->out[i]);
	if (n->nattr) {
		gg_put_str(w, "attr");
		gg_put_map(w, (size_t)n->nattr);
		for (int i = 0; i < n->nattr; i++)
			save_attr(s, &n->attr[i]);
	}
	if (n->nafter) {
		gg_put_str(w, "after");
		gg_put_array(w, (size_t)n->nafter);
		for (int i = 0; i < n->nafter; i++)
			gg_put_int(w, n->after[i]->id);
	}
	if (n->ncap)
		put_key_int(s, "captures", n->ncap);
	if (n->nloc) {
		gg_put_str(w, "loc");
		put_strings(s, n->loc, n->nloc);
	}
	if (n->kernel)
		put_key_str(s, "kernel", n->kernel);
	if (n->stream)
		put_key_int(s, "stream", n->stream);
	put_extra(s, n->extra);
}

/* ---- graph -------------------------------------------------------------------------------- */
static void save_graph(save *s, const gg_graph *g)
{
	gg_writer *w = &s->w;
	bool name = g->owner && g->name;
	put_record(s, "graph", 2u + name + !!g->nstate + count_extra(g->extra));
	if (name)
		put_key_str(s, "name", g->name);
	gg_put_str(w, "in");
	gg_put_array(w, g->nin);
	for (size_t i = 0; i < g->nin; i++)
		put_id(s, g->in[i]);
	gg_put_str(w, "out");
	gg_put_array(w, g->nout);
	for (size_t i = 0; i < g->nout; i++)
		put_id(s, g->out[i]->value);
	if (g->nstate) {
		gg_put_str(w, "state");
		gg_put_map(w, g->nstate);
		for (size_t i = 0; i < g->nstate; i++) {
			gg_put_str(w, g->state[i]->param->name);
			put_id(s, g->state[i]->final.value);
		}
	}
	put_extra(s, g->extra);
}

/* ---- records ------------------------------------------------------------------------------ */
/* The id that an unknown record names, or 0. */
static uint64_t named_id(const gg_extra *x)
{
	gg_diag quiet = {.silent = true};
	gg_reader r = {.d = &quiet, .start = x->bytes, .p = x->bytes, .end = (const char *)x->bytes + x->len};
	uint32_t n = gg_take_map(&r, "record");
	for (uint32_t i = 0; i < n && !r.failed; i++) {
		if (gg_peek(&r) == GG_PACK_STR) {
			size_t len;
			const char *key = gg_take_str(&r, "key", &len);
			if (len == 2 && !memcmp(key, "id", 2) && gg_peek(&r) == GG_PACK_INT) {
				gg_token t = gg_take(&r);
				return t.negative ? 0 : t.n;
			}
		} else {
			gg_skip(&r, GG_LIMIT_DEPTH);
		}
		gg_skip(&r, GG_LIMIT_DEPTH);
	}
	return 0;
}

static void note_ids(save *s, const gg_graph *g)
{
	for (size_t i = 0; i < g->nin; i++)
		gg_map_put(&s->ids, g->in[i]->id, s);
	for (const gg_value *v = g->consts; v; v = v->next_const)
		gg_map_put(&s->ids, v->id, s);
	for (const gg_node *n = g->first; n; n = n->next) {
		const gg_graph *b;
		gg_map_put(&s->ids, n->id, s);
		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				gg_map_put(&s->ids, n->out[i]->id, s);
		for (int i = 0; (b = gg_body(n, i)); i++)
			note_ids(s, b);
	}
}

static bool is_live(save *s, const gg_extra *x)
{
	uint64_t id = strcmp(x->key, "plan") && strcmp(x->key, "blob") ? named_id(x) : 0;
	if (!id)
		return true;
	if (!s->ids.n)
		note_ids(s, s->m->main);
	return gg_map_get(&s->ids, id);
}

static void save_unknown(save *s, const gg_extra *x)
{
	for (; x; x = x->next) {
		if (!is_live(s, x)) {
			gg_note(s->d, "the record '%s' of %llu is dropped, since that is gone", x->key,
			        (unsigned long long)named_id(x));
			continue;
		}
		s->records++;
		gg_put_array(&s->w, 2);
		gg_put_str(&s->w, x->key);
		gg_put_raw(&s->w, x->bytes, x->len);
	}
}

static void save_records(save *s, const gg_graph *g)
{
	for (size_t i = 0; i < g->nin; i++)
		save_value(s, g->in[i]);
	for (const gg_value *v = g->consts; v; v = v->next_const) {
		save_value(s, v);
		save_data(s, v);
	}
	for (const gg_node *n = g->first; n; n = n->next) {
		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				save_value(s, n->out[i]);
		save_node(s, n);
	}
	save_unknown(s, g->owner ? g->records : s->m->records);
	save_graph(s, g);
}

/* The records of a body are counted before they are written; its writer is one of its own. */
static void save_body(save *s, const gg_graph *g)
{
	gg_buf b = {0};
	save inner = {.d = s->d, .m = s->m, .ids = s->ids};
	gg_writer_init(&inner.w, &b);
	save_records(&inner, g);
	s->ids = inner.ids;
	gg_put_array(&s->w, inner.records);
	gg_put_raw(&s->w, b.p, b.len);
	gg_buf_fini(&b);
}

static void save_header(save *s)
{
	gg_model *m = s->m;
	gg_writer *w = &s->w;
	put_record(s, "gg",
	           1u + !!m->name + !!m->stage + !!m->target + !!m->base + !!m->nhistory +
	               count_extra(m->extra));
	put_key_int(s, "v", GG_STREAM_VERSION);
	if (m->name)
		put_key_str(s, "name", m->name);
	if (m->stage)
		put_key_str(s, "stage", m->stage);
	if (m->target)
		put_key_str(s, "target", m->target);
	if (m->base)
		put_key_str(s, "base", m->base);
	if (m->nhistory) {
		gg_put_str(w, "history");
		gg_put_array(w, m->nhistory);
		for (size_t i = 0; i < m->nhistory; i++)
			put_strings(s, m->history[i].word, m->history[i].n);
	}
	put_extra(s, m->extra);
}

bool gg_write(gg_diag *d, gg_buf *b, gg_model *m)
{
	save s = {.d = d, .m = m};
	gg_writer_init(&s.w, b);
	save_header(&s);
	size_t from = b->len;
	save_records(&s, m->main);
	save_unknown(&s, m->blobs);
	uint32_t crc = gg_crc32(b->p + from, b->len - from);
	size_t records = s.records;
	put_record(&s, "end", 2);
	put_key_int(&s, "records", (int64_t)records);
	put_key_int(&s, "crc", crc);
	gg_map_fini(&s.ids);
	return true;
}

/* ---- constants inline ----------------------------------------------------------------------- */
static bool embed_graph(gg_diag *d, gg_graph *g)
{
	gg_graph *b;
	for (gg_value *v = g->consts; v; v = v->next_const) {
		const void *p;
		int64_t len;
		if (v->data->kind != GG_DATA_FILE)
			continue;
		if (!gg_data_bytes(d, g->m, v, &p, &len))
			return false;
		v->data->kind =
		    GG_DATA_INLINE; /* its bytes stay in the mapping, which lives with the model */
		v->data->bytes = p;
	}
	for (gg_node *n = g->first; n; n = n->next)
		for (int i = 0; (b = gg_body(n, i)); i++)
			if (!embed_graph(d, b))
				return false;
	return true;
}

bool gg_embed(gg_diag *d, gg_model *m) { return embed_graph(d, m->main); }
