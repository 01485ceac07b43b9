/* A model from its records; save.c is the mirror.
 *
 * Keys of a record may come in any order: fields() notes where each known one starts and keeps
 * the others, then the record's function reads them in the order it likes. */
#include "op.h"
#include "pack.h"
#include <stdlib.h>
#include <string.h>

/* A temp value whose node has not come yet. */
typedef struct temp {
	uint32_t id, alias;
	gg_dtype dtype;
	gg_layout layout;
	const char *name, *at;
	gg_graph *g; /* NULL: taken by its node, free */
	gg_shape shape;
	int64_t mem_off, mem_len;
	gg_extra *extra;
	struct temp *next, *next_free;
} temp;

typedef struct alias {
	gg_value *v;
	uint32_t id;
} alias;

enum { OPS = 64 };
typedef struct load {
	gg_diag *d;
	gg_reader *r;
	gg_model *m;
	bool json;
	int depth;    /* of bodies */
	void **dense; /* the same for small ids, which are nearly all of them */
	size_t ndense;
	gg_dim dim; /* the last symbolic one, as it was read */
	const char *dim_text;
	size_t dim_len;
	gg_map ids; /* id -> value, node or temp: see entry() */
	uint32_t max_id;
	gg_dtype dtype; /* read last */
	gg_arena scratch;
	temp *temps, *free_temps;
	size_t ntemps; /* not yet taken */
	alias *alias;
	size_t naliases, cap_aliases;
	gg_value **in;
	const char **out;
	temp **made; /* of the node's outputs */
	size_t cap_in, cap_out, cap_made;
	const gg_op *op[OPS];        /* found last, see find_op */
	gg_extra **records, **blobs; /* where the next one goes */
} load;

static bool bad(load *l, const char *at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool bad(load *l, const char *at, const char *fmt, ...)
{
	if (l->r->failed)
		return false;
	va_list ap;
	gg_buf b = {0};
	va_start(ap, fmt);
	gg_buf_vprintf(&b, fmt, ap);
	va_end(ap);
	gg_reader_fail(l->r, GG_MALFORMED, at, "%s", b.p);
	gg_buf_fini(&b);
	return false;
}

/* ---- fields ------------------------------------------------------------------------------- */
#define MAX_KEYS 16
typedef struct fields {
	const char *what, *const *keys;
	const char *start, *end;
	const char *at[MAX_KEYS]; /* get_fields: where the value of key k starts; NULL: not given */
	uint32_t left, seen;      /* pairs that have not come; bit k: key k has */
	int next;                 /* the key after the last one */
	gg_extra *extra, **tail;
} fields;

static void keep(load *l, fields *f, const char *key, size_t len, const char *from)
{
	gg_extra *x = gg_alloc(&l->m->arena, sizeof *x);
	x->key = gg_intern_n(key, len);
	x->len = (size_t)(l->r->p - from);
	x->bytes = memcpy(gg_alloc(&l->m->arena, x->len), from, x->len);
	*f->tail = x;
	f->tail = &x->next;
}

static bool is(const char *s, size_t len, const char *tag)
{
	size_t i = 0;
	while (i < len && tag[i] && s[i] == tag[i])
		i++;
	return i == len && !tag[i];
}

/* keys: in the order of the writer, so that the next one is nearly always the one looked for. */
static int find_key(const char *const *keys, int next, const char *s, size_t len)
{
	for (int k = next; keys[k]; k++)
		if (is(s, len, keys[k]))
			return k;
	for (int k = 0; k < next; k++)
		if (is(s, len, keys[k]))
			return k;
	return -1;
}

static void open_fields(load *l, fields *f, const char *what, const char *const *keys)
{
	f->what = what;
	f->keys = keys;
	f->start = l->r->p;
	f->seen = 0;
	f->next = 0;
	f->extra = 0;
	f->tail = &f->extra;
	f->left = gg_take_map(l->r, what);
}

/* The number of the next key; the reader stands at its value. What is not in the keys is kept.
 * Negative: there are no more, or the record is bad. */
static int next_field(load *l, fields *f)
{
	gg_reader *r = l->r;
	while (f->left && !r->failed) {
		size_t len;
		const char *at = r->p, *key = gg_take_str(r, f->what, &len), *from = r->p;
		if (r->failed)
			break;
		f->left--;
		int k = find_key(f->keys, f->next, key, len);
		if (k >= 0) {
			if (f->seen >> k & 1)
				bad(l, at, "%s: key '%s' is given twice", f->what, f->keys[k]);
			f->seen |= 1u << k;
			f->next = k + 1;
			return r->failed ? -1 : k;
		}
		if (len >= GG_LIMIT_NAME || memchr(key, 0, len)) {
			bad(l, at, "%s: a key that is no name", f->what);
			break;
		}
		gg_skip(r, GG_LIMIT_DEPTH);
		if (!r->failed)
			keep(l, f, key, len, from);
	}
	return -1;
}

/* Whether the record was read well and has its first n keys. */
static bool has_keys(load *l, const fields *f, int n)
{
	int k = __builtin_ctz(~f->seen);
	return !l->r->failed && (k >= n || bad(l, f->start, "%s: key '%s' is missing", f->what, f->keys[k]));
}

/* Where each value starts, for records whose keys hang on one another. */
static bool get_fields(load *l, fields *f, const char *what, const char *const *keys)
{
	int k;
	memset(f->at, 0, sizeof f->at);
	for (open_fields(l, f, what, keys); (k = next_field(l, f)) >= 0; gg_skip(l->r, GG_PACK_DEPTH))
		f->at[k] = l->r->p;
	f->end = l->r->p;
	return !l->r->failed;
}

/* Goes to the value of key k; false when it is not given. */
static bool seek(load *l, const fields *f, int k)
{
	if (l->r->failed || !f->at[k])
		return false;
	l->r->p = f->at[k];
	return true;
}

static bool need(load *l, const fields *f, int k, const char *what, const char *key)
{
	return seek(l, f, k) || bad(l, f->start, "%s: key '%s' is missing", what, key);
}

static bool finish(load *l, const fields *f)
{
	if (!l->r->failed)
		l->r->p = f->end;
	return !l->r->failed;
}

/* ---- ids ---------------------------------------------------------------------------------- */
enum { VALUE, NODE, TEMP }; /* in the low bits of the map's pointers, which are 16-byte aligned */

static int entry_kind(const void *e) { return (int)((uintptr_t)e & 3); }
static void *entry_ptr(const void *e) { return (void *)((uintptr_t)e & ~(uintptr_t)3); }

/* No record that has an id takes less than 16 bytes, so the table of ids that could have been
 * given out one by one is never larger than the stream. */
static bool is_dense(const load *l, uint32_t id) { return id < (size_t)(l->r->end - l->r->start) / 8; }

static void grow_dense(load *l, uint32_t id)
{
	size_t n = l->ndense ? l->ndense * 2 : 1024;
	while (n <= id)
		n *= 2;
	l->dense = gg_xrealloc(l->dense, n * sizeof *l->dense);
	memset(l->dense + l->ndense, 0, (n - l->ndense) * sizeof *l->dense);
	l->ndense = n;
}

static void *get_entry(const load *l, uint32_t id)
{
	void *e = id < l->ndense ? l->dense[id] : 0;
	return e || !l->ids.n ? e : gg_map_get(&l->ids, id); /* the table may have grown past it */
}

static void set_entry(load *l, uint32_t id, void *p, int kind)
{
	void *e = (void *)((uintptr_t)p | (uintptr_t)kind);
	if (id >= l->ndense && is_dense(l, id))
		grow_dense(l, id);
	if (id < l->ndense)
		l->dense[id] = e;
	else
		gg_map_put(&l->ids, id, e);
}

static uint32_t take_id(load *l, const char *what)
{
	return (uint32_t)gg_take_int(l->r, what, 1, UINT32_MAX - 1);
}

static uint32_t new_id(load *l, const char *what)
{
	const char *at = l->r->p;
	uint32_t id = take_id(l, what);
	if (!l->r->failed && get_entry(l, id))
		bad(l, at, "%s: id %u is taken", what, id);
	if (id > l->max_id)
		l->max_id = id;
	return l->r->failed ? 0 : id;
}

static gg_value *take_value(load *l, const gg_graph *g, const char *what)
{
	const char *at = l->r->p;
	uint32_t id = take_id(l, what);
	if (l->r->failed)
		return 0;
	void *e = get_entry(l, id);
	gg_value *v = e && entry_kind(e) == VALUE ? entry_ptr(e) : 0;
	if (e && entry_kind(e) == TEMP)
		bad(l, at, "%s: value '%s' is read before it is made", what, ((temp *)entry_ptr(e))->name);
	else if (!v)
		bad(l, at, "%s: there is no value %u", what, id);
	else if (g && v->graph != g)
		bad(l, at, "%s: value '%s' belongs to another graph", what, v->name);
	return l->r->failed ? 0 : v;
}

/* ---- value -------------------------------------------------------------------------------- */
/* The text before is tried first: a batch is in nearly every shape. */
static gg_dim take_symbolic_dim(load *l)
{
	const char *at = l->r->p;
	if (l->dim_len && (size_t)(l->r->end - at) >= l->dim_len && !memcmp(at, l->dim_text, l->dim_len)) {
		l->r->p = at + l->dim_len;
		return l->dim;
	}
	const char *text = gg_take_name(l->r, "dim");
	gg_dim d = 0;
	if (!text)
		return 0;
	if (!gg_dim_parse(text, &d)) {
		bad(l, at, "'%s' is not a dim", text);
		return 0;
	}
	l->dim = d;
	l->dim_text = at;
	l->dim_len = (size_t)(l->r->p - at);
	return d;
}

static gg_shape take_shape(load *l)
{
	const char *at = l->r->p;
	gg_shape s = {0};
	uint32_t n = gg_take_array(l->r, "shape");
	if (n > GG_MAX_RANK) {
		bad(l, at, "rank %u, at most %d", n, GG_MAX_RANK);
		return gg_shape_unknown;
	}
	for (uint32_t i = 0; i < n && !l->r->failed; i++) {
		if (gg_peek(l->r) != GG_PACK_STR) {
			s.dim[i] = gg_take_int(l->r, "dim", 0, INT64_MAX);
			continue;
		}
		s.dim[i] = take_symbolic_dim(l);
	}
	s.rank = (int)n;
	return l->r->failed ? gg_shape_unknown : s;
}

/* The same few names come again and again: the one before is tried first. */
static gg_dtype take_dtype(load *l)
{
	const char *at = l->r->p;
	size_t len = 0;
	const char *s = gg_take_str(l->r, "dtype", &len);
	if (s && l->dtype && is(s, len, gg_dtype_name(l->dtype)))
		return l->dtype;
	const char *name = s && len < 32 && !memchr(s, 0, len) ? gg_intern_n(s, len) : "";
	gg_dtype t = s ? gg_dtype_find(name) : GG_NONE;
	if (s && !t)
		gg_reader_fail(l->r, GG_UNSUPPORTED, at, "there is no dtype '%s'", name);
	return l->dtype = t;
}

static gg_layout take_layout(load *l)
{
	const char *at = l->r->p, *name = gg_take_name(l->r, "layout");
	gg_layout x = name ? gg_layout_find(name) : GG_PLAIN;
	if (x == GG_LAYOUTS) {
		gg_reader_fail(l->r, GG_UNSUPPORTED, at, "there is no layout '%s'", name);
		x = GG_PLAIN;
	}
	return x;
}

static int take_word(load *l, const char *what, const char *const *words, int n)
{
	const char *at = l->r->p;
	size_t len;
	const char *s = gg_take_str(l->r, what, &len);
	for (int i = 0; s && i < n; i++)
		if (is(s, len, words[i]))
			return i;
	if (s)
		bad(l, at, "%s: '%.*s' is none", what, (int)(len < 64 ? len : 64), s);
	return 0;
}

static temp *new_temp(load *l)
{
	temp *t = l->free_temps;
	if (t) {
		l->free_temps = t->next_free;
	} else {
		t = gg_alloc(&l->scratch, sizeof *t);
		t->next = l->temps;
		l->temps = t;
	}
	l->ntemps++;
	return t;
}

static void give_place(load *l, gg_value *v, const temp *t)
{
	v->id = t->id;
	v->dtype = (uint8_t)t->dtype;
	v->layout = (uint8_t)t->layout;
	v->shape = t->shape;
	v->mem_off = t->mem_off;
	v->mem_len = t->mem_len;
	v->extra = t->extra;
	set_entry(l, v->id, v, VALUE);
	if (t->alias) {
		alias a = {v, t->alias};
		GG_PUSH(l->alias, l->naliases, l->cap_aliases, a);
	}
}

static void take_place(load *l, temp *t)
{
	const char *at = l->r->p;
	if (gg_take_array(l->r, "mem") != 2) {
		bad(l, at, "mem: expected offset and length");
		return;
	}
	t->mem_off = gg_take_int(l->r, "mem", 0, INT64_MAX);
	t->mem_len = gg_take_int(l->r, "mem", 0, INT64_MAX - t->mem_off);
}

static bool load_value(load *l, gg_graph *g)
{
	static const char *const keys[] = {"id",     "name", "kind",  "dtype", "shape",
	                                   "layout", "mem",  "alias", 0};
	static const char *const kinds[] = {"input", "param", "const", "temp"};
	enum { ID, NAME, KIND, DTYPE, SHAPE, LAYOUT, MEM, ALIAS };
	fields f;
	temp t = {.at = l->r->p, .g = g, .mem_off = -1, .mem_len = -1};
	int kind = 0, k;
	t.shape.rank = -1;
	for (open_fields(l, &f, "value", keys); (k = next_field(l, &f)) >= 0;) {
		switch (k) {
		case ID:
			t.id = new_id(l, "value");
			break;
		case NAME:
			t.name = gg_take_name(l->r, "name");
			break;
		case KIND:
			kind = take_word(l, "kind", kinds, 4);
			break;
		case DTYPE:
			t.dtype = take_dtype(l);
			break;
		case SHAPE:
			t.shape = take_shape(l);
			break;
		case LAYOUT:
			t.layout = take_layout(l);
			break;
		case MEM:
			take_place(l, &t);
			break;
		case ALIAS:
			t.alias = take_id(l, "alias");
			break;
		}
	}
	if (!has_keys(l, &f, 3))
		return false;
	t.extra = f.extra;
	if (kind == GG_TEMP) {
		temp *to = new_temp(l);
		t.next = to->next;
		*to = t;
		set_entry(l, t.id, to, TEMP);
	} else if (kind == GG_INPUT) {
		give_place(l, gg_add_input(g, t.name, t.dtype, &t.shape), &t);
	} else {
		give_place(l, gg_add_const(g, (gg_kind)kind, t.name, t.dtype, &t.shape, 0), &t);
	}
	return true;
}

/* ---- data --------------------------------------------------------------------------------- */
enum { D_ID, D_FILE, D_OFF, D_LEN, D_SIZE, D_MTIME, D_HASH, D_BYTES, D_FILL, D_SEED, D_A, D_B, D_STRINGS };

static int64_t need_int(load *l, const fields *f, int k, const char *key)
{
	return need(l, f, k, "data", key) ? gg_take_int(l->r, key, 0, INT64_MAX) : 0;
}

static gg_data *new_data(load *l, gg_data_kind kind)
{
	gg_data *x = gg_alloc(&l->m->arena, sizeof *x);
	x->kind = kind;
	return x;
}

static gg_data *load_file(load *l, const fields *f)
{
	gg_data *x = new_data(l, GG_DATA_FILE);
	x->file = gg_take_name(l->r, "file");
	x->off = need_int(l, f, D_OFF, "off");
	x->len = need_int(l, f, D_LEN, "len");
	x->size = need_int(l, f, D_SIZE, "size");
	x->mtime = need(l, f, D_MTIME, "data", "mtime") ? gg_take_int(l->r, "mtime", INT64_MIN, INT64_MAX)
	                                                : 0;
	x->hash = seek(l, f, D_HASH) ? gg_take_name(l->r, "hash") : 0;
	if (x->off > INT64_MAX - x->len)
		bad(l, f->start, "data: offset and length are out of range");
	return x;
}

static gg_data *load_fill(load *l, const fields *f)
{
	static const char *const fills[] = {"zeros", "ones", "normal", "uniform"};
	gg_data *x = new_data(l, GG_DATA_FILL);
	x->fill = (gg_fill)take_word(l, "fill", fills, 4);
	if (x->fill == GG_FILL_ZEROS || x->fill == GG_FILL_ONES)
		return x;
	x->seed = need(l, f, D_SEED, "data", "seed") ? gg_take_u64(l->r, "seed") : 0;
	x->a = need(l, f, D_A, "data", "a") ? gg_take_number(l->r, "a") : 0;
	x->b = need(l, f, D_B, "data", "b") ? gg_take_number(l->r, "b") : 0;
	return x;
}

/* Strings as an array of pointers, which is their memory form too. *n is how many there must be. */
static const char **take_strings(load *l, const char *what, int64_t want)
{
	const char *at = l->r->p;
	uint32_t n = gg_take_array(l->r, what);
	if (!l->r->failed && (int64_t)n != want)
		bad(l, at, "%s: %u strings, expected %lld", what, n, (long long)want);
	const char **s = gg_alloc_n(&l->m->arena, l->r->failed ? 0 : n, sizeof *s);
	for (uint32_t i = 0; i < n && !l->r->failed; i++) {
		at = l->r->p;
		size_t len;
		const char *p = gg_take_str(l->r, what, &len);
		if (p && len && memchr(p, 0, len))
			bad(l, at, "%s: a string with a zero byte in it", what);
		s[i] = l->r->failed ? 0 : gg_intern_n(p, len);
	}
	return s;
}

/* The packed size of a tensor; false when it has none that memory could hold. */
static bool packed_size(load *l, gg_dtype t, const gg_shape *s, const char *at, const char *what,
                        int64_t *count, int64_t *len)
{
	int64_t bytes;
	if (!t || !gg_shape_known(s) || !gg_size_of(t, s, &bytes))
		return bad(l, at, "%s: no dtype, or no size that memory could hold", what);
	*count = gg_shape_count(s);
	*len = t == GG_STRING ? bytes : (int64_t)gg_packed_bytes(t, *count);
	return true;
}

static gg_data *load_strings(load *l, const fields *f, const gg_value *v)
{
	int64_t count = 0, len = 0;
	if (v->dtype != GG_STRING) {
		bad(l, f->start, "data: '%s' holds no strings", v->name);
		return 0;
	}
	const char *at = l->r->p;
	if (!packed_size(l, GG_STRING, &v->shape, at, v->name, &count, &len))
		return 0;
	gg_data *x = new_data(l, GG_DATA_INLINE);
	x->bytes = take_strings(l, "strings", count);
	x->len = len;
	return x;
}

/* One chunk: the first one makes room for all of them, once it is known that all could be there. */
static gg_data *load_bytes(load *l, const fields *f, const gg_value *v)
{
	int64_t count = 0, len = 0;
	const char *at = l->r->p;
	if (v->dtype == GG_STRING || !packed_size(l, v->dtype, &v->shape, f->start, v->name, &count, &len)) {
		bad(l, at, "data: '%s' holds strings", v->name);
		return 0;
	}
	gg_token t = gg_take(l->r);
	if (t.type != GG_PACK_BIN || t.n > GG_LIMIT_CHUNK) {
		bad(l, at, "bytes: expected at most %d bytes", GG_LIMIT_CHUNK);
		return 0;
	}
	int64_t off = need_int(l, f, D_OFF, "off");
	gg_data *x = v->data;
	if (!x) {
		if (len > l->r->end - t.s) {
			bad(l, at, "data: '%s' takes %lld bytes, the stream has not that many", v->name,
			    (long long)len);
			return 0;
		}
		x = new_data(l, GG_DATA_INLINE);
		x->bytes = gg_alloc(&l->m->arena, (size_t)len);
	}
	if (x->kind != GG_DATA_INLINE || off != x->len || (int64_t)t.n > len - off) {
		bad(l, at, "data: %llu bytes at %lld do not continue '%s', which has %lld of %lld",
		    (unsigned long long)t.n, (long long)off, v->name, (long long)x->len, (long long)len);
		return 0;
	}
	if (t.n && !l->r->failed)
		memcpy((char *)x->bytes + off, t.s, t.n);
	x->len += (int64_t)t.n;
	return x;
}

static bool load_data(load *l, gg_graph *g)
{
	static const char *const keys[] = {"id",    "file", "off",  "len", "size", "mtime",   "hash",
	                                   "bytes", "fill", "seed", "a",   "b",    "strings", 0};
	fields f;
	if (!get_fields(l, &f, "data", keys) || !need(l, &f, D_ID, "data", "id"))
		return false;
	gg_value *v = take_value(l, g, "data");
	if (!v)
		return false;
	if (v->kind != GG_PARAM && v->kind != GG_CONST)
		return bad(l, f.start, "data: '%s' is neither param nor const", v->name);
	if (v->data && !f.at[D_BYTES])
		return bad(l, f.start, "data: '%s' has its data already", v->name);
	if (!f.at[D_FILE] + !f.at[D_FILL] + !f.at[D_STRINGS] + !f.at[D_BYTES] != 3)
		return bad(l, f.start, "data: expected one of file, bytes, fill, strings");
	gg_data *x = seek(l, &f, D_FILE)      ? load_file(l, &f)
	             : seek(l, &f, D_FILL)    ? load_fill(l, &f)
	             : seek(l, &f, D_STRINGS) ? load_strings(l, &f, v)
	             : seek(l, &f, D_BYTES)   ? load_bytes(l, &f, v)
	                                      : 0;
	if (l->r->failed)
		return false;
	v->data = x;
	if (!x->extra)
		x->extra = f.extra;
	return finish(l, &f);
}

/* ---- attributes --------------------------------------------------------------------------- */
static bool load_graph_records(load *l, gg_graph *g);

/* dtype, tensor and graph values stand in a map of one key that says which. */
static bool take_wrapper(load *l, const char *key)
{
	const char *at = l->r->p;
	size_t len = 0;
	const char *s = gg_take_map(l->r, key) == 1 ? gg_take_str(l->r, key, &len) : 0;
	return (s && len == strlen(key) && !memcmp(s, key, len)) || bad(l, at, "expected {\"%s\": ...}", key);
}

static const gg_tensor *take_tensor(load *l)
{
	static const char *const keys[] = {"dtype", "shape", "bytes", "strings", 0};
	enum { DTYPE, SHAPE, BYTES, STRINGS };
	fields f;
	gg_tensor *t = gg_alloc(&l->m->arena, sizeof *t);
	if (!get_fields(l, &f, "tensor", keys))
		return 0;
	if (f.extra) {
		bad(l, f.start, "tensor: unknown key '%s'", f.extra->key);
		return 0;
	}
	t->dtype = need(l, &f, DTYPE, "tensor", "dtype") ? take_dtype(l) : GG_NONE;
	t->shape = need(l, &f, SHAPE, "tensor", "shape") ? take_shape(l) : gg_shape_unknown;
	int64_t count = 0, len = 0;
	if (l->r->failed || !packed_size(l, t->dtype, &t->shape, f.start, "tensor", &count, &len))
		return 0;
	if (t->dtype == GG_STRING) {
		t->data = need(l, &f, STRINGS, "tensor", "strings") ? take_strings(l, "strings", count) : 0;
	} else if (need(l, &f, BYTES, "tensor", "bytes")) {
		gg_token b = gg_take(l->r);
		if (b.type != GG_PACK_BIN || b.n != (uint64_t)len) {
			bad(l, f.at[BYTES], "tensor: expected %lld bytes", (long long)len);
			return 0;
		}
		unsigned char *to = gg_alloc(&l->m->arena, gg_nbytes(t));
		const unsigned char *from = (const unsigned char *)b.s;
		if (gg_dtype_bits(t->dtype) != 4 && len)
			memcpy(to, from, (size_t)len);
		for (int64_t i = 0; gg_dtype_bits(t->dtype) == 4 && i < count; i++) {
			unsigned x = from[i / 2] >> (i % 2 * 4) & 15;
			to[i] = (unsigned char)(t->dtype == GG_I4 && x & 8 ? x | 0xf0 : x);
		}
		t->data = to;
	}
	finish(l, &f);
	return t;
}

static gg_graph *take_body(load *l, gg_node *n)
{
	if (l->depth == GG_LIMIT_DEPTH) {
		bad(l, 0, "bodies are nested more than %d deep", GG_LIMIT_DEPTH);
		return 0;
	}
	gg_graph *g = gg_graph_new(l->m, 0);
	g->owner = n;
	l->depth++;
	load_graph_records(l, g);
	l->depth--;
	return g;
}

/* A string attribute: any length, but no zero byte. */
static const char *take_text(load *l, const char *what)
{
	const char *at = l->r->p;
	size_t len;
	const char *s = gg_take_str(l->r, what, &len);
	if (s && len && memchr(s, 0, len))
		bad(l, at, "attribute '%s': a string with a zero byte in it", what);
	return l->r->failed ? "" : gg_intern_n(s, len);
}

static void take_list(load *l, gg_attr *a)
{
	gg_arena *arena = &l->m->arena;
	uint32_t n = gg_take_array(l->r, a->name);
	a->n = (int)n;
	if (n > INT32_MAX)
		bad(l, 0, "attribute '%s': too many elements", a->name);
	if (l->r->failed)
		return;
	if (a->type == GG_ATTR_INTS) {
		int64_t *x = gg_alloc_n(arena, n, sizeof *x);
		for (uint32_t i = 0; i < n; i++)
			x[i] = gg_take_int(l->r, a->name, INT64_MIN, INT64_MAX);
		a->ints = x;
	} else if (a->type == GG_ATTR_FLOATS) {
		float *x = gg_alloc_n(arena, n, sizeof *x);
		for (uint32_t i = 0; i < n; i++)
			x[i] = gg_take_f32(l->r, a->name);
		a->floats = x;
	} else {
		const char **x = gg_alloc_n(arena, n, sizeof *x);
		for (uint32_t i = 0; i < n; i++)
			x[i] = take_text(l, a->name);
		a->strings = x;
	}
}

static void take_attr(load *l, gg_node *n, gg_attr *a)
{
	switch (a->type) {
	case GG_ATTR_INT:
		a->i = gg_take_int(l->r, a->name, INT64_MIN, INT64_MAX);
		break;
	case GG_ATTR_FLOAT:
		a->f = gg_take_f32(l->r, a->name);
		break;
	case GG_ATTR_STRING:
		a->s = take_text(l, a->name);
		break;
	case GG_ATTR_INTS:
	case GG_ATTR_FLOATS:
	case GG_ATTR_STRINGS:
		take_list(l, a);
		break;
	case GG_ATTR_DTYPE:
		a->dtype = take_wrapper(l, "dtype") ? take_dtype(l) : GG_NONE;
		break;
	case GG_ATTR_TENSOR:
		a->tensor = take_wrapper(l, "tensor") ? take_tensor(l) : 0;
		break;
	case GG_ATTR_GRAPH:
		a->graph = take_wrapper(l, "graph") ? take_body(l, n) : 0;
		break;
	}
}

/* Attributes stand in schema order in memory; rows of a schema lie in that order. */
static void place_attr(gg_node *n, const gg_attr *a)
{
	int i = n->nattr++;
	const gg_attr_spec *row = gg_op_attr(n->op, a->name);
	for (; i > 0 && gg_op_attr(n->op, n->attr[i - 1].name) > row; i--)
		n->attr[i] = n->attr[i - 1];
	n->attr[i] = *a;
}

static void load_attrs(load *l, gg_node *n)
{
	gg_reader *r = l->r;
	uint32_t count = gg_take_map(r, "attr");
	if (!r->failed)
		n->attr = gg_alloc_n(&l->m->arena, count, sizeof *n->attr);
	for (uint32_t i = 0; i < count && !r->failed; i++) {
		const char *at = r->p;
		gg_attr a = {.name = gg_take_name(r, "attr")};
		const gg_attr_spec *row = a.name ? gg_op_attr(n->op, a.name) : 0;
		if (r->failed)
			break;
		if (!row) {
			gg_reader_fail(r, GG_UNSUPPORTED, at, "node '%s' (%s): it has no attribute '%s'",
			               gg_node_name(n), n->op->name, a.name);
			break;
		}
		if (gg_find_attr(n, a.name)) {
			bad(l, at, "node '%s' (%s): attribute '%s' is given twice", gg_node_name(n),
			    n->op->name, a.name);
			break;
		}
		a.type = row->type;
		take_attr(l, n, &a);
		if (!r->failed)
			place_attr(n, &a);
	}
	if (r->failed) /* nothing half read may be looked at */
		n->nattr = 0;
}

/* ---- node --------------------------------------------------------------------------------- */
/* A stream has few ops: what has the same length and ends was nearly always the same one before. */
static const gg_op *find_op(load *l, const char *s, size_t len)
{
	const gg_op **last =
	    &l->op[len ? (len + 7u * (unsigned char)s[0] + (unsigned char)s[len - 1]) % OPS : 0];
	if (*last && is(s, len, (*last)->name))
		return *last;
	return *last = len < 256 && !(len && memchr(s, 0, len)) ? gg_op_find(gg_intern_n(s, len)) : 0;
}

static void unknown_op(load *l, const char *at, const gg_node *x, int nout)
{
	const char *who = x->nloc > 1 ? x->loc[1] : nout && l->out[0] ? l->out[0] : "?";
	l->r->p = at;
	const char *name = gg_take_name(l->r, "op"), *near = name ? gg_op_nearest(name) : 0;
	if (name)
		gg_reader_fail(l->r, GG_UNSUPPORTED, at, "node '%s' (%s): there is no op '%s'%s%s%s", who,
		               name, name, near ? "; did you mean '" : "", near ? near : "",
		               near ? "'?" : "");
}

static int take_inputs(load *l, const gg_graph *g)
{
	uint32_t n = gg_take_array(l->r, "in");
	if (n > INT32_MAX / 2)
		bad(l, 0, "in: %u are too many", n);
	for (uint32_t i = 0; i < n && !l->r->failed; i++) {
		gg_value *v = 0;
		if (gg_peek(l->r) == GG_PACK_NIL)
			gg_take(l->r);
		else
			v = take_value(l, g, "in");
		size_t at = i;
		GG_PUSH(l->in, at, l->cap_in, v);
	}
	return (int)n;
}

static temp *take_temp(load *l, const gg_graph *g)
{
	const char *at = l->r->p;
	if (gg_peek(l->r) == GG_PACK_NIL) {
		gg_take(l->r);
		return 0;
	}
	uint32_t id = take_id(l, "out");
	void *e = get_entry(l, id);
	temp *t = e && entry_kind(e) == TEMP ? entry_ptr(e) : 0;
	if (!l->r->failed && !e)
		bad(l, at, "out: there is no value %u", id);
	else if (!t)
		bad(l, at, "out: %u is not a temp value, or made twice", id);
	else if (t->g != g)
		bad(l, at, "out: value '%s' belongs to another graph", t->name);
	return l->r->failed ? 0 : t;
}

/* A value taken belongs to no graph any more, so that it is not taken twice. */
static int take_outputs(load *l, const gg_graph *g)
{
	uint32_t n = gg_take_array(l->r, "out");
	if (n > INT32_MAX / 2)
		bad(l, 0, "out: %u are too many", n);
	for (uint32_t i = 0; i < n && !l->r->failed; i++) {
		temp *t = take_temp(l, g);
		const char *name = t ? t->name : 0;
		size_t at = i;
		GG_PUSH(l->out, at, l->cap_out, name);
		at = i;
		GG_PUSH(l->made, at, l->cap_made, t);
	}
	return (int)n;
}

static void claim_outputs(load *l, gg_node *n)
{
	for (int i = 0; i < n->nout; i++) {
		temp *t = l->made[i];
		if (!t)
			continue;
		if (!t->g) {
			bad(l, t->at, "value '%s' is made twice", t->name);
			return;
		}
		give_place(l, n->out[i], t);
		t->g = 0;
		t->next_free = l->free_temps;
		l->free_temps = t;
		l->ntemps--;
	}
}

static void take_after(load *l, gg_node *x)
{
	uint32_t count = gg_take_array(l->r, "after");
	for (uint32_t i = 0; i < count && !l->r->failed; i++) {
		const char *at = l->r->p;
		uint32_t id = take_id(l, "after");
		void *e = get_entry(l, id);
		gg_node *pred = e && entry_kind(e) == NODE ? entry_ptr(e) : 0;
		if (!pred) {
			bad(l, at, "after: there is no node %u before this one", id);
			break;
		}
		gg_add_after(x, pred);
	}
}

static void take_loc(load *l, gg_node *x)
{
	uint32_t count = gg_take_array(l->r, "loc");
	if (l->r->failed)
		return;
	x->loc = gg_alloc_n(&l->m->arena, count, sizeof *x->loc);
	for (uint32_t i = 0; i < count && !l->r->failed; i++)
		x->loc[i] = gg_take_name(l->r, "loc");
	x->nloc = l->r->failed ? 0 : (int)count;
}

/* The attributes come last, wherever they stand: their types are the op's. */
static bool load_node(load *l, gg_graph *g)
{
	static const char *const keys[] = {"id",       "op",  "in",     "out",    "attr", "after",
	                                   "captures", "loc", "kernel", "stream", 0};
	enum { ID, OP, IN, OUT, ATTR, AFTER, CAPTURES, LOC, KERNEL, STREAM };
	fields f;
	gg_node x = {.graph = g};
	const char *op = 0, *attr = 0, *captures = 0;
	int nin = 0, nout = 0, k;
	for (open_fields(l, &f, "node", keys); (k = next_field(l, &f)) >= 0;) {
		const char *at = l->r->p;
		size_t len;
		switch (k) {
		case ID:
			x.id = new_id(l, "node");
			break;
		case OP:
			op = gg_take_str(l->r, "op", &len);
			x.op = op ? find_op(l, op, len) : 0;
			op = at;
			break;
		case IN:
			nin = take_inputs(l, g);
			break;
		case OUT:
			nout = take_outputs(l, g);
			break;
		case ATTR:
			attr = at;
			gg_skip(l->r, GG_PACK_DEPTH);
			break;
		case AFTER:
			take_after(l, &x);
			break;
		case CAPTURES:
			captures = at;
			x.ncap = (int)gg_take_int(l->r, "captures", 0, INT32_MAX);
			break;
		case LOC:
			take_loc(l, &x);
			break;
		case KERNEL:
			x.kernel = gg_take_name(l->r, "kernel");
			break;
		case STREAM:
			x.stream = (int)gg_take_int(l->r, "stream", INT32_MIN, INT32_MAX);
			break;
		}
	}
	if (!has_keys(l, &f, 4))
		return false;
	if (!x.op)
		unknown_op(l, op, &x, nout);
	if (x.ncap > nin)
		bad(l, captures, "captures: %d is out of range", x.ncap);
	if (l->r->failed)
		return false;
	gg_node *n = gg_add_named(g, 0, x.op, nin, l->in, nout, l->out);
	n->id = x.id;
	n->extra = f.extra;
	n->after = x.after;
	n->nafter = x.nafter;
	n->ncap = x.ncap;
	n->loc = x.loc;
	n->nloc = x.nloc;
	n->kernel = x.kernel;
	n->stream = x.stream;
	claim_outputs(l, n);
	if (attr) {
		const char *end = l->r->p;
		l->r->p = attr;
		load_attrs(l, n);
		l->r->p = l->r->failed ? l->r->p : end;
	}
	set_entry(l, n->id, n, NODE); /* last: it is no predecessor of itself */
	return !l->r->failed;
}

/* ---- graph -------------------------------------------------------------------------------- */
enum { LISTED = 1, NO_RING = 2, FIRST_WALK = 3 }; /* marks of values, all 0 at first */

static bool load_inputs(load *l, gg_graph *g)
{
	const char *at = l->r->p;
	uint32_t n = gg_take_array(l->r, "in");
	if (!l->r->failed && n != g->nin)
		return bad(l, at, "in: %u listed, but there are %zu input values", n, g->nin);
	gg_value **in = gg_alloc_n(&l->m->arena, l->r->failed ? 0 : n, sizeof *in);
	for (uint32_t i = 0; i < n && !l->r->failed; i++) {
		at = l->r->p;
		gg_value *v = take_value(l, g, "in");
		if (!v)
			return false;
		if (v->kind != GG_INPUT || v->mark == LISTED)
			return bad(l, at, "in: '%s' is not an input, or listed twice", v->name);
		v->mark = LISTED;
		v->index = (int)i;
		in[i] = v;
	}
	if (l->r->failed)
		return false;
	g->in = in;
	g->cap_in = n;
	return true;
}

static bool load_outputs(load *l, gg_graph *g)
{
	uint32_t n = gg_take_array(l->r, "out");
	for (uint32_t i = 0; i < n && !l->r->failed; i++) {
		gg_value *v = take_value(l, g, "out");
		if (v)
			gg_add_output(g, v);
	}
	return !l->r->failed;
}

static bool load_state(load *l, gg_graph *g)
{
	uint32_t n = gg_take_map(l->r, "state");
	for (uint32_t i = 0; i < n && !l->r->failed; i++) {
		const char *at = l->r->p, *name = gg_take_name(l->r, "state");
		gg_value *param = name ? gg_find_value(g, name) : 0;
		if (name && (!param || param->kind != GG_PARAM))
			return bad(l, at, "state: '%s' is not a param", name);
		gg_value *final = take_value(l, g, "state");
		if (final)
			gg_add_state(g, param, final);
	}
	return !l->r->failed;
}

/* The last record of a graph: what it needs must all have come. */
static bool load_graph(load *l, gg_graph *g)
{
	static const char *const keys[] = {"name", "in", "out", "state", 0};
	enum { NAME, IN, OUT, STATE };
	fields f;
	if (!get_fields(l, &f, "graph", keys))
		return false;
	for (const temp *t = l->ntemps ? l->temps : 0; t; t = t->next)
		if (t->g == g)
			return bad(l, t->at, "value '%s' is made by no node", t->name);
	g->extra = f.extra;
	if (seek(l, &f, NAME))
		g->name = gg_take_name(l->r, "name");
	if (need(l, &f, IN, "graph", "in"))
		load_inputs(l, g);
	if (need(l, &f, OUT, "graph", "out"))
		load_outputs(l, g);
	if (seek(l, &f, STATE))
		load_state(l, g);
	return finish(l, &f);
}

/* ---- records ------------------------------------------------------------------------------ */
static const char *take_tag(load *l, size_t *len)
{
	const char *at = l->r->p;
	if (l->r->p == l->r->end) {
		gg_take(l->r); /* says that the stream ends here */
		return 0;
	}
	if (gg_take_array(l->r, "record") != 2) {
		bad(l, at, "record: expected [tag, map]");
		return 0;
	}
	const char *tag = gg_take_str(l->r, "tag", len);
	if (tag && (*len >= GG_LIMIT_NAME || (*len && memchr(tag, 0, *len)))) {
		bad(l, at, "record: a tag that is no name");
		return 0;
	}
	return tag;
}

/* A record that nobody here knows, or that only the executor does: kept as it is. */
static void keep_record(load *l, gg_extra ***tail, const char *tag, size_t len)
{
	const char *from = l->r->p;
	gg_take_map(l->r, "record");
	l->r->p = l->r->failed ? l->r->p : from;
	gg_skip(l->r, GG_LIMIT_DEPTH);
	if (l->r->failed)
		return;
	fields f = {.tail = *tail};
	keep(l, &f, tag, len, from);
	*tail = f.tail;
}

/* True: that was a record of a graph's contents (well read or not). */
static bool load_content(load *l, gg_graph *g, const char *tag, size_t len)
{
	if (is(tag, len, "value"))
		load_value(l, g);
	else if (is(tag, len, "node"))
		load_node(l, g);
	else if (is(tag, len, "data"))
		load_data(l, g);
	else
		return false;
	return true;
}

/* A body: an array of records, the graph record last. */
static bool load_graph_records(load *l, gg_graph *g)
{
	const char *at = l->r->p;
	uint32_t n = gg_take_array(l->r, "graph");
	gg_extra **tail = &g->records;
	for (uint32_t i = 0; i < n && !l->r->failed; i++) {
		size_t len;
		const char *from = l->r->p, *tag = take_tag(l, &len);
		if (!tag)
			return false;
		if (i + 1 == n) {
			if (!is(tag, len, "graph"))
				return bad(l, from, "body: its last record must be 'graph'");
			return load_graph(l, g);
		}
		if (is(tag, len, "graph"))
			return bad(l, from, "body: a record after 'graph'");
		if (!load_content(l, g, tag, len))
			keep_record(l, &tail, tag, len);
	}
	return bad(l, at, "body: it has no records");
}

static void load_history(load *l)
{
	gg_model *m = l->m;
	uint32_t n = gg_take_array(l->r, "history");
	for (uint32_t i = 0; i < n && !l->r->failed; i++) {
		uint32_t k = gg_take_array(l->r, "history");
		gg_step s = {.word = gg_alloc_n(&m->arena, l->r->failed ? 0 : k, sizeof *s.word),
		             .n = (int)k};
		for (uint32_t w = 0; w < k && !l->r->failed; w++)
			s.word[w] = gg_take_name(l->r, "history");
		m->history = gg_grow_in(&m->arena, m->history, m->nhistory, &m->cap_history,
		                        sizeof *m->history);
		if (!l->r->failed)
			m->history[m->nhistory++] = s;
	}
}

static bool load_header(load *l)
{
	static const char *const keys[] = {"v", "name", "stage", "target", "base", "history", 0};
	enum { V, NAME, STAGE, TARGET, BASE, HISTORY };
	fields f;
	size_t len;
	const char *at = l->r->p, *tag = take_tag(l, &len);
	if (!tag || !is(tag, len, "gg"))
		return bad(l, at, "this is not a gg stream");
	if (!get_fields(l, &f, "gg", keys) || !need(l, &f, V, "gg", "v"))
		return false;
	int64_t v = gg_take_int(l->r, "v", INT64_MIN, INT64_MAX);
	if (v != GG_STREAM_VERSION)
		return gg_reader_fail(l->r, GG_UNSUPPORTED, f.at[V],
		                      "stream version %lld; this is for version %d", (long long)v,
		                      GG_STREAM_VERSION);
	l->m->extra = f.extra;
	if (seek(l, &f, NAME))
		l->m->name = l->m->main->name = gg_take_name(l->r, "name");
	if (seek(l, &f, STAGE))
		l->m->stage = gg_take_name(l->r, "stage");
	if (seek(l, &f, TARGET))
		l->m->target = gg_take_name(l->r, "target");
	if (seek(l, &f, BASE))
		l->m->base = gg_take_name(l->r, "base");
	if (seek(l, &f, HISTORY))
		load_history(l);
	return finish(l, &f);
}

/* from: where the summed records start; to: where the end record starts. */
static bool load_end(load *l, const char *from, const char *to)
{
	static const char *const keys[] = {"records", "crc", 0};
	enum { RECORDS, CRC };
	fields f;
	if (!get_fields(l, &f, "end", keys))
		return false;
	if (l->json)
		return true;
	if (!need(l, &f, RECORDS, "end", "records"))
		return false;
	uint64_t n = gg_take_u64(l->r, "records");
	if (!l->r->failed && n != l->r->records)
		return bad(l, to, "the end record counts %llu records, there are %zu", (unsigned long long)n,
		           l->r->records);
	if (!need(l, &f, CRC, "end", "crc"))
		return false;
	uint64_t crc = gg_take_u64(l->r, "crc");
	if (!l->r->failed && crc != gg_crc32(from, (size_t)(to - from)))
		return bad(
		    l, to,
		    "the sum over the records is not that of the end record: they were changed on the way");
	return finish(l, &f);
}

static bool load_records(load *l)
{
	bool have_graph = false;
	if (!load_header(l))
		return false;
	const char *from = l->r->p;
	for (;;) {
		l->r->records++;
		size_t len;
		const char *at = l->r->p, *tag = take_tag(l, &len);
		if (!tag)
			return false;
		if (is(tag, len, "end"))
			return (have_graph || bad(l, at, "there is no graph record")) &&
			       load_end(l, from, at);
		if (is(tag, len, "plan") || is(tag, len, "blob"))
			keep_record(l, &l->blobs, tag, len);
		else if (is(tag, len, "gg"))
			bad(l, at, "a second header, and no end record before it");
		else if (have_graph && (is(tag, len, "graph") || is(tag, len, "value") ||
		                        is(tag, len, "node") || is(tag, len, "data")))
			bad(l, at, "a %.*s record after the graph record", (int)len, tag);
		else if (is(tag, len, "graph"))
			have_graph = load_graph(l, l->m->main);
		else if (!load_content(l, l->m->main, tag, len))
			keep_record(l, have_graph ? &l->blobs : &l->records, tag, len);
		if (l->r->failed)
			return false;
	}
}

static bool resolve_aliases(load *l)
{
	for (size_t i = 0; i < l->naliases; i++) {
		void *e = get_entry(l, l->alias[i].id);
		gg_value *v = l->alias[i].v, *to = e && entry_kind(e) == VALUE ? entry_ptr(e) : 0;
		if (!to || to->graph != v->graph)
			return gg_error(l->d, GG_MALFORMED,
			                "value '%s' shares the memory of value %u, which is not there",
			                v->name, l->alias[i].id);
		v->alias = to;
	}
	for (size_t i = 0; i < l->naliases; i++) { /* a ring would be walked forever */
		gg_value *v = l->alias[i].v;
		for (; v && v->mark < NO_RING; v = v->alias)
			v->mark = FIRST_WALK + i;
		if (v && v->mark == FIRST_WALK + i)
			return gg_error(l->d, GG_MALFORMED, "value '%s' shares memory with itself", v->name);
		for (v = l->alias[i].v; v && v->mark == FIRST_WALK + i; v = v->alias)
			v->mark = NO_RING;
	}
	return true;
}

int gg_load(gg_reader *r, bool json, gg_model **out)
{
	load l = {.d = r->d, .r = r, .m = gg_model_new(0), .json = json};
	l.records = &l.m->records;
	l.blobs = &l.m->blobs;
	bool good = load_records(&l) && resolve_aliases(&l);
	if (good) {
		l.m->next_id = l.max_id + 1;
		good = gg_check(l.d, l.m);
	}
	gg_map_fini(&l.ids);
	free(l.dense);
	gg_arena_fini(&l.scratch);
	free(l.alias);
	free(l.in);
	free(l.out);
	free(l.made);
	if (!good) {
		gg_model_free(l.m);
		return -1;
	}
	*out = l.m;
	return 1;
}
